from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from nicrails_faker.arguments import ArgumentsError
from nicrails_faker.dcgm import app
from nicrails_faker.kubelet import Held
from nicrails_faker.mig import NodeTopology, parse_request, plan, write_topology
from nicrails_faker.running import ServiceApp
from tests.faker.kubelet.double import FakePodResources
from tests.faker.scene import Scene, Service
from tests.faker.smi.topologies import MIG, whole
from tests.support.waiting import eventually

NODE = "node1"


class Stage:
    """A Node on a scene: its kubelet's account of devices, and its topology."""

    def __init__(self, scene: Scene, folder: Path) -> None:
        self.scene = scene
        self.kubelet = FakePodResources(folder / "k.sock")

    def build(self, service: ServiceApp) -> None:
        """The service with short pauses."""
        app.build(
            service,
            node=NODE,
            namespace=self.scene.world.namespace,
            name="topology",
            pod_resources=self.kubelet.socket,
            interval=0.1,
        )

    def hold(self, *devices: str) -> None:
        """The kubelet says from now on that a container holds these."""
        self.kubelet.held = [
            Held(resource="nvidia.com/gpu", device=device, namespace="ns", pod="p", container="c") for device in devices
        ]

    async def write(self, topology: NodeTopology | str) -> None:
        """Write the topology, or a text in its place."""
        text = topology if isinstance(topology, str) else write_topology(topology)
        path = self.scene.world.path("configmaps", f"topology-{NODE}")
        if await self.scene.world.api.get_or_none(path) is None:
            await self.scene.config_map(
                f"topology-{NODE}", {"topology.yml": text}, labels={"node-topology": "true", "node-name": NODE}
            )
        else:
            await self.scene.world.api.merge_patch(path, {"data": {"topology.yml": text}})

    async def holders(self) -> dict[str, str]:
        """Who holds what, as the document says it."""
        topology = await self.scene.topology(NODE)
        devices = [(gpu.id, gpu.status) for gpu in topology.gpus]
        devices += [(one.uuid, one.status) for gpu in topology.gpus for one in gpu.mig_instances]
        return {device: str(status.allocated_by) for device, status in devices if status.allocated_by}

    async def until_held(self, *devices: str) -> None:
        """Wait until the document says this."""
        wanted = dict.fromkeys(devices, "ns/p/c")

        async def held() -> bool:
            return await self.holders() == wanted

        await eventually(held, within=20, what=f"holders are {wanted}")


@pytest_asyncio.fixture
async def stage(scene: Scene, tmp_path: Path) -> AsyncIterator[Stage]:
    """A Node whose kubelet answers, and without a topology."""
    made = Stage(scene, tmp_path)
    await made.kubelet.start()
    yield made
    await made.kubelet.stop()


async def _series(service: Service) -> dict[str, float]:
    """Utilization by GPU and pod, as the page says it."""
    _, page = await service.get("/metrics")
    found = re.findall(r"^DCGM_FI_DEV_GPU_UTIL\{(.*)\} (\S+)$", page, re.MULTILINE)
    labels = [(dict(re.findall(r'(\w+)="([^"]*)"', text)), value) for text, value in found]
    return {f"{one['gpu']}{one.get('GPU_I_PROFILE', '')}:{one['pod']}": float(value) for one, value in labels}


async def test_holders_are_written_and_measured(stage: Stage) -> None:
    """Who holds a device stands in the topology and in the series, as long as the kubelet says so."""
    topology = whole()
    await stage.write(topology)
    async with stage.scene.service(app.DUTIES, stage.build) as service:
        await service.until_healthy()
        assert await _series(service) == {"0:": 0, "1:": 0}
        stage.hold(topology.gpus[1].id)
        await stage.until_held(topology.gpus[1].id)
        assert await _series(service) == {"0:": 0, "1:p": 100}
        stage.hold()
        await stage.until_held()
        assert await _series(service) == {"0:": 0, "1:": 0}
        await service.until_healthy()


async def test_slices_come_and_go(stage: Stage) -> None:
    """A new cut has its series at once, and its holders are written beside it."""
    topology = whole()
    await stage.write(topology)
    async with stage.scene.service(app.DUTIES, stage.build) as service:
        await service.until_healthy()
        sliced = await stage.scene.store.update(NODE, lambda present: plan(present, parse_request(MIG)))
        uuid = next(one.uuid for one in sliced.gpus[0].mig_instances if one.profile == "3g.20gb")
        stage.hold(uuid)
        await stage.until_held(uuid)
        assert (await _series(service))["03g.20gb:p"] == 100
        assert "0:" not in await _series(service)


