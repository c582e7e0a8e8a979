"""The faker's topologies on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from nicrails.kube import ConflictError
from nicrails_faker.mig import NodeTopology, OtherDevice
from nicrails_faker.mig.document import YamlMapping, string
from nicrails_faker.topologies import app
from nicrails_faker.topologies.store import TopologyStore
from tests.cluster.controlplane import ControlPlane
from tests.faker.scene import TOPOLOGY, Scene, Service
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs("control-plane")

ROUNDS = 1000


@pytest_asyncio.fixture
async def scene(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Scene]:
    """A scene on the real API server, with a pool that no other test has."""
    async with Scene.on(control_plane.endpoint, tmp_path) as scene:
        yield scene


@contextlib.asynccontextmanager
async def _keeping(scene: Scene) -> AsyncIterator[Service]:
    namespace = scene.world.namespace
    async with scene.service(app.DUTIES, lambda it: app.build(it, namespace=namespace, name="topology")) as service:
        yield service


def _label(scene: Scene) -> str:
    return f"pool.{scene.world.namespace}"


async def _pool(scene: Scene, text: str = TOPOLOGY) -> None:
    await scene.cluster_topology(text.replace("run.ai/simulated-gpu-node-pool", _label(scene)))


async def _node(scene: Scene, stem: str) -> str:
    name = scene.node_name(stem)
    await scene.world.node(name, labels={_label(scene): "default"})
    return name


def _count(topology: NodeTopology, name: str) -> NodeTopology:
    devices = tuple(replace(one, count=one.count + (one.name == name)) for one in topology.other_devices)
    return replace(topology, other_devices=devices)


@pytest.mark.timeout(240)
async def test_two_writers_for_a_thousand_rounds_lose_nothing(scene: Scene) -> None:
    """Two writers that each add one a thousand times, to one number and to one of their own, end at the exact sums."""
    names = ("both", "first", "second")
    new = NodeTopology.create("n", gpu_product="NVIDIA-A100-SXM4-40GB", gpu_count=2)
    kept = YamlMapping(((string("of-somebody-else"), string("kept")),))
    new = replace(new, other_devices=tuple(OtherDevice(name=name, count=0) for name in names), extra=kept)
    await scene.store.create("n", new, annotations={})

    async def write(own: str) -> None:
        async with scene.new_client() as client:
            store = TopologyStore(client, scene.world.namespace, "topology", field_manager=own)
            for _ in range(ROUNDS):
                await store.update("n", lambda topology: _count(_count(topology, "both"), own))

    async with asyncio.TaskGroup() as group:
        for name in names[1:]:
            group.create_task(write(name))
    topology = await scene.topology("n")
    assert {one.name: one.count for one in topology.other_devices} == {
        "both": 2 * ROUNDS,
        "first": ROUNDS,
        "second": ROUNDS,
    }
    assert topology.extra == kept


async def test_an_apply_neither_overwrites_nor_makes(scene: Scene) -> None:
    """An apply with the UID and version of what was read is refused as a conflict when that has changed, is gone or is new."""
    new = NodeTopology.create("n", gpu_product="NVIDIA-A100-SXM4-40GB", gpu_count=2)
    await scene.store.create("n", new, annotations={"nicrails.io/node-uid": "u"})
    read = await scene.store.read("n")
    assert read is not None
    await scene.store.update("n", lambda topology: replace(topology, driver_version="1"))
    with pytest.raises(ConflictError):
        await scene.store.apply(read, replace(new, driver_version="2"))
    assert (await scene.topology("n")).driver_version == "1"
    assert await scene.store.delete(read.name, read.uid)
    with pytest.raises(ConflictError):
        await scene.store.apply(read, replace(new, driver_version="2"))
    assert await scene.object("n") is None
    await scene.store.create("n", new, annotations={})
    with pytest.raises(ConflictError):
        await scene.store.apply(read, replace(new, driver_version="2"))
    assert await scene.topology("n") == new


async def test_an_update_is_an_apply_that_keeps_what_others_have(scene: Scene) -> None:
    """An update is recorded as an apply of its own manager; labels, annotations and other data stay, whoever wrote last."""
    new = NodeTopology.create("n", gpu_product="NVIDIA-A100-SXM4-40GB", gpu_count=2)
    await scene.store.create("n", new, annotations={"nicrails.io/node-uid": "u"})
    await scene.world.api.merge_patch(scene.world.path("configmaps", "topology-n"), {"data": {"other": "kept"}})
    for manager in ("one", "two", "one"):
        store = TopologyStore(scene.client, scene.world.namespace, "topology", field_manager=manager)
        await store.update("n", lambda topology: replace(topology, driver_version=topology.driver_version + "1"))
    found = await scene.object("n")
    assert found is not None
    assert found["data"]["other"] == "kept"
    assert found["metadata"]["annotations"] == {"nicrails.io/node-uid": "u"}
    assert found["metadata"]["labels"] == {"node-topology": "true", "node-name": "n"}
    applied = {one["manager"] for one in found["metadata"]["managedFields"] if one["operation"] == "Apply"}
    assert "one" in applied
    assert (await scene.topology("n")).driver_version == "111"


async def test_removal_needs_the_uid_and_the_version(scene: Scene) -> None:
    """A delete of another UID or of an older version removes nothing."""
    new = NodeTopology.create("n", gpu_product="NVIDIA-A100-SXM4-40GB", gpu_count=2)
    await scene.store.create("n", new, annotations={})
    read = await scene.store.read("n")
    assert read is not None
    await scene.store.update("n", lambda topology: replace(topology, driver_version="1"))
    assert not await scene.store.delete(read.name, "00000000-0000-0000-0000-000000000000")
    assert not await scene.store.delete(read.name, read.uid, read.resource_version)
    assert await scene.object("n") is not None
    assert await scene.store.delete(read.name, read.uid)


async def test_topologies_follow_the_nodes(scene: Scene) -> None:
    """A Node of a pool gets a topology; it goes with the Node, and a Node of the same name gets another."""
    await _pool(scene)
    gone, replaced = await _node(scene, "gone"), await _node(scene, "replaced")
    async with _keeping(scene) as service:
        first = await scene.until_object(replaced)
        await scene.until_object(gone)
        await scene.store.update(replaced, lambda topology: replace(topology, driver_version="of the old one"))
        await scene.world.delete_node(gone)
        await scene.world.delete_node(replaced)
        await _node(scene, "replaced")

        async def followed() -> bool:
            found = await scene.object(replaced)
            assert found is not None
            assert found["metadata"]["uid"] != first["metadata"]["uid"]
            return await scene.object(gone) is None

        await eventually(followed, within=30, what="one is gone and the other is new")
        await service.until_healthy()
    assert (await scene.topology(replaced)).driver_version == ""


async def test_a_change_of_the_strategy_reaches_existing_nodes(scene: Scene) -> None:
    """A new strategy of the cluster reaches existing topologies while another writer changes them; both are there."""
    await _pool(scene)
    nodes = [await _node(scene, f"n{number}") for number in range(5)]
    mig = TopologyStore(scene.client, scene.world.namespace, "topology", field_manager="mig")
    async with _keeping(scene) as service:
        for node in nodes:
            await scene.until_object(node)
        await _pool(scene, TOPOLOGY.replace("mixed", "single"))
        for version in range(10):
            for node in nodes:
                await mig.update(node, lambda topology, v=version: replace(topology, driver_version=str(v)))  # type: ignore[misc]

        async def changed() -> bool:
            found = [await scene.topology(node) for node in nodes]
            return {(one.mig_strategy, one.driver_version) for one in found} == {("single", "9")}

        await eventually(changed, within=30, what="all have the new strategy and what the other writer wrote last")
        await service.until_healthy()
        before = [await scene.object(node) for node in nodes]
    async with _keeping(scene) as service:
        await service.until_healthy()
        extra = await _node(scene, "extra")
        await scene.until_object(extra)
    assert [await scene.object(node) for node in nodes] == before, "a restart writes nothing"
