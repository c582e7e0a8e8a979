from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from nicrails.kube import Answer, ForbiddenError, KubeClient
from nicrails_faker.arguments import ArgumentsError
from nicrails_faker.deviceplugin import app
from nicrails_faker.deviceplugin.app import Options
from nicrails_faker.mig import NodeTopology, fingerprint, write_topology
from tests.faker.kubelet.double import FakeKubelet
from tests.faker.scene import Scene, Service
from tests.faker.smi.shells import output, run
from tests.faker.smi.topologies import MIG, cut, whole
from tests.support.waiting import eventually

NODE = "node1"
LOWER, UPPER = (
    "version: v1\nmig-configs:\n  selected:\n"
    f'  - {{devices: ["0"], mig-enabled: true, mig-devices: [{{name: 2g.10gb, position: {position}, size: 2}}]}}\n'
    for position in (0, 2)
)
GPU = "nvidia.com/gpu"


class Stage:
    """A Node on a scene: its kubelet, its folders, and its topology on the API server."""

    def __init__(self, scene: Scene, folder: Path) -> None:
        self.scene = scene
        self.sockets = folder / "s"
        self.host = folder / "host"
        self.sockets.mkdir()
        self.kubelet = FakeKubelet(self.sockets)

    @contextlib.asynccontextmanager
    async def plugin(self, *, strict: bool = False, follow: bool = True) -> AsyncIterator[Service]:
        """Run the device plugin."""
        options = Options(plugin_directory=self.sockets, host_directory=self.host, strict=strict, follow=follow)
        async with self.scene.service(
            app.DUTIES,
            lambda service: app.build(
                service, node=NODE, namespace=self.scene.world.namespace, name="topology", options=options
            ),
        ) as service:
            yield service

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

    async def delete(self) -> None:
        """Delete the topology."""
        await self.scene.world.api.delete(self.scene.world.path("configmaps", f"topology-{NODE}"))

    def counts(self, resource: str, count: int) -> bool:
        """Whether the kubelet counts so many of a resource."""
        return self.kubelet.allocatable.get(resource) == count

    async def until(self, **counts: int) -> None:
        """Wait until the kubelet counts this; keywords are gpu, or profiles such as ``p1g_5gb``."""
        wanted = {
            GPU if name == "gpu" else f"nvidia.com/mig-{name[1:].replace('_', '.')}": count
            for name, count in counts.items()
        }
        await eventually(lambda: self.kubelet.allocatable == wanted, within=20, what=f"allocatable is {wanted}")


@pytest_asyncio.fixture
async def stage(scene: Scene, tmp_path: Path) -> AsyncIterator[Stage]:
    """A Node with a running kubelet and without a topology."""
    made = Stage(scene, tmp_path)
    await made.kubelet.start()
    yield made
    await made.kubelet.stop()


async def test_the_topology_is_advertised_and_followed(stage: Stage) -> None:
    """Each change of the ConfigMap reaches the kubelet and the host's nvidia-smi, without a restart of anything."""
    await stage.write(whole())
    async with stage.plugin() as service:
        await stage.until(gpu=2)
        await service.until_healthy()
        assert "MIG" not in output(stage.host, "-L")
        topology = cut()
        await stage.write(topology)
        await stage.until(gpu=1, p1g_5gb=1, p1g_5gb_me=1, p2g_10gb=1, p3g_20gb=1)
        (uuid,) = stage.kubelet.devices("nvidia.com/mig-3g.20gb")
        assert uuid in {one.uuid for one in topology.gpus[0].mig_instances}
        answer = await stage.kubelet.allocate("nvidia.com/mig-3g.20gb", [uuid])
        (container,) = answer.container_responses
        assert output(stage.host, "-L", visible=container.envs["MOCK_NVIDIA_VISIBLE_DEVICES"]).count("MIG ") == 1
        assert [mount.host_path for mount in container.mounts] == [
            str(stage.host / "nvidia-smi"),
            str(stage.host / "nvidia-smi.d"),
        ]
        await stage.write(whole())
        await stage.until(gpu=2, p1g_5gb=0, p1g_5gb_me=0, p2g_10gb=0, p3g_20gb=0)
        assert "MIG" not in output(stage.host, "-L")
        await service.until_healthy()
        _, metrics = await service.get("/metrics")
        assert 'nicrails_faker_devices{resource="nvidia.com/gpu"} 2.0' in metrics


