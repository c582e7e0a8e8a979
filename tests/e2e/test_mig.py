"""Fake MIG from a Node's annotation to what a real kubelet advertises and gives to pods."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import statistics
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio

from nicrails import decode
from nicrails_faker.mig import fingerprint, gpu_uuid, read_topology
from tests.cluster.api import Api
from tests.e2e.fakes import GPU, MIG_LABEL, POOL_LABEL, REASON, SEVEN, STATE, THREE, Fakes, slices
from tests.e2e.site import NAMESPACE, OPERATOR, Site
from tests.support.waiting import eventually

ONE, TWO = "nvidia.com/mig-1g.5gb", "nvidia.com/mig-2g.10gb"
CHANGES = 20


@pytest.fixture(scope="module")
def restored(standing: Site) -> Any:
    """The GPU Operator's stand-in comes back after this module."""
    yield

    async def off() -> None:
        async with Api.on(standing.cluster.plane.endpoint) as api:
            standing.api = api
            await Fakes.off(standing)

    asyncio.run(off())


@contextlib.asynccontextmanager
async def installed(standing: Site, values: Mapping[str, Any]) -> AsyncIterator[Fakes]:
    """The faker with these values; node1 has whole GPUs."""
    async with Api.on(standing.cluster.plane.endpoint) as api:
        standing.api = api
        async with standing.checked(), Fakes.on(standing, values) as fakes:
            pass
        yield fakes


@pytest_asyncio.fixture
async def fakes(standing: Site, restored: None) -> AsyncIterator[Fakes]:
    """The faker with the strategy ``mixed``; node1 has whole GPUs."""
    async with installed(standing, {}) as made:
        await made.whole()
        yield made


async def test_the_baseline(fakes: Fakes) -> None:
    """A Node of the pool advertises its two GPUs, with the labels of GPU Feature Discovery."""
    await fakes.advertises({GPU: 2})
    labels = (await fakes.node())["metadata"]["labels"]
    assert labels["nvidia.com/gpu.count"] == "2"
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-40GB"
    assert labels["nvidia.com/mig.capable"] == "true"


async def test_seven_slices(fakes: Fakes) -> None:
    """Seven slices on GPU 0: the kubelet advertises them and one GPU; ConfigMap, labels and mapping agree."""
    await fakes.ask(SEVEN)
    node = await fakes.state("success")
    # Success is never said before the kubelet has it.
    assert {key: node["status"]["allocatable"].get(key) for key in (ONE, GPU)} == {ONE: "7", GPU: "1"}
    topology = await fakes.topology()
    assert [gpu.mig_enabled for gpu in topology.gpus] == [True, False]
    uuids = [one.uuid for one in topology.gpus[0].mig_instances]
    assert len(set(uuids)) == 7
    mapping = await fakes.mapping()
    assert [entry["device_uuid"] for entry in mapping["0"]] == uuids
    assert [entry["position"] for entry in mapping["0"]] == list(range(7))
    labels = node["metadata"]["labels"]
    assert labels["nvidia.com/mig-1g.5gb.count"] == "7"
    assert labels["nvidia.com/mig.strategy"] == "mixed"
    assert labels["nvidia.com/mig-1g.5gb.product"] == "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"


async def test_the_same_request_again(fakes: Fakes) -> None:
    """The same slices asked for in other words change nothing, not even a UUID."""
    await fakes.ask(SEVEN)
    await fakes.state("success")
    before = await fakes.topology()
    await fakes.ask('version: v1\nmig-configs: {any: [{devices: [0], mig-enabled: true, mig-devices: {"1g.5gb": 7}}]}')
    await fakes.state("success")
    await fakes.advertises({GPU: 1, ONE: 7})
    assert await fakes.topology() == before


