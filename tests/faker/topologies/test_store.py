from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from nicrails.kube import ConflictError
from nicrails_faker.mig import NodeTopology, OtherDevice
from nicrails_faker.topologies.config_maps import NoTopologyError, TopologyError
from nicrails_faker.topologies.store import TopologyStore
from tests.faker.scene import Scene

_NEW = NodeTopology.create("n", gpu_product="NVIDIA-A100-SXM4-40GB", gpu_count=2, gpu_memory=40960)


def _driver(version: str, topology: NodeTopology) -> NodeTopology:
    return replace(topology, driver_version=version)


async def _made(scene: Scene, node: str = "n") -> None:
    assert await scene.store.create(node, _NEW, annotations={"nicrails.io/node-uid": "u1"})


async def test_creates_once_with_the_labels_of_the_peer(scene: Scene) -> None:
    """A Node's topology is made with both labels and its annotations; a second create leaves the first one's content."""
    await _made(scene)
    assert not await scene.store.create("n", _driver("1", _NEW), annotations={})
    found = await scene.object("n")
    assert found is not None
    assert found["metadata"]["labels"] == {"node-topology": "true", "node-name": "n"}
    assert found["metadata"]["annotations"] == {"nicrails.io/node-uid": "u1"}
    assert await scene.topology("n") == _NEW


async def test_reads_what_is_there_and_none_where_nothing_is(scene: Scene) -> None:
    """A topology that does not exist is None, not an error."""
    assert await scene.store.read("n") is None
    await _made(scene)
    found = await scene.store.read("n")
    assert found is not None
    assert (found.topology, found.node_uid) == (_NEW, "u1")


async def test_an_update_writes_what_the_change_makes(scene: Scene) -> None:
    """An update writes the changed topology and keeps labels, annotations and other data."""
    await _made(scene)
    await scene.world.api.merge_patch(scene.world.path("configmaps", "topology-n"), {"data": {"other": "kept"}})
    assert (await scene.store.update("n", lambda topology: _driver("550", topology))).driver_version == "550"
    found = await scene.object("n")
    assert found is not None
    assert found["data"]["other"] == "kept"
    assert found["metadata"]["labels"]["node-name"] == "n"
    assert (await scene.topology("n")).driver_version == "550"


async def test_an_update_that_changes_nothing_writes_nothing(scene: Scene) -> None:
    """Where the change leaves the topology as it is nothing is written, even if somebody has spelled it differently."""
    await scene.config_map(
        "topology-n",
        {"topology.yml": "# by hand\ngpus: []\ngpuProduct: 'X'\n"},
        labels={"node-topology": "true", "node-name": "n"},
    )
    before = await scene.object("n")
    await scene.store.update("n", lambda topology: topology)
    await scene.store.update("n", lambda topology: replace(topology, gpu_product="X"))
    assert await scene.object("n") == before


async def test_an_update_is_made_anew_when_somebody_was_faster(scene: Scene) -> None:
    """A write in between makes the change see what was written, and both are there in the end."""
    await _made(scene)
    other = TopologyStore(scene.client, scene.world.namespace, "topology", field_manager="other")
    seen: list[str] = []
    interrupted = asyncio.Event()

    def change(topology: NodeTopology) -> NodeTopology:
        seen.append(topology.driver_version)
        return replace(topology, cuda_version="12")

    read = scene.store.read

    async def read_then_interrupted(node: str) -> object:
        found = await read(node)
        if not interrupted.is_set():
            interrupted.set()
            await other.update(node, lambda topology: _driver("550", topology))
        return found

    scene.store.read = read_then_interrupted  # type: ignore[assignment,method-assign]
    await scene.store.update("n", change)
    topology = await scene.topology("n")
    assert seen == ["", "550"]
    assert (topology.driver_version, topology.cuda_version) == ("550", "12")


async def test_an_update_gives_up_with_the_conflict(scene: Scene) -> None:
    """Where others write each time, an update ends with the server's conflict after its tries."""
    await _made(scene)
    other = TopologyStore(scene.client, scene.world.namespace, "topology", field_manager="other")
    read = scene.store.read
    count = 0

    async def read_then_interrupted(node: str) -> object:
        nonlocal count
        found = await read(node)
        count += 1
        await other.update(node, lambda topology: _driver(str(count), topology))
        return found

    scene.store.read = read_then_interrupted  # type: ignore[assignment,method-assign]
    with pytest.raises(ConflictError):
        await scene.store.update("n", lambda topology: replace(topology, cuda_version="12"), tries=3)
    assert count == 3
    assert (await scene.topology("n")).cuda_version == ""


