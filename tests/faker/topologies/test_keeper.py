"""The keeper on the embedded API; ``tests/cluster/test_faker_topologies.py`` has the real one."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nicrails_faker.api import Fault, Respond
from nicrails_faker.mig import NodeTopology, gpu_uuid
from nicrails_faker.topologies import app
from nicrails_faker.topologies.store import TopologyStore
from tests.faker.scene import POOL, TOPOLOGY, Scene, Service, embedded
from tests.support.waiting import eventually


@contextlib.asynccontextmanager
async def _keeping(scene: Scene) -> AsyncIterator[Service]:
    namespace = scene.world.namespace
    async with scene.service(app.DUTIES, lambda it: app.build(it, namespace=namespace, name="topology")) as service:
        yield service


async def test_a_node_of_a_pool_gets_a_topology(scene: Scene) -> None:
    """A Node with the label of a pool gets what the pool says, with the peer's labels and GPU UUIDs; others get none."""
    await scene.cluster_topology()
    await scene.world.node("other")
    await scene.world.node("stranger", labels={"run.ai/simulated-gpu-node-pool": "unknown"})
    before = await scene.world.node("before", labels=POOL)
    async with _keeping(scene) as service:
        found = await scene.until_object("before")
        await scene.world.node("after", labels=POOL)
        await scene.until_object("after")
        await service.until_healthy()
    topology = await scene.topology("before")
    assert [gpu.id for gpu in topology.gpus] == [gpu_uuid("before", 0), gpu_uuid("before", 1)]
    assert (topology.gpu_product, topology.gpu_memory) == ("NVIDIA-A100-SXM4-40GB", 40960)
    assert topology.mig_strategy == "mixed"
    assert found["metadata"]["labels"] == {"node-topology": "true", "node-name": "before"}
    assert found["metadata"]["annotations"]["nicrails.io/node-uid"] == before["metadata"]["uid"]
    assert await scene.object("other") is None
    assert await scene.object("stranger") is None


async def test_a_cluster_without_nodes_is_healthy(scene: Scene) -> None:
    """With nothing to keep the service is healthy."""
    await scene.cluster_topology()
    async with _keeping(scene) as service:
        await service.until_healthy()


async def test_kwoks_annotation_is_copied(scene: Scene) -> None:
    """The topology of a Node that KWOK simulates carries its annotation, also when the Node gets it later."""
    await scene.cluster_topology()
    await scene.world.node("a", labels=POOL)
    async with _keeping(scene):
        await scene.until_object("a")
        await scene.world.api.merge_patch(
            "/api/v1/nodes/a", {"metadata": {"annotations": {"kwok.x-k8s.io/node": "fake"}}}
        )

        async def copied() -> bool:
            found = await scene.object("a")
            return found is not None and found["metadata"]["annotations"].get("kwok.x-k8s.io/node") == "fake"

        await eventually(copied, within=30, what="the annotation is copied")


async def test_pools_of_profiles(scene: Scene) -> None:
    """A pool of the new format takes its GPUs from the profile's ConfigMap, and waits for it with a sentence."""
    await scene.cluster_topology(
        "nodePools: {default: {gpu: {profile: a100, overrides: {device_count: 3}}, machine: h200-mig}}\n"
    )
    await scene.world.node("a", labels=POOL)
    profile = "device_count: 8\ndevice_defaults: {name: NVIDIA A100, memory: {total_bytes: 42949672960}}\n"
    async with _keeping(scene) as service:
        await service.until_unhealthy('no GPU profile "a100"')
        assert await scene.object("a") is None
        await scene.config_map(
            "gpu-profile-a100", {"profile.yaml": profile}, labels={"fake-gpu-operator/gpu-profile": "true"}
        )
        await scene.until_object("a")
        await service.until_healthy()
    topology = await scene.topology("a")
    assert (len(topology.gpus), topology.gpu_product, topology.gpu_memory) == (3, "NVIDIA A100", 40960)
    assert [key.text for key, _ in topology.extra.entries] == ["machine"]