async def test_a_pod_gets_its_slice(fakes: Fakes) -> None:
    """A pod that asks for a slice runs and sees exactly its own, in `nvidia-smi -L` and in its environment."""
    await fakes.ask(SEVEN)
    await fakes.state("success")
    await fakes.run("slice", ONE)
    try:
        (uuid,) = fakes.said("slice", "sh", "-c", "echo $MOCK_NVIDIA_VISIBLE_DEVICES").split()
        assert uuid in {one.uuid for one in (await fakes.topology()).gpus[0].mig_instances}
        listed = fakes.said("slice", "nvidia-smi", "-L")
        assert listed.count("MIG-") == 1
        assert f"(UUID: {uuid})" in listed
        assert gpu_uuid("node1", 0) in listed
        assert fakes.said("slice", "sh", "-c", "echo $NODE_NAME").strip() == "node1"
    finally:
        await fakes.end("slice")


async def test_another_geometry_while_a_pod_runs(fakes: Fakes) -> None:
    """Three larger slices replace the seven at their legal places; a pod on the other GPU runs on."""
    await fakes.ask(SEVEN)
    await fakes.state("success")
    before = await fakes.run("whole", GPU)
    try:
        await fakes.ask(THREE)
        await fakes.advertises({GPU: 1, TWO: 3})
        await fakes.state("success")
        found = await fakes.topology()
        assert [one.index for one in found.gpus[0].mig_instances] == [0, 2, 4]
        after = await fakes.site.api.get("/api/v1/namespaces/default/pods/whole")
        assert after["status"]["phase"] == "Running"
        assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
        assert gpu_uuid("node1", 1) in fakes.said("whole", "nvidia-smi", "-L")
    finally:
        await fakes.end("whole")


async def test_a_slice_in_use_is_not_taken(fakes: Fakes) -> None:
    """A request that would take a slice from its pod fails with the pod's name; the pod keeps it, and all stays."""
    await fakes.ask(SEVEN)
    await fakes.state("success")
    await fakes.run("holder", ONE)
    try:

        async def known() -> bool:
            holders = [str(one.status.allocated_by) for one in (await fakes.topology()).gpus[0].mig_instances]
            assert any("default/holder" in holder for holder in holders), holders
            return True

        await eventually(known, within=30, what="the topology says who holds the slice", interval=0.1)
        before = await fakes.topology()
        await fakes.ask(THREE)
        node = await fakes.state("failed")
        assert "default/holder" in node["metadata"]["annotations"][REASON]
        assert await fakes.topology() == before
        await fakes.advertises({GPU: 1, ONE: 7})
        assert "MIG-" in fakes.said("holder", "nvidia-smi", "-L")
        events = await fakes.site.api.get("/api/v1/namespaces/default/events?fieldSelector=reason=MigConfigFailed")
        assert any("default/holder" in event["message"] for event in events["items"])
    finally:
        await fakes.end("holder")
    # What was asked for is done once it can be.
    await fakes.state("success")
    await fakes.advertises({GPU: 1, TWO: 3})


@pytest.mark.parametrize(
    "request_",
    [
        slices(("3g.20gb", 0, 4), ("3g.20gb", 2, 4)),
        slices(("1g.5gb", 0, 1), gpu=2),
        slices(("1g.10gb.nonsense", 0, 1)),
        "mig-configs: &a [*a]",
        "a: [" * 1000,
        "version: v1\nmig-configs: 3\n",
    ],
    ids=["overlap", "no-such-gpu", "no-such-profile", "alias", "bomb", "wrong-type"],
)
async def test_an_impossible_request(fakes: Fakes, request_: str) -> None:
    """It fails with one sentence in an annotation and an Event, and nothing of the old state changes."""
    await fakes.ask(THREE)
    await fakes.state("success")
    before, mapping = await fakes.topology(), await fakes.mapping()
    await fakes.ask(request_)
    node = await fakes.state("failed")
    assert node["metadata"]["annotations"][REASON]
    assert "\n" not in node["metadata"]["annotations"][REASON]
    assert (await fakes.topology(), await fakes.mapping()) == (before, mapping)
    await fakes.advertises({GPU: 1, TWO: 3})


