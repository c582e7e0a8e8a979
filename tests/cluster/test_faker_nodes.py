"""Nodes without a kubelet on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from nicrails_faker.fakenodes import app
from nicrails_faker.fakenodes.controller import FakeNodes
from nicrails_faker.mig import NodeTopology, OtherDevice, advertised_resources
from nicrails_faker.mig.labels import feature_labels
from nicrails_faker.migfaker.teller import Options
from nicrails_faker.topologies.store import TopologyStore
from tests.cluster.controlplane import ControlPlane
from tests.cluster.world import Json
from tests.faker.played import MIG_NODE, STATE, PlayedNode, mig_config
from tests.faker.scene import Scene, Service
from tests.support.endpoint import ApiEndpoint
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs("control-plane")

NODES = 60
RULES = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "patch"]}]
CLUSTER_RULES = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
]


@pytest_asyncio.fixture
async def scene(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Scene]:
    """A scene on the real API server, whose services have no more than these permissions."""
    async with Scene.on(control_plane.endpoint, tmp_path) as scene:
        await scene.world.service_account("nodes", rules=RULES, cluster_rules=CLUSTER_RULES)
        token = await asyncio.to_thread(control_plane.service_account_token, scene.world.namespace, "nodes")
        endpoint = control_plane.endpoint
        scene.use(ApiEndpoint(url=endpoint.url, ca_file=endpoint.ca_file, token=token, real=True), tmp_path)
        yield scene


@contextlib.asynccontextmanager
async def _faking(scene: Scene) -> AsyncIterator[Service]:
    # Other tests' Nodes are on the same API server.
    fake = FakeNodes(label=f"fake.{scene.world.namespace}", value="true")
    async with scene.service(
        app.DUTIES,
        lambda it: app.build(it, namespace=scene.world.namespace, name="topology", fake=fake, options=Options()),
    ) as service:
        yield service


async def _nodes(scene: Scene, count: int) -> list[PlayedNode]:
    labels = MIG_NODE | {f"fake.{scene.world.namespace}": "true"}

    async def make(number: int) -> PlayedNode:
        name = scene.node_name(f"fake{number}")
        await scene.world.node(name, labels=labels)
        new = NodeTopology.create(
            name, gpu_product="NVIDIA-A100-SXM4-40GB", gpu_count=2, gpu_memory=40960, mig_strategy="mixed"
        )
        await scene.store.create(name, new, annotations={})
        return PlayedNode(scene, name)

    return await asyncio.gather(*(make(number) for number in range(count)))


async def _advertised(node: PlayedNode) -> Mapping[str, Json]:
    status = (await node.object())["status"]
    return {"capacity": status.get("capacity", {}), "allocatable": status.get("allocatable", {})}


async def _until(nodes: list[PlayedNode], resources: Mapping[str, str]) -> None:
    """Wait until all these Nodes advertise exactly this; none at 0 is left."""

    async def there() -> bool:
        found = await asyncio.gather(*(_advertised(node) for node in nodes))
        wrong = [one for one in found if one != {"capacity": resources, "allocatable": resources}]
        assert not wrong, f"{len(wrong)} are not, such as {wrong[0]}"
        return True

    await eventually(there, within=60, what=f"{len(nodes)} Nodes advertise {dict(resources)}", interval=0.2)


async def test_resources_follow_the_topology(scene: Scene) -> None:
    """A Node advertises its topology when it comes, when it changes, and no more when it is gone; old resources go."""
    (node,) = await _nodes(scene, 1)
    async with _faking(scene) as service:
        await _until([node], {"nvidia.com/gpu": "2"})
        hca = (OtherDevice(name="rdma/hca", count=4),)
        await scene.store.update(node.name, lambda now: replace(now, other_devices=hca))
        await _until([node], {"nvidia.com/gpu": "2", "rdma/hca": "4"})
        await scene.store.update(node.name, lambda now: replace(now, other_devices=()))
        await _until([node], {"nvidia.com/gpu": "2"})
        await scene.world.api.delete(scene.world.path("configmaps", f"topology-{node.name}"))
        await _until([node], {})
        await service.until_healthy()
    assert await node.annotations() == {}


@pytest.mark.timeout(180)
async def test_many_nodes_change_at_once_while_others_write(scene: Scene) -> None:
    """All Nodes change their profile at once while another writer changes their topologies; all are right in the end."""
    nodes = await _nodes(scene, NODES)
    other = TopologyStore(scene.client, scene.world.namespace, "topology", field_manager="other")
    async with _faking(scene) as service:
        await _until(nodes, {"nvidia.com/gpu": "2"})
        for round_, (config, resources) in enumerate(
            (
                (mig_config('{"1g.5gb": 7}'), {"nvidia.com/gpu": "1", "nvidia.com/mig-1g.5gb": "7"}),
                (mig_config('{"2g.10gb": 3}', gpus="all"), {"nvidia.com/mig-2g.10gb": "6"}),
                (None, {"nvidia.com/gpu": "2"}),
            )
        ):
            await asyncio.gather(
                *(node.annotate(config) for node in nodes),
                *(
                    other.update(node.name, lambda now, version=str(round_): replace(now, driver_version=version))  # type: ignore[misc]
                    for node in nodes
                ),
            )
            await _until(nodes, resources)
            await asyncio.gather(*(node.until_state("success" if config else None) for node in nodes))
            for node in nodes:
                topology = await scene.topology(node.name)
                assert topology.driver_version == str(round_), "the other writer's change is there"
                advertised = {name: str(len(ids)) for name, ids in advertised_resources(topology).items()}
                assert advertised == resources
                labels = await node.labels()
                assert feature_labels(topology).items() <= labels.items()
                assert labels.get(STATE) == ("success" if config else None)
        await service.until_healthy()


async def test_a_restart_writes_nothing(scene: Scene) -> None:
    """A restart leaves Nodes and topologies at their versions."""
    nodes = await _nodes(scene, 3)
    async with _faking(scene):
        for node in nodes:
            await node.annotate(mig_config('{"1g.5gb": 7}'))
        await asyncio.gather(*(node.until_state("success") for node in nodes))
    before = [(await node.object(), await scene.object(node.name)) for node in nodes]
    (extra,) = await _extra(scene)
    async with _faking(scene) as service:
        await _until([extra], {"nvidia.com/gpu": "1"})
        await service.until_healthy()
    assert [(await node.object(), await scene.object(node.name)) for node in nodes] == before


async def _extra(scene: Scene) -> list[PlayedNode]:
    name = scene.node_name("extra")
    await scene.world.node(name, labels={f"fake.{scene.world.namespace}": "true"})
    await scene.store.create(name, NodeTopology.create(name, gpu_product="X", gpu_count=1), annotations={})
    return [PlayedNode(scene, name)]