async def test_an_update_never_makes_a_topology(scene: Scene) -> None:
    """A Node without a topology gets none by an update, also when it was removed between read and write."""
    with pytest.raises(NoTopologyError, match="topology-n does not exist"):
        await scene.store.update("n", lambda topology: topology)
    await _made(scene)
    found = await scene.store.read("n")
    assert found is not None
    assert await scene.store.delete(found.name, found.uid)
    with pytest.raises(ConflictError):
        await scene.store.apply(found, _driver("1", _NEW))
    assert await scene.object("n") is None


async def test_an_update_does_not_write_into_a_successor(scene: Scene) -> None:
    """A topology that was removed and made anew in between is another one."""
    await _made(scene)
    found = await scene.store.read("n")
    assert found is not None
    assert await scene.store.delete(found.name, found.uid)
    await _made(scene)
    with pytest.raises(ConflictError):
        await scene.store.apply(found, _driver("1", _NEW))
    assert await scene.topology("n") == _NEW


async def test_what_the_change_raises_ends_the_update(scene: Scene) -> None:
    """An error of the change comes out of the update, and nothing is written."""
    await _made(scene)
    before = await scene.object("n")

    def change(_: NodeTopology) -> NodeTopology:
        raise ValueError("not so")

    with pytest.raises(ValueError, match="not so"):
        await scene.store.update("n", change)
    assert await scene.object("n") == before


async def test_two_writers_lose_nothing(scene: Scene) -> None:
    """Two writers that count in the same document at once end at the sum of their counts."""
    await scene.store.create("n", replace(_NEW, other_devices=(OtherDevice(name="rdma/hca", count=0),)), annotations={})

    def more(topology: NodeTopology) -> NodeTopology:
        (one,) = topology.other_devices
        return replace(topology, other_devices=(replace(one, count=one.count + 1),))

    async def count(store: TopologyStore) -> None:
        for _ in range(25):
            await store.update("n", more)

    stores = [TopologyStore(scene.client, scene.world.namespace, "topology", field_manager=name) for name in ("a", "b")]
    await asyncio.gather(*(count(store) for store in stores))
    assert (await scene.topology("n")).other_devices[0].count == 50


async def test_a_configmap_of_somebody_else_is_not_changed(scene: Scene) -> None:
    """A ConfigMap that has the name but not the labels of a topology is neither read nor written."""
    await scene.config_map("topology-n", {"topology.yml": "gpus: []\n"})
    before = await scene.object("n")
    with pytest.raises(TopologyError, match="left alone"):
        await scene.store.update("n", lambda topology: _driver("1", topology))
    await scene.config_map(
        "topology-m", {"topology.yml": "gpus: []\n"}, labels={"node-topology": "true", "node-name": "n"}
    )
    with pytest.raises(TopologyError, match="node-name=n and not m"):
        await scene.store.read("m")
    assert await scene.object("n") == before


async def test_removes_exactly_what_was_read(scene: Scene) -> None:
    """A delete names the UID, and the version if asked to; what has changed since is not removed."""
    await _made(scene)
    found = await scene.store.read("n")
    assert found is not None
    await scene.store.update("n", lambda topology: _driver("1", topology))
    assert not await scene.store.delete(found.name, "another")
    assert not await scene.store.delete(found.name, found.uid, found.resource_version)
    assert await scene.object("n") is not None
    assert await scene.store.delete(found.name, found.uid)
    assert not await scene.store.delete(found.name, found.uid)


async def test_reads_the_clusters_topology(scene: Scene) -> None:
    """The cluster's topology is read, and one that is missing or unreadable is told in a sentence."""
    with pytest.raises(NoTopologyError, match="ConfigMap topology does not exist in namespace"):
        await scene.store.read_cluster()
    await scene.cluster_topology()
    assert list((await scene.store.read_cluster()).pools) == ["default"]
    await scene.cluster_topology("nodePools: 3\n")
    with pytest.raises(TopologyError, match=r"ConfigMap topology, topology\.yml: nodePools"):
        await scene.store.read_cluster()