async def test_equal_numbers_of_other_slices(fakes: Fakes) -> None:
    """A slice that moves is `success` only when the device plugin has handed the new one over, though no number changes."""
    for position in (0, 2):
        await fakes.ask(slices(("2g.10gb", position, 2)))

        async def moved(position: int = position) -> bool:
            found = await fakes.site.api.get(f"/api/v1/namespaces/{OPERATOR}/configmaps/topology-node1")
            topology = read_topology(found["data"]["topology.yml"])
            assert [one.index for one in topology.gpus[0].mig_instances] == [position]
            state = (await fakes.node())["metadata"]["labels"].get(STATE)
            said = found["metadata"]["annotations"].get("nicrails.io/advertised")
            assert (state, said) == ("success", fingerprint(topology))
            return True

        await eventually(moved, within=30, what=f"the slice is at {position}", interval=0.05)


async def test_removing_the_annotation(fakes: Fakes) -> None:
    """Without the annotation the GPUs are whole again, and labels of slices are gone."""
    await fakes.ask(SEVEN)
    await fakes.state("success")
    await fakes.ask(None)
    node = await fakes.state(None)
    await fakes.advertises({GPU: 2})
    assert not [label for label in node["metadata"]["labels"] if label.startswith("nvidia.com/mig-")]


async def test_a_kubelet_restarts(fakes: Fakes) -> None:
    """After a restart of the kubelet all resources are back within 10 s, by themselves, without a restart of a pod."""
    await fakes.ask(SEVEN)
    await fakes.state("success")
    pods = await fakes.plugin_pods()
    await fakes.restart_kubelet()
    started = time.monotonic()

    async def back() -> bool:
        ready = {one["type"]: one["status"] for one in (await fakes.node())["status"]["conditions"]}["Ready"]
        assert ready == "True"
        return await fakes.allocatable() == {GPU: 1, ONE: 7}

    await eventually(back, within=30, what="all is advertised again", interval=0.05)
    assert time.monotonic() - started < 10
    assert await fakes.plugin_pods() == pods


async def test_from_annotation_to_allocatable(fakes: Fakes, record_property: Any) -> None:
    """In 19 of 20 changes a Node advertises within 2 s what its annotation asks for, and no pod is restarted."""
    pods = await fakes.plugin_pods()
    seconds = []
    for request, resource, _ in zip(
        itertools.cycle([SEVEN, THREE]), itertools.cycle([(ONE, 7), (TWO, 3)]), range(CHANGES), strict=False
    ):
        started = time.monotonic()
        await fakes.ask(request)
        await fakes.advertises({GPU: 1, resource[0]: resource[1]})
        seconds.append(time.monotonic() - started)
        await fakes.state("success")
    record_property("seconds", sorted(seconds))
    assert statistics.quantiles(seconds, n=20)[-1] <= 2, sorted(seconds)
    assert await fakes.plugin_pods() == pods


@pytest.mark.parametrize(("strategy", "gpus"), [("single", 8), ("none", 2)])
async def test_other_strategies(standing: Site, restored: None, strategy: str, gpus: int) -> None:
    """Another strategy reaches Nodes that exist: slices as plain GPUs, or not at all."""
    async with installed(standing, {"faker": {"topology": {"migStrategy": strategy}}}) as fakes:
        await fakes.ask(SEVEN)
        await fakes.state("success")
        await fakes.advertises({GPU: gpus})
        await fakes.ask(None)
        await fakes.advertises({GPU: 2})


async def test_the_restart_mode(standing: Site, restored: None) -> None:
    """With `onChange: restart` the device plugin's pod of the Node, and no other one, is exchanged for a change."""
    async with installed(standing, {"faker": {"mig": {"onChange": "restart"}}}) as fakes:
        await fakes.whole()
        await fakes.ready()
        before = await fakes.plugin_pods()
        await fakes.ask(SEVEN)
        await fakes.advertises({GPU: 1, ONE: 7})
        await fakes.state("success")
        await fakes.ready()
        assert len(before.keys() & (await fakes.plugin_pods()).keys()) == 1
        await fakes.whole()