async def test_a_change_of_the_strategy_reaches_existing_nodes(scene: Scene) -> None:
    """Strategy and other devices of the cluster reach every existing topology, and what is in it is kept."""
    await scene.cluster_topology()
    for name in ("a", "b"):
        await scene.world.node(name, labels=POOL)
    async with _keeping(scene):
        for name in ("a", "b"):
            await scene.until_object(name)
        mig = TopologyStore(scene.client, scene.world.namespace, "topology", field_manager="mig")
        cut = NodeTopology.create("a", gpu_product="cut", gpu_count=1)
        await mig.update("a", lambda _: cut)
        await scene.cluster_topology(TOPOLOGY.replace("mixed", "single") + "unknown: kept\n")

        async def changed() -> bool:
            return {(await scene.topology(name)).mig_strategy for name in ("a", "b")} == {"single"}

        await eventually(changed, within=30, what="both have the new strategy")
        assert (await scene.topology("a")).gpus == cut.gpus


async def test_a_change_while_it_was_away_is_carried_too(scene: Scene) -> None:
    """What changed in the cluster's document while nobody watched is brought at the next start."""
    await scene.cluster_topology()
    await scene.world.node("a", labels=POOL)
    async with _keeping(scene):
        await scene.until_object("a")
    await scene.cluster_topology(TOPOLOGY.replace("mixed", "none"))
    async with _keeping(scene):

        async def changed() -> bool:
            return (await scene.topology("a")).mig_strategy == "none"

        await eventually(changed, within=30, what="it has the new strategy")


async def test_a_node_may_have_another_strategy(scene: Scene) -> None:
    """What somebody changes in one Node's topology stays until the cluster's document changes, and restarts write nothing."""
    await scene.cluster_topology()
    await scene.world.node("a", labels=POOL)
    async with _keeping(scene):
        await scene.until_object("a")
    own = NodeTopology.create("a", gpu_product="own", gpu_count=1, mig_strategy="single")
    await scene.store.update("a", lambda _: own)
    before = await scene.object("a")
    async with _keeping(scene) as service:
        await service.until_healthy()
        await scene.world.node("b", labels=POOL)
        await scene.until_object("b")
    assert await scene.object("a") == before


async def test_a_topology_goes_with_its_node(scene: Scene) -> None:
    """The topology of a Node that is deleted goes, and no other."""
    await scene.cluster_topology()
    for name in ("a", "b"):
        await scene.world.node(name, labels=POOL)
    async with _keeping(scene) as service:
        for name in ("a", "b"):
            await scene.until_object(name)
        await scene.world.delete_node("a")
        await eventually(lambda: _gone(scene, "a"), within=30, what="the topology is gone")
        await service.until_healthy()
        _, metrics = await service.get("/metrics")
        assert 'nicrails_faker_topologies_pruned_total{reason="node-gone"} 1.0' in metrics
    assert await scene.object("b") is not None


async def test_a_replaced_node_gets_a_new_topology(scene: Scene) -> None:
    """A Node of the same name with another UID is another one: its topology is made anew, also after a restart."""
    await scene.cluster_topology()
    await scene.world.node("a", labels=POOL)
    async with _keeping(scene):
        await scene.until_object("a")
    old = NodeTopology.create("a", gpu_product="of the old one", gpu_count=1)
    await scene.store.update("a", lambda _: old)
    await scene.world.delete_node("a")
    new = await scene.world.node("a", labels=POOL)
    async with _keeping(scene):

        async def anew() -> bool:
            found = await scene.object("a")
            return (
                found is not None and found["metadata"]["annotations"]["nicrails.io/node-uid"] == new["metadata"]["uid"]
            )

        await eventually(anew, within=30, what="it is made for the new Node")
    assert (await scene.topology("a")).gpu_product == "NVIDIA-A100-SXM4-40GB"


async def test_a_topology_of_the_peer_is_taken_over(scene: Scene) -> None:
    """A topology without a UID is adopted where its Node is there, and kept where it is not: nothing proves it is over."""
    await scene.cluster_topology()
    node = await scene.world.node("a", labels=POOL)
    for name in ("a", "gone"):
        await scene.config_map(
            f"topology-{name}",
            {"topology.yml": "gpuProduct: of the peer\ngpus: []\n"},
            labels={"node-topology": "true", "node-name": name},
        )
    async with _keeping(scene) as service:

        async def adopted() -> bool:
            found = await scene.object("a")
            annotations = (found or {})["metadata"].get("annotations", {})
            return bool(annotations.get("nicrails.io/node-uid") == node["metadata"]["uid"])

        await eventually(adopted, within=30, what="it is taken over")
        await service.until_healthy()
    topology = await scene.topology("a")
    assert (topology.gpu_product, topology.mig_strategy) == ("of the peer", "mixed")
    assert await scene.object("gone") is not None