async def test_nothing_is_written_where_nothing_changes(stage: Stage) -> None:
    """However often the kubelet is asked, the document is written for a change alone."""
    topology = whole()
    await stage.write(topology)
    stage.hold(topology.gpus[0].id)
    async with stage.scene.service(app.DUTIES, stage.build) as service:
        await service.until_healthy()
        await stage.until_held(topology.gpus[0].id)
        written = await stage.scene.until_object(NODE)
        asked = stage.kubelet.asked
        await eventually(lambda: stage.kubelet.asked > asked + 10, within=20, what="it was asked ten times more")
        now = await stage.scene.until_object(NODE)
        assert now["metadata"]["resourceVersion"] == written["metadata"]["resourceVersion"]


async def test_a_change_of_others_is_kept(stage: Stage) -> None:
    """Holders are written into what stands there, also when it has changed at the same moment."""
    topology = whole()
    await stage.write(topology)
    async with stage.scene.service(app.DUTIES, stage.build) as service:
        await service.until_healthy()
        for turn in range(10):
            stage.hold(*([topology.gpus[1].id] if turn % 2 else []))

            def change(present: NodeTopology, turn: int = turn) -> NodeTopology:
                return replace(present, driver_version=f"1.{turn}")

            await stage.scene.store.update(NODE, change)
        await stage.until_held(topology.gpus[1].id)
        assert (await stage.scene.topology(NODE)).driver_version == "1.9"


async def test_a_kubelet_that_does_not_answer_changes_nothing(stage: Stage) -> None:
    """Holders stay while the kubelet is away, which is told, and are right again when it is back."""
    topology = whole()
    await stage.write(topology)
    stage.hold(topology.gpus[0].id)
    async with stage.scene.service(app.DUTIES, stage.build) as service:
        await stage.until_held(topology.gpus[0].id)
        await stage.kubelet.stop()
        await service.until_unhealthy("can not list the devices that pods hold")
        assert await _series(service) == {"0:p": 100, "1:": 0}
        await stage.until_held(topology.gpus[0].id)
        stage.hold(topology.gpus[1].id)
        await stage.kubelet.start()
        await stage.until_held(topology.gpus[1].id)
        await service.until_healthy()


async def test_before_the_kubelet_has_answered_nothing_is_written(stage: Stage) -> None:
    """A service that does not know who holds what does not say that nobody does; it shows what the document says."""
    topology = whole()
    status = replace(topology.gpus[0].status, allocated_by=replace(topology.gpus[0].status.allocated_by, pod="old"))
    await stage.write(replace(topology, gpus=(replace(topology.gpus[0], status=status), topology.gpus[1])))
    await stage.kubelet.stop()
    async with stage.scene.service(app.DUTIES, stage.build) as service:
        await service.until_unhealthy("can not list the devices")

        async def shown() -> bool:
            return await _series(service) == {"0:old": 100, "1:": 0}

        await eventually(shown, within=20, what="the document's holder is shown")
        assert await stage.holders() == {topology.gpus[0].id: "old"}
        await stage.kubelet.start()
        await stage.until_held()


async def test_without_a_topology_there_are_no_series(stage: Stage) -> None:
    """A Node without a topology says so; one that is deleted takes its series with it."""
    async with stage.scene.service(app.DUTIES, stage.build) as service:
        await service.until_unhealthy("Node node1 has no topology (yet)")
        assert await _series(service) == {}
        await stage.write(whole())
        await service.until_healthy()
        assert len(await _series(service)) == 2
        await stage.scene.world.api.delete(stage.scene.world.path("configmaps", f"topology-{NODE}"))
        await service.until_unhealthy("has no topology")
        assert await _series(service) == {}


async def test_a_damaged_topology_is_told_and_left_alone(stage: Stage) -> None:
    """The last series stay, and nothing is written over what somebody has to mend."""
    topology = whole()
    await stage.write(topology)
    async with stage.scene.service(app.DUTIES, stage.build) as service:
        await service.until_healthy()
        await stage.write("gpus: 5")
        await service.until_unhealthy("gpus")
        stage.hold(topology.gpus[0].id)
        asked = stage.kubelet.asked
        await eventually(lambda: stage.kubelet.asked > asked + 3, within=20, what="the kubelet was asked again")
        found = await stage.scene.until_object(NODE)
        assert found["data"]["topology.yml"] == "gpus: 5"
        assert await _series(service) == {"0:p": 100, "1:": 0}
        await stage.write(topology)
        await stage.until_held(topology.gpus[0].id)


async def test_a_name_that_no_config_map_has_is_refused(scene: Scene, tmp_path: Path) -> None:
    """A Node's name that fits no ConfigMap is an argument that does not fit."""

    def build(service: ServiceApp) -> None:
        app.build(service, node="NODE", namespace="x", name="topology", pod_resources=tmp_path / "k.sock", interval=1.0)

    with pytest.raises(ArgumentsError, match="can not be the name of a ConfigMap"):
        async with scene.service(app.DUTIES, build):
            pass