async def test_the_strict_mode(standing: Site, restored: None) -> None:
    """With `strict` a Node that NVIDIA's own plugin would refuse offers no GPUs, and is whole again afterwards."""
    values = {"faker": {"topology": {"migStrategy": "single"}, "devicePlugin": {"strict": True}}}
    async with installed(standing, values) as fakes:
        await fakes.ask(SEVEN)
        await fakes.advertises({})
        await fakes.state("success")
        await fakes.whole()


async def test_a_node_without_a_kubelet(standing: Site, restored: None) -> None:
    """A Node of KWOK advertises what its annotation asks for, and keeps no resource that is gone."""
    async with installed(standing, {"faker": {"fakeNodes": {"enabled": True}}}) as fakes:
        labels = {POOL_LABEL: "default", MIG_LABEL: "true", "type": "kwok"}
        metadata = {"name": "kwok1", "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
        await standing.api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        try:
            await fakes.advertises({GPU: 2}, "kwok1")
            await fakes.ask(SEVEN, "kwok1")
            await fakes.advertises({GPU: 1, ONE: 7}, "kwok1")
            await fakes.state("success", "kwok1")
            await fakes.ask(THREE, "kwok1")
            await fakes.state("success", "kwok1")
            await fakes.advertises({GPU: 1, TWO: 3}, "kwok1")
            assert ONE not in (await fakes.node("kwok1"))["status"]["capacity"]
        finally:
            await standing.api.delete("/api/v1/nodes/kwok1")

        async def pruned() -> bool:
            path = f"/api/v1/namespaces/{OPERATOR}/configmaps/topology-kwok1"
            assert await standing.api.get_or_none(path) is None
            return True

        await eventually(pruned, within=60, what="the topology of the Node is gone", interval=0.2)


async def test_records_name_physical_gpus(fakes: Fakes) -> None:
    """Both missions meet: the broker reads this nvidia-smi, and its record is the same bytes with MIG on and off."""

    async def published() -> str:
        text = (await fakes.site.records()).get("node1")
        assert text is not None
        return text

    before = await eventually(published, within=60, what="node1 has a record", interval=0.2)
    assert set(decode(before).gpus) == {gpu_uuid("node1", 0), gpu_uuid("node1", 1)}
    await fakes.ask(SEVEN)
    await fakes.state("success")
    await fakes.site.healthy("node1")
    broker = await fakes.site.broker("node1")
    await fakes.site.api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{broker['metadata']['name']}", grace=1)
    await fakes.site.ready()
    assert (await fakes.site.records())["node1"] == before


async def test_metrics_and_topology_server(fakes: Fakes) -> None:
    """Slices have DCGM metrics with profile, instance and the pod that holds them; the topology is served as the peer does."""
    await fakes.ask(SEVEN)
    await fakes.state("success")
    await fakes.run("measured", ONE)
    try:
        selector = "labelSelector=app.kubernetes.io/component=faker-metrics"
        found = await fakes.site.api.get(f"/api/v1/namespaces/{OPERATOR}/pods?{selector}")
        (pod,) = [one["metadata"]["name"] for one in found["items"] if one["spec"]["nodeName"] == "node1"]

        async def exported() -> bool:
            answer = await fakes.site.api.ask("GET", f"/api/v1/namespaces/{OPERATOR}/pods/{pod}:9400/proxy/metrics")
            lines = [line for line in answer.body.decode().splitlines() if line.startswith("DCGM_FI_DEV_FB_USED{")]
            assert len([line for line in lines if 'GPU_I_PROFILE="1g.5gb"' in line]) == 7, lines
            assert [line for line in lines if 'pod="measured"' in line and 'GPU_I_ID="' in line], lines
            return True

        await eventually(exported, within=30, what="the slice's pod is in the metrics", interval=0.2)
        server = f"/api/v1/namespaces/{OPERATOR}/services/topology-server:80/proxy/topology/nodes/node1"
        served = json.loads((await fakes.site.api.ask("GET", server)).body)
        assert [len(gpu["MigInstances"] or []) for gpu in served["Gpus"]] == [7, 0]
    finally:
        await fakes.end("measured")