async def test_nothing_is_pruned_on_the_word_of_a_watch(tmp_path: Path) -> None:
    """A Node that lists do not show but that can be read keeps its topology."""
    async with embedded(tmp_path) as (cluster, scene):
        await scene.cluster_topology()
        await scene.world.node("a", labels=POOL)
        async with _keeping(scene):
            await scene.until_object("a")
        version = (await scene.world.api.get("/api/v1/nodes"))["metadata"]["resourceVersion"]
        empty = {"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": []}
        fault = cluster.faults.add(
            Fault(verb="list", path="/api/v1/nodes", action=Respond(status=200, body=empty), times=None)
        )
        async with _keeping(scene):
            await eventually(
                lambda: any((one.verb, one.path) == ("get", "/api/v1/nodes/a") for one in cluster.requests),
                within=30,
                what="the Node is read",
            )
            await scene.world.node("b", labels=POOL)
            await scene.until_object("b")
        cluster.faults.discard(fault)
        assert not any(one.method == "DELETE" for one in cluster.requests)


@pytest.mark.parametrize("broken", ["nodePools: 3\n", "a: *b\n", "[]\n"])
async def test_a_broken_document_changes_nothing(scene: Scene, broken: str) -> None:
    """While the cluster's document is wrong the service is unhealthy with the reason, and makes and removes nothing."""
    await scene.cluster_topology()
    await scene.world.node("a", labels=POOL)
    async with _keeping(scene) as service:
        await scene.until_object("a")
        await scene.cluster_topology(broken)
        await service.until_unhealthy("ConfigMap topology, topology.yml: ")
        await scene.world.delete_node("a")
        await scene.world.node("b", labels=POOL)
        # What is good again is worked on, so the order shows that nothing was done before.
        status, text = await service.get("/topology")
        assert (status, "ConfigMap topology" in text) == (503, True)
        assert await scene.object("a") is not None
        assert await scene.object("b") is None
        await scene.cluster_topology()
        await eventually(lambda: _gone(scene, "a"), within=30, what="the topology is gone")
        await scene.until_object("b")
        await service.until_healthy()


async def test_a_missing_document_is_told(scene: Scene) -> None:
    """Without the cluster's ConfigMap the service is unhealthy and says which one is missing."""
    async with _keeping(scene) as service:
        await service.until_unhealthy("ConfigMap topology does not exist")


async def test_a_configmap_of_somebody_else_stays(scene: Scene) -> None:
    """A ConfigMap that has the name of a topology but not its labels is left alone, and told."""
    await scene.cluster_topology()
    await scene.world.node("a", labels=POOL)
    await scene.world.node("b", labels=POOL)
    made = await scene.config_map("topology-a", {"mine": "yes"})
    labels = {"node-topology": "true", "node-name": "gone"}
    annotations = {"nicrails.io/node-uid": "of-a-node-that-is-gone"}
    other = await scene.config_map("something-else", {"mine": "yes"}, labels=labels, annotations=annotations)
    async with _keeping(scene) as service:
        await scene.until_object("b")
        await service.until_unhealthy("a: ConfigMap topology-a has not the labels")
    assert await scene.object("a") == made
    assert await scene.world.api.get(scene.world.path("configmaps", "something-else")) == other


async def test_a_name_that_no_configmap_can_have_is_told(scene: Scene) -> None:
    """A Node with too long a name is told, and the others get their topologies."""
    await scene.cluster_topology()
    await scene.world.node("n" * 64, labels=POOL)
    await scene.world.node("o" * 64)
    await scene.world.node("b", labels=POOL)
    async with _keeping(scene) as service:
        await scene.until_object("b")
        await service.until_unhealthy("the label node-name takes 63")
        assert "other" not in service.failure


async def _gone(scene: Scene, node: str) -> bool:
    return await scene.object(node) is None
