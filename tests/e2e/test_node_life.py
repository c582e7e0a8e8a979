"""What happens to Nodes, kubelets, the GPU Operator and the observer; the records are right at the end of each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.chart.helm import Json
from tests.e2e.site import NAMESPACE, OPERATOR, PLUGIN, Site, operator
from tests.support.waiting import eventually

PODS = f"/api/v1/namespaces/{OPERATOR}/pods"
DAEMON_SETS = f"/apis/apps/v1/namespaces/{OPERATOR}/daemonsets"
MERGE = "application/merge-patch+json"


async def is_back(site: Site, name: str) -> None:
    """Wait until a Node is there and Ready."""

    async def ready() -> bool:
        found = await site.api.get_or_none(f"/api/v1/nodes/{name}")
        conditions = {} if found is None else {one["type"]: one["status"] for one in found["status"]["conditions"]}
        assert conditions.get("Ready") == "True", conditions
        return True

    await eventually(ready, within=60, what=f"{name} is Ready", interval=0.2)


async def test_a_node_is_deleted_and_made_anew(site: Site) -> None:
    """The record of a deleted Node goes; the Node that comes under its name has the new record, with its own UID."""
    node = site.cluster.nodes["node2"]
    before = await site.golden("node2")
    await asyncio.to_thread(node.kubelet.stop)
    await site.api.delete("/api/v1/nodes/node2")
    await site.stand("node1", within=30)
    node.kubelet.start()
    await is_back(site, "node2")
    await site.operator_ready()
    await site.settled()
    assert await site.golden("node2") != before


async def test_a_kubelet_is_away_for_a_while(site: Site) -> None:
    """A Node that is not Ready keeps its record, and all is right when its kubelet is back."""
    node = site.cluster.nodes["node2"]
    before = await site.records()
    await asyncio.to_thread(node.kubelet.stop)

    async def lost() -> bool:
        found = await site.api.get("/api/v1/nodes/node2")
        conditions = {one["type"]: one["status"] for one in found["status"]["conditions"]}
        assert conditions["Ready"] == "Unknown", conditions
        return True

    try:
        await eventually(lost, within=90, what="node2 is not Ready", interval=0.5)
        assert await site.records() == before
    finally:
        node.kubelet.start()
    await is_back(site, "node2")
    await site.settled()
    assert await site.records() == before


@pytest.mark.fault("B8")
async def test_the_operator_pod_restarts(site: Site) -> None:
    """A GPU Operator pod that is exchanged leaves the record as it was, and the broker finds the new pod."""
    old = await site.operator_pod("node1")
    await site.api.delete(f"{PODS}/{old['metadata']['name']}")
    await site.operator_ready()
    assert (await site.operator_pod("node1"))["metadata"]["uid"] != old["metadata"]["uid"]
    await site.settled()


@pytest.mark.fault("B5")
async def test_the_operator_pod_is_not_ready(site: Site) -> None:
    """While the pod is not ready the broker says so and the record stays; afterwards it is healthy by itself."""
    flag = site.cluster.nodes["node1"].host / "machine" / "not-ready"
    before = await site.records()
    flag.touch()
    try:
        await site.reason("node1", "discover-gpus", "ready")
        assert await site.records() == before
    finally:
        flag.unlink()
    await site.healthy("node1")
    await site.settled()


@pytest.mark.fault("B8")
async def test_the_operator_is_gone(site: Site) -> None:
    """Without the GPU Operator no record changes, and every broker of a Node with GPUs says what is missing."""
    before = await site.records()
    await site.api.delete(f"{DAEMON_SETS}/{PLUGIN}")
    try:
        for node in ("node1", "node2"):
            await site.reason(node, "discover-gpus", PLUGIN)
        assert await site.records() == before
    finally:
        await site.api.create(DAEMON_SETS, operator())
    await site.operator_ready()
    await site.settled()


def loose(name: str) -> Json:
    """A pod with the labels of the DaemonSet's that nobody controls, on node1."""
    spec = operator()["spec"]["template"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": spec["metadata"]["labels"]},
        "spec": {**spec["spec"], "nodeName": "node1", "restartPolicy": "Never"},
    }


@pytest.mark.fault("B5")
@pytest.mark.parametrize("controlled", [False, True])
async def test_the_operator_pod_is_doubled(site: Site, controlled: bool) -> None:
    """A second pod with the same labels changes no record; one that the DaemonSet controls too is not chosen silently."""
    before = await site.records()
    # A DaemonSet that adds no pods of its own, or the second would be taken away again at once.
    body = loose("second")
    # The DaemonSet's controller removes surplus pods, but not ones that are ready on a Node it must not use.
    if controlled:
        found = await site.api.get(f"{DAEMON_SETS}/{PLUGIN}")
        body["metadata"]["ownerReferences"] = [
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "name": PLUGIN,
                "uid": found["metadata"]["uid"],
                "controller": True,
            }
        ]
    await site.api.create(PODS, body)
    try:
        for _ in range(10):
            await asyncio.sleep(0.3)
            assert await site.records() == before
    finally:
        await site.api.delete(f"{PODS}/second", grace=0)
    await site.operator_ready()
    await site.healthy("node1")
    await site.settled()


async def _delete(site: Site) -> None:
    (pod,) = await site.pods("observer")
    await site.api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}", grace=0)


async def _kill(site: Site) -> None:
    (pod,) = await site.pods("observer")
    node = site.cluster.nodes[pod["spec"]["nodeName"]]
    container = pod["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    await asyncio.to_thread(node.kill_container, container)


@pytest.mark.fault("O7")
@pytest.mark.parametrize("end", [_delete, _kill], ids=["pod-deleted", "process-killed"])
async def test_the_observer_ends_during_a_deletion(site: Site, end: Callable[[Site], Awaitable[None]]) -> None:
    """A Node that is deleted while the observer is killed loses its record as soon as an observer runs again."""
    node = site.cluster.nodes["node2"]
    # The observer has to be where a kubelet is.
    await asyncio.to_thread(node.kubelet.stop)
    (pod,) = await site.pods("observer")
    if pod["spec"]["nodeName"] == "node2":
        await asyncio.to_thread(node.kubelet.start)
        await site.api.ask(
            "PATCH", "/api/v1/nodes/node2", {"spec": {"unschedulable": True}}, headers={"Content-Type": MERGE}
        )
        await site.api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}", grace=0)
        await site.ready()
        await asyncio.to_thread(node.kubelet.stop)
    await asyncio.gather(end(site), site.api.delete("/api/v1/nodes/node2"))
    await site.stand("node1", within=60)
    node.kubelet.start()
    await is_back(site, "node2")
    await site.operator_ready()
    await site.settled()