async def test_what_was_handed_over_is_said(stage: Stage) -> None:
    """The ConfigMap says which devices the kubelet has been told, also of other slices in equal numbers."""

    async def says(topology: NodeTopology) -> None:
        async def condition() -> bool:
            found = await stage.scene.world.api.get(stage.scene.world.path("configmaps", f"topology-{NODE}"))
            assert found["metadata"].get("annotations", {}).get("nicrails.io/advertised") == fingerprint(topology)
            return True

        await eventually(condition, within=20, what="the ConfigMap says what is advertised")

    first, second = cut(request=LOWER), cut(request=UPPER)
    await stage.write(first)
    async with stage.plugin():
        await says(first)
        await stage.until(gpu=1, p2g_10gb=1)
        before = stage.kubelet.devices("nvidia.com/mig-2g.10gb")
        await stage.write(second)
        await says(second)
        after = stage.kubelet.devices("nvidia.com/mig-2g.10gb")
        assert len(after) == len(before) == 1
        assert list(after) != list(before)


async def test_devices_are_offered_though_it_can_not_be_said(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may not write the ConfigMap still advertises, tells so in its health, and says it once it may."""
    request, refused = KubeClient.request, True

    async def refusing(self: KubeClient, method: str, *arguments: Any, **options: Any) -> Answer:
        if method == "PATCH" and refused:
            raise ForbiddenError("PATCH configmaps", "you may not")
        return await request(self, method, *arguments, **options)

    monkeypatch.setattr(KubeClient, "request", refusing)
    await stage.write(whole())
    async with stage.plugin() as service:
        await stage.until(gpu=2)
        await service.until_unhealthy("say-what-is-offered")
        refused = False
        await service.until_healthy()


async def test_a_change_is_allocatable_within_two_seconds(stage: Stage) -> None:
    """From the change of the ConfigMap to the kubelet's count it takes less than two seconds, new profiles included."""
    await stage.write(whole())
    small = MIG.replace("3g.20gb, position: 4, size: 4", "1g.10gb, position: 4, size: 2")
    async with stage.plugin():
        await stage.until(gpu=2)
        took = []
        for request in (MIG, small, MIG, small):
            began = time.monotonic()
            topology = cut(request=request)
            await stage.write(topology)
            newest = f"nvidia.com/mig-{topology.gpus[0].mig_instances[-1].profile}"
            await eventually(functools.partial(stage.counts, newest, 1), within=20, what=f"{newest} is allocatable")
            took.append(time.monotonic() - began)
    assert max(took) < 2, took


async def test_without_a_topology_nothing_is_advertised(stage: Stage) -> None:
    """A Node without a topology says so, and advertises it as soon as it comes."""
    async with stage.plugin() as service:
        await service.until_unhealthy("Node node1 has no topology (yet), so it offers nothing")
        assert stage.kubelet.allocatable == {}
        await stage.write(whole())
        await stage.until(gpu=2)
        await service.until_healthy()


async def test_a_damaged_topology_leaves_the_last_state(stage: Stage) -> None:
    """What can not be read is told, and changes nothing until it is mended."""
    await stage.write(whole())
    async with stage.plugin() as service:
        await stage.until(gpu=2)
        before = list(stage.kubelet.sets)
        for damage, says in (
            ("gpus: [", "topology.yml"),
            ("gpus: 5", "gpus"),
            ("&a [*a, *a]", "topology.yml"),
            ("gpus:\n- {id: a}\n- {id: a}\n", "the same as"),
        ):
            await stage.write(damage)
            await service.until_unhealthy(says)
            assert "the last state stays" in service.failure
        assert stage.kubelet.sets == before
        await stage.write(cut())
        await stage.until(gpu=1, p1g_5gb=1, p1g_5gb_me=1, p2g_10gb=1, p3g_20gb=1)
        await service.until_healthy()


async def test_a_damaged_topology_at_the_start_advertises_nothing(stage: Stage) -> None:
    """There is no last state yet: nothing is registered, and that is told."""
    await stage.write("gpus: 5")
    async with stage.plugin() as service:
        await service.until_unhealthy("gpus")
        assert stage.kubelet.registrations == []
        await stage.write(whole())
        await stage.until(gpu=2)


async def test_a_topology_of_another_node_is_not_taken(stage: Stage) -> None:
    """A ConfigMap of the right name that is another one's is told and not used."""
    await stage.scene.config_map(
        f"topology-{NODE}",
        {"topology.yml": write_topology(whole())},
        labels={"node-topology": "true", "node-name": "other"},
    )
    async with stage.plugin() as service:
        await service.until_unhealthy("node-name=other")
        assert stage.kubelet.registrations == []


async def test_a_deleted_topology_takes_all_devices(stage: Stage) -> None:
    """When the ConfigMap is deleted all counts are 0, and the next one is taken."""
    await stage.write(cut())
    async with stage.plugin() as service:
        await stage.until(gpu=1, p1g_5gb=1, p1g_5gb_me=1, p2g_10gb=1, p3g_20gb=1)
        await stage.delete()
        await stage.until(gpu=0, p1g_5gb=0, p1g_5gb_me=0, p2g_10gb=0, p3g_20gb=0)
        await service.until_unhealthy("has no topology")
        await stage.write(whole())
        await stage.until(gpu=2, p1g_5gb=0, p1g_5gb_me=0, p2g_10gb=0, p3g_20gb=0)
        await service.until_healthy()


async def test_strict_refuses_as_nvidias_plugin_does(stage: Stage) -> None:
    """GPUs that differ under the strategy single are not advertised, and the reason is told."""
    await stage.write(replace(cut(), mig_strategy="single"))
    async with stage.plugin(strict=True) as service:
        await service.until_unhealthy("refused as by NVIDIA's plugin: GPU 0 is in MIG mode")
        await stage.until(gpu=0)
        await stage.write(replace(whole(), mig_strategy="single"))
        await stage.until(gpu=2)
        await service.until_healthy()


async def test_without_strict_slices_and_gpus_are_added_up(stage: Stage) -> None:
    """The same topology is advertised as a plain sum."""
    await stage.write(replace(cut(), mig_strategy="single"))
    async with stage.plugin() as service:
        await stage.until(gpu=5)
        await service.until_healthy()


async def test_the_restart_mode_reads_once(stage: Stage) -> None:
    """A change is not taken over by a running plugin, but by its successor."""
    async with stage.plugin(follow=False):
        await stage.write(whole())
        await stage.until(gpu=2)
    await stage.write(cut())
    async with stage.plugin(follow=False) as service:
        await stage.until(gpu=1, p1g_5gb=1, p1g_5gb_me=1, p2g_10gb=1, p3g_20gb=1)
        before = len(stage.kubelet.sets)
        await stage.write("gpus: 5")
        await stage.write(whole())
        # A plugin that follows has taken this over when the other one has seen it, too.
        async with stage.scene.service(("seen",), lambda _: None):
            await service.until_healthy()
        assert len(stage.kubelet.sets) == before


async def test_a_name_that_is_none_is_told_beside_the_others(stage: Stage) -> None:
    """One resource that can not be advertised leaves the others, with a sentence in the health report."""
    topology = whole()
    text = write_topology(topology) + 'otherDevices:\n- {name: "no name", count: 1}\n- {name: rdma/hca, count: 3}\n'
    await stage.write(text)
    async with stage.plugin() as service:
        await service.until_unhealthy('"no name" is no name of an extended resource')
        await eventually(
            lambda: stage.kubelet.allocatable == {GPU: 2, "rdma/hca": 3}, within=20, what="the others are advertised"
        )


async def test_a_host_folder_that_can_not_be_written_costs_nvidia_smi_only(stage: Stage) -> None:
    """Devices are advertised and allocated without the program, which is told."""
    stage.host.write_text("a file in the place of the folder")
    await stage.write(whole())
    async with stage.plugin() as service:
        await stage.until(gpu=2)
        await service.until_unhealthy("can not write nvidia-smi to")
        answer = await stage.kubelet.allocate(GPU, [whole().gpus[0].id])
        assert not answer.container_responses[0].mounts
        stage.host.unlink()
        await stage.write(cut())
        await service.until_healthy()
        assert run(stage.host, "-L").returncode == 0


async def test_a_machine_that_is_not_shipped_is_told(stage: Stage) -> None:
    """The devices are advertised nevertheless."""
    await stage.write(whole(machine="nowhere"))
    async with stage.plugin() as service:
        await stage.until(gpu=2)
        await service.until_unhealthy('no machine "nowhere" is shipped')
        await stage.write(whole(8, machine="h100-8gpu-dualport"))
        await stage.until(gpu=8)
        await service.until_healthy()


async def test_who_holds_what_is_no_change_of_devices(stage: Stage) -> None:
    """A topology in which only holders change tells the kubelet nothing."""
    topology = whole()
    await stage.write(topology)
    async with stage.plugin():
        await stage.until(gpu=2)
        held = (
            write_topology(topology)
            .replace("namespace: ''", "namespace: ns", 1)
            .replace('namespace: ""', "namespace: ns", 1)
        )
        assert held != write_topology(topology)
        await stage.write(held)
        await stage.write(replace(topology, gpus=topology.gpus[:1]))
        await stage.until(gpu=1)
        assert [len(ids) for _, ids in stage.kubelet.sets] == [2, 1]


@pytest.mark.parametrize(
    ("node", "sockets", "says"),
    [
        ("NODE", Path("/s"), "can not be the name of a ConfigMap"),
        ("n" * 64, Path("/s"), "give the Node a shorter name"),
        (NODE, Path("s"), "--plugin-directory s: give the absolute path"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused(scene: Scene, node: str, sockets: Path, says: str) -> None:
    """What can not work is told before anything is done."""
    options = Options(plugin_directory=sockets, host_directory=Path("/h"))
    with pytest.raises(ArgumentsError, match=says):
        async with scene.service(
            app.DUTIES, lambda service: app.build(service, node=node, namespace="x", name="topology", options=options)
        ):
            pass
