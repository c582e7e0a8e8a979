"""Nodes without a kubelet on the embedded API; ``tests/cluster/test_faker_nodes.py`` has the real API server."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nicrails_faker.api import Fault, Respond
from nicrails_faker.fakenodes import app
from nicrails_faker.fakenodes.controller import FakeNodes
from nicrails_faker.mig import NodeTopology, OtherDevice
from nicrails_faker.mig.labels import feature_labels
from nicrails_faker.migfaker.teller import Options
from nicrails_faker.topologies.config_maps import ADVERTISED_ANNOTATION
from tests.faker.played import MIG_NODE, STATE, PlayedNode, mig_config
from tests.faker.scene import Scene, Service, embedded
from tests.support.waiting import eventually

_FAKE = {"nicrails.io/fake-node": "true"}
_GIVEN = "nicrails.io/fake-resources"


@contextlib.asynccontextmanager
async def _faking(scene: Scene, **options: Any) -> AsyncIterator[Service]:
    async with scene.service(
        app.DUTIES,
        lambda it: app.build(
            it, namespace=scene.world.namespace, name="topology", fake=FakeNodes(), options=Options(**options)
        ),
    ) as service:
        yield service


async def _node(
    scene: Scene, name: str = "n", *, labels: Mapping[str, str] | None = None, topology: bool = True
) -> PlayedNode:
    await scene.world.node(name, labels=_FAKE | MIG_NODE if labels is None else labels)
    if topology:
        new = NodeTopology.create(
            name, gpu_product="NVIDIA-A100-SXM4-40GB", gpu_count=2, gpu_memory=40960, mig_strategy="mixed"
        )
        await scene.store.create(name, new, annotations={})
    return PlayedNode(scene, name)


async def _until(node: PlayedNode, resources: Mapping[str, str]) -> None:
    """Wait until exactly these are there, in capacity and allocatable; none at 0 is left."""

    async def there() -> bool:
        status = (await node.object()).get("status", {})
        assert status.get("allocatable", {}) == resources, status
        assert status.get("capacity", {}) == resources, status
        return True

    await eventually(there, within=30, what=f"{node.name} advertises {dict(resources)}")


async def test_what_a_former_device_plugin_said_does_not_count(scene: Scene) -> None:
    """A Node that had a device plugin once and has no kubelet now still gets to success."""
    node = await _node(scene)
    path = scene.world.path("configmaps", "topology-n")
    await scene.world.api.merge_patch(path, {"metadata": {"annotations": {ADVERTISED_ANNOTATION: "of-former-devices"}}})
    async with _faking(scene):
        await node.annotate(mig_config('{"1g.5gb": 7}'))
        await node.until_state("success")


async def test_resources_follow_the_topology(scene: Scene) -> None:
    """A Node advertises its topology when it comes, when it changes, and no more when it is gone; old resources go."""
    node = await _node(scene, topology=False)
    await scene.world.api.merge_patch(
        "/api/v1/nodes/n/status", {"status": {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "8"}}}
    )
    async with _faking(scene) as service:
        await service.until_healthy()
        new = NodeTopology.create("n", gpu_product="NVIDIA-A100-SXM4-40GB", gpu_count=2, gpu_memory=40960)
        await scene.store.create("n", new, annotations={})
        await _until(node, {"cpu": "8", "nvidia.com/gpu": "2"})
        await scene.store.update("n", lambda now: replace(now, other_devices=(OtherDevice(name="rdma/hca", count=4),)))
        await _until(node, {"cpu": "8", "nvidia.com/gpu": "2", "rdma/hca": "4"})
        await scene.store.update("n", lambda now: replace(now, other_devices=()))
        await _until(node, {"cpu": "8", "nvidia.com/gpu": "2"})
        assert (await node.labels())["nvidia.com/gpu.count"] == "2"
        await scene.world.api.delete(scene.world.path("configmaps", "topology-n"))
        await _until(node, {"cpu": "8"})
        await service.until_healthy()
    assert await node.labels() == _FAKE | MIG_NODE
    assert await node.annotations() == {}


async def test_a_topology_that_went_while_it_was_away(scene: Scene) -> None:
    """What the Node itself remembers is taken back also when the topology went unseen."""
    node = await _node(scene)
    async with _faking(scene):
        await _until(node, {"nvidia.com/gpu": "2"})
    await scene.world.api.delete(scene.world.path("configmaps", "topology-n"))
    async with _faking(scene):
        await _until(node, {})


async def test_a_request_is_served_without_a_kubelet(scene: Scene) -> None:
    """Annotation, other annotation, no annotation: resources, labels and topology agree, and old resources are gone."""
    node = await _node(scene)
    async with _faking(scene) as service:
        await node.annotate(mig_config('{"1g.5gb": 7}'))
        await node.until_state("success")
        await _until(node, {"nvidia.com/gpu": "1", "nvidia.com/mig-1g.5gb": "7"})
        await node.annotate(mig_config('{"2g.10gb": 3}', gpus="all"))
        await _until(node, {"nvidia.com/mig-2g.10gb": "6"})
        await node.until_state("success")
        assert await node.labels() == feature_labels(await scene.topology("n")) | _FAKE | MIG_NODE | {STATE: "success"}
        await node.annotate(mig_config('{"1g.5gb": 8}'))
        await node.until_state("failed")
        await _until(node, {"nvidia.com/mig-2g.10gb": "6"})
        await node.annotate(None)
        await node.until_state(None)
        await _until(node, {"nvidia.com/gpu": "2"})
        await service.until_healthy()


async def test_nodes_of_kwok_are_meant(scene: Scene) -> None:
    """The annotation of KWOK makes a Node one without a kubelet, also when it comes later."""
    node = await _node(scene, labels={})
    async with _faking(scene):
        await scene.world.api.merge_patch(
            "/api/v1/nodes/n", {"metadata": {"annotations": {"kwok.x-k8s.io/node": "fake"}}}
        )
        await _until(node, {"nvidia.com/gpu": "2"})


async def test_a_node_with_a_kubelet_is_never_touched(scene: Scene) -> None:
    """A Node that is not said to be without a kubelet is not written to, whatever its topology and annotation say."""
    kubelets = await _node(scene, "kubelets", labels=MIG_NODE)
    await kubelets.annotate(mig_config('{"1g.5gb": 7}'))
    before = await kubelets.object()
    node = await _node(scene)
    async with _faking(scene) as service:
        await _until(node, {"nvidia.com/gpu": "2"})
        await service.until_healthy()
        await scene.world.delete_node("n")
        await service.until_healthy()
    assert await kubelets.object() == before


async def test_a_restart_writes_nothing(scene: Scene) -> None:
    """A restart leaves Nodes and topologies as they are."""
    node = await _node(scene)
    async with _faking(scene):
        await node.annotate(mig_config('{"1g.5gb": 7}'))
        await node.until_state("success")
    before = await node.object(), await scene.object("n")
    other = await _node(scene, "other", topology=False)
    async with _faking(scene) as service:
        await service.until_healthy()
        await scene.store.create("other", NodeTopology.create("other", gpu_product="X", gpu_count=1), annotations={})
        await _until(other, {"nvidia.com/gpu": "1"})
    assert (await node.object(), await scene.object("n")) == before


@pytest.mark.parametrize("name", ["node", "event", "cpu", "a,b/c", "kubernetes.io/x", "a/\x1b[2J", "_record"])
async def test_a_name_that_is_none_is_told_beside_the_others(scene: Scene, name: str) -> None:
    """A resource that a kubelet would not take is not written to a Node either, whatever it is called; the rest is."""
    node = await _node(scene)
    async with _faking(scene) as service:
        await _until(node, {"nvidia.com/gpu": "2"})
        others = (OtherDevice(name=name, count=3), OtherDevice(name="rdma/hca", count=1))
        await scene.store.update("n", lambda topology: replace(topology, other_devices=others))
        await _until(node, {"nvidia.com/gpu": "2", "rdma/hca": "1"})
        await service.until_unhealthy("is no name of an extended resource")
        assert service.failure.isprintable()
        await scene.store.update("n", lambda topology: replace(topology, other_devices=others[1:]))
        await service.until_healthy()


async def test_what_somebody_else_changes_is_put_right(scene: Scene) -> None:
    """Resources that were changed or added by hand are put right; those of others stay."""
    node = await _node(scene)
    async with _faking(scene):
        await _until(node, {"nvidia.com/gpu": "2"})
        status = {"nvidia.com/gpu": "9", "nvidia.com/mig-1g.5gb": "1", "example.com/x": "1"}
        await scene.world.api.merge_patch(
            "/api/v1/nodes/n/status", {"status": {"capacity": status, "allocatable": status}}
        )
        await _until(node, {"nvidia.com/gpu": "2", "example.com/x": "1"})


async def test_an_unreadable_topology_changes_nothing(scene: Scene) -> None:
    """A Node whose topology can not be read keeps what it advertises, is told, and the others go on."""
    node, other = await _node(scene), await _node(scene, "other", topology=False)
    path = scene.world.path("configmaps", "topology-n")
    async with _faking(scene) as service:
        await _until(node, {"nvidia.com/gpu": "2"})
        good = (await scene.world.api.get(path))["data"]["topology.yml"]
        await scene.world.api.merge_patch(path, {"data": {"topology.yml": "gpus: 1"}})
        await service.until_unhealthy("n: ConfigMap topology-n, topology.yml: gpus")
        await scene.store.create("other", NodeTopology.create("other", gpu_product="X", gpu_count=1), annotations={})
        await _until(other, {"nvidia.com/gpu": "1"})
        await _until(node, {"nvidia.com/gpu": "2"})
        await scene.world.api.merge_patch(path, {"data": {"topology.yml": good}})
        await service.until_healthy()


async def test_a_request_without_a_topology_is_told(scene: Scene) -> None:
    """A request for a Node without a topology is told; a Node that wants no GPUs is fine without."""
    node = await _node(scene, topology=False)
    async with _faking(scene) as service:
        await service.until_healthy()
        await node.annotate(mig_config('{"1g.5gb": 7}'))
        await service.until_unhealthy("n: there is no topology for it")
        await node.annotate(None)
        await service.until_healthy()


@pytest.mark.parametrize("status", [403, 500])
async def test_a_write_that_fails_is_told_and_done_later(tmp_path: Path, status: int) -> None:
    """While a Node can not be written to the service says so; afterwards it is put right."""
    async with embedded(tmp_path) as (cluster, scene):
        node = await _node(scene)
        refused = Fault(
            method="PATCH", path="/api/v1/nodes/n/status", action=Respond(status=status, body="no"), times=None
        )
        active = cluster.faults.add(refused)
        async with _faking(scene) as service:
            await service.until_unhealthy("n: ")
            cluster.faults.discard(active)
            await _until(node, {"nvidia.com/gpu": "2"})
            await service.until_healthy()
