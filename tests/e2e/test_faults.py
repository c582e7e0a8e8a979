"""Rows of the table of faults that need a real kubelet, a real scheduler or real controllers to be believed."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from nicrails_faker.machines.programs import Answer
from tests.chart.combinations import MAPPING
from tests.chart.helm import Json, at
from tests.e2e.site import CONFIG_MAP, NAMESPACE, OPERATOR, PLUGIN, Site, operator
from tests.support.waiting import eventually

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
OPERATOR_PODS = f"/api/v1/namespaces/{OPERATOR}/pods"
DAEMON_SETS = f"/apis/apps/v1/namespaces/{OPERATOR}/daemonsets"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/nicrails-observer"
RECORDS = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIG_MAP}"
HOLD = "tests.nicrails.io/hold"
"""A finalizer: the object stays, with its time of deletion, until the test has seen it."""


@contextlib.asynccontextmanager
async def undisturbed(site: Site) -> AsyncIterator[None]:
    """Whatever happens within the block, the records stand as they were when it ends, and no container was restarted."""
    records, restarted = await site.records(), await restarts(site)
    yield
    assert await site.records() == records
    now = await restarts(site)
    assert {name: count for name, count in now.items() if count != restarted.get(name, 0)} == {}


async def restarts(site: Site) -> dict[str, int]:
    """How often the containers of all pods were started anew, by pod."""
    pods: list[Json] = [*await site.pods("broker"), *await site.pods("observer")]
    return {pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods}


@contextlib.contextmanager
def slow_nvidia_smi(site: Site, node: str) -> Iterator[str]:
    """An ``nvidia-smi`` that answers well after a while; how its process is known."""
    program = site.machines[node].nvidia_smi
    usual = program.read_bytes()
    beside = program.with_name("usual")
    beside.write_bytes(usual)
    beside.chmod(0o755)
    # Shorter than the broker's time limit: a GPU that hung is asked again after minutes only.
    program.write_text('#!/bin/sh\nsleep 2.0625\nexec "$(dirname "$0")/usual" "$@"\n')
    try:
        yield "sleep 2.0625"
    finally:
        program.write_bytes(usual)
        beside.unlink()


async def is_running(site: Site, node: str, words: str) -> None:
    """Wait until a process with these words runs on a Node."""
    await eventually(
        lambda: bool(site.cluster.nodes[node].run("sh", "-c", f"pgrep -f '^{words}' || :")),
        within=30,
        what=f"{words} runs on {node}",
        interval=0.05,
    )


def from_node(site: Site, pod: Json, path: str) -> tuple[int, str]:
    """Status and body of an endpoint of a pod as its Node's kubelet sees it, without the API server."""
    node = site.cluster.nodes[pod["spec"]["nodeName"]]
    url = f"http://{pod['status']['podIP']}:8080{path}"
    body, _, status = node.run("curl", "-s", "-m", "5", "-w", "\n%{http_code}", url).rpartition("\n")
    return int(status), body


# --- the GPU Operator's pods -----------------------------------------------------------------------------------------


@pytest.mark.fault("B5")
async def test_two_ready_pods_of_the_daemon_set(site: Site) -> None:
    """While a surge update has two ready pods on a Node no one of them is chosen; the record stays, and it heals."""
    surge = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "100%"}}
    template = {"metadata": {"annotations": {"tests.nicrails.io/turn": "next"}}}
    async with undisturbed(site):
        await site.api.merge_patch(
            f"{DAEMON_SETS}/{PLUGIN}", {"spec": {"minReadySeconds": 6, "updateStrategy": surge, "template": template}}
        )
        try:
            await site.reason("node1", "discover-gpus", f"2 pods of DaemonSet {OPERATOR}/{PLUGIN} are ready")
        finally:
            usual = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
            await site.api.merge_patch(
                f"{DAEMON_SETS}/{PLUGIN}", {"spec": {"minReadySeconds": 0, "updateStrategy": usual}}
            )
        await site.operator_ready()
        await site.healthy("node1")


@pytest.mark.fault("B5")
async def test_a_pod_that_is_terminating(site: Site) -> None:
    """A ready pod that takes its time to end is not used any more; the broker waits for the next one."""
    pod = await site.operator_pod("node1")
    container = pod["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    stop = 'for one in /proc/[0-9]*; do ! grep -q "$1" "$one/cgroup" || kill -STOP "${one#/proc/}"; done'
    async with undisturbed(site):
        # A frozen process gets its SIGTERM only when it goes on, so the pod lasts as long as its grace period.
        site.cluster.nodes["node1"].run("sh", "-c", stop, "sh", container)
        await site.api.delete(f"{OPERATOR_PODS}/{pod['metadata']['name']}", grace=6)
        await site.reason("node1", "discover-gpus", f"{pod['metadata']['name']} (terminating)")
        await site.operator_ready()
        await site.healthy("node1")


@pytest.mark.fault("B7")
async def test_the_kubelet_is_killed_during_exec(site: Site) -> None:
    """A kubelet that is killed while nvidia-smi runs fails the update and the next ones; with the kubelet all heals."""
    kubelet = site.cluster.nodes["node1"].kubelet
    async with undisturbed(site):
        with slow_nvidia_smi(site, "node1") as words:
            await is_running(site, "node1", words)
            await asyncio.to_thread(kubelet.kill)
            try:
                await site.reason("node1", "discover-gpus", "can not run 'nvidia-smi")
            finally:
                kubelet.start()
        await site.healthy("node1")


@pytest.mark.fault("B7")
async def test_a_container_that_the_pod_has_not(site: Site) -> None:
    """A wrong `gpuSource.container` is told with the containers that there are and the setting; the records stay."""
    before = await site.records()
    site.install(at(f"{MAPPING}.gpuSource.container", "no-such"))

    async def told() -> bool:
        said = [(await site.endpoint(pod, "/healthz"))[1] for pod in await site.pods("broker")]
        wanted = "has no container no-such, only nvidia-device-plugin: set gpuSource.container"
        assert any(wanted in text for text in said), said
        return True

    await eventually(told, within=60, what="a broker names the setting", interval=0.2)
    assert await site.records() == before
    site.install()
    await site.settled()


@pytest.mark.fault("B8")
async def test_an_installation_before_the_gpu_operator(bare: Site) -> None:
    """Brokers that are there before the GPU Operator publish nothing, say what is missing, and publish once it comes."""
    await bare.api.delete(f"{DAEMON_SETS}/{PLUGIN}")
    try:
        bare.install()
        for node in ("node1", "node2"):
            await eventually(functools.partial(bare.broker, node), within=60, what=f"{node} has a broker", interval=0.2)
            await bare.reason(node, "discover-gpus", f"DaemonSet {OPERATOR}/{PLUGIN} does not exist", "not installed")
        assert await bare.records() == {}
    finally:
        await bare.api.create(DAEMON_SETS, operator())
    await bare.operator_ready()
    await bare.settled()


# --- lldpd and rails -------------------------------------------------------------------------------------------------


@pytest.mark.fault("B9")
@pytest.mark.parametrize(
    ("killed", "cause"),
    [(False, "lldpd does not run on the host"), (True, "the socket is stale")],
    ids=["stopped", "killed"],
)
async def test_lldpd_ends_and_comes_back(site: Site, killed: bool, cause: str) -> None:
    """Without lldpd, be its socket gone or stale, the broker says which and the record stays; a new lldpd is found."""
    lldpd = site.cluster.nodes["node1"].lab.host.lldpd
    before = await site.records()
    await asyncio.to_thread(lldpd.kill if killed else lldpd.stop)
    try:
        await site.reason("node1", "discover-rails", cause)
        assert await site.records() == before
    finally:
        await asyncio.to_thread(site.cluster.nodes["node1"].lab.host.start)
    await site.healthy("node1")
    # A new lldpd knows no neighbours at first, which is an answer.
    await site.stand()
    assert await site.records() == before


def without(topo: str, first: str) -> str:
    """A topology matrix without this NIC and those after it: their columns, rows and lines in the legend."""
    lines = topo.split("\n")
    header = next(line for line in lines if "GPU0" in line)
    begin, end = header.index(first), header.index("CPU Affinity")
    gone = header[begin:end].split()
    return "\n".join(
        line[:begin] + line[end:] if line.startswith((" ", "GPU", "NIC")) and len(line) > begin else line
        for line in lines
        if line.split(":")[0].split(" ")[0] not in gone and line.strip().split(":")[0] not in gone
    )


@pytest.mark.fault("B10")
async def test_a_rail_that_the_topology_does_not_show(site: Site) -> None:
    """When nvidia-smi shows no NIC of a rail that has a neighbour, the update fails by the rail's name; the record stays."""
    machine = site.machines["node1"]
    topo = machine.machine.captures.topo
    assert topo is not None
    async with undisturbed(site):
        machine.answer(Answer.TOPO, without(topo.decode(), "NIC15").encode())
        try:
            await site.reason("node1", "join", "rail7 has no NIC that the topology shows")
        finally:
            machine.heal()
        await site.healthy("node1")


@pytest.mark.fault("B10")
async def test_a_rail_without_a_nic(site: Site) -> None:
    """A neighbour on an interface that is a rail by its name and has no NIC fails the update; the record stays."""
    lab = site.cluster.nodes["node1"].lab
    async with undisturbed(site):
        peer = ["type", "veth", "peer", "name", "swp99", "netns", str(lab.switch.holder)]
        lab.host.run("ip", "link", "add", "eth_r9_p0", *peer)
        try:
            lab.host.run("ip", "link", "set", "eth_r9_p0", "up")
            lab.switch.run("ip", "link", "set", "swp99", "up")
            await site.reason("node1", "discover-rails", "interface eth_r9_p0 is not in")
        finally:
            lab.host.run("ip", "link", "delete", "eth_r9_p0")
        await site.healthy("node1")


@pytest.mark.fault("B11", "O8")
async def test_a_node_is_made_anew_under_its_pods(site: Site) -> None:
    """A Node that is deleted and comes back at once keeps its pods, and its record gets the new UID by itself."""
    node = site.cluster.nodes["node2"]
    pod, before = await site.broker("node2"), await site.records()
    await asyncio.to_thread(node.kubelet.kill)
    await site.api.delete("/api/v1/nodes/node2")
    node.kubelet.start()
    await eventually(lambda: site.api.get_or_none("/api/v1/nodes/node2"), within=60, what="node2 is back", interval=0.1)
    await site.settled()
    assert (await site.broker("node2"))["metadata"]["uid"] == pod["metadata"]["uid"]
    after = await site.records()
    assert after["node1"] == before["node1"]
    assert after["node2"] != before["node2"]


# --- both services ---------------------------------------------------------------------------------------------------


@pytest.mark.fault("F1")
async def test_the_api_server_restarts(site: Site) -> None:
    """Without the API server all pods live by their probes and say what they miss; then all is as before, unrestarted."""
    pods = [await site.broker("node1"), await site.broker("node2"), *await site.pods("observer")]
    async with undisturbed(site):
        await asyncio.to_thread(site.cluster.plane.stop_api_server)
        try:
            for pod in pods:

                def tells(pod: Json = pod) -> bool:
                    status, body = from_node(site, pod, "/healthz")
                    assert (status, json.loads(body)["status"]) == (503, "unhealthy"), body
                    return True

                await eventually(tells, within=30, what=f"{pod['metadata']['name']} is unhealthy", interval=0.2)
                assert from_node(site, pod, "/livez")[0] == 200
        finally:
            await asyncio.to_thread(site.cluster.plane.start_api_server)
        await site.ready()
        for node in ("node1", "node2"):
            await site.healthy(node)


async def idle(site: Site, _node: str) -> None:
    """Between two updates."""
    await site.healthy("node1")


async def during_exec(site: Site, node: str) -> None:
    """While nvidia-smi runs."""
    await is_running(site, node, "sleep 2.0625")


async def in_backoff(site: Site, node: str) -> None:
    """After a failure."""
    site.machines[node].answer(Answer.INVENTORY, None)
    await site.reason(node, "discover-gpus")


async def ended(site: Site, pod: Json) -> Json:
    """Delete a pod with its own grace period; how its container ended, once it has."""
    path = f"{PODS}/{pod['metadata']['name']}"
    await site.api.merge_patch(path, {"metadata": {"finalizers": [HOLD]}})
    try:
        await site.api.delete(path)

        async def terminated() -> Json:
            found = await site.api.get(path)
            state = found["status"]["containerStatuses"][0]["state"]
            assert "terminated" in state, state
            return dict(state["terminated"])

        return await eventually(terminated, within=60, what="the container has ended", interval=0.1)
    finally:
        await site.api.merge_patch(path, {"metadata": {"finalizers": None}})


@pytest.mark.fault("F10")
@pytest.mark.parametrize("moment", [idle, during_exec, in_backoff], ids=["idle", "exec", "back-off"])
async def test_a_broker_is_told_to_end(site: Site, moment: Callable[[Site, str], Awaitable[None]]) -> None:
    """At whatever moment a broker's pod is deleted, it ends by itself with exit code 0; the record stays as it is."""
    before = await site.records()
    pod = await site.broker("node1")
    with slow_nvidia_smi(site, "node1") if moment is during_exec else contextlib.nullcontext():
        try:
            await moment(site, "node1")
            state = await ended(site, pod)
            assert (state["exitCode"], state.get("signal"), state["reason"]) == (0, None, "Completed"), state
            assert await site.records() == before
        finally:
            site.machines["node1"].heal()
    await site.settled()


@pytest.mark.fault("F10")
async def test_an_observer_is_told_to_end(site: Site) -> None:
    """An observer whose pod is deleted ends by itself with exit code 0, and its successor goes on."""
    (pod,) = await site.pods("observer")
    async with undisturbed(site):
        state = await ended(site, pod)
        assert (state["exitCode"], state["reason"]) == (0, "Completed"), state
        await site.settled()


@pytest.mark.fault("F14")
async def test_a_failure_that_lasts_is_one_line(site: Site) -> None:
    """A failure that comes again and again stands once in the log that the kubelet keeps."""
    pod = await site.broker("node1")
    failures = re.compile(
        r'^nicrails_broker_failures_total\{duty="rails-record",step="discover-gpus"\} (\S+)$', re.MULTILINE
    )

    async def count() -> float:
        found = failures.search((await site.endpoint(pod, "/metrics"))[1])
        return float(found[1]) if found else 0.0

    def lines() -> list[str]:
        return [line for line in site.logs(pod).splitlines() if "step-failed" in line and "discover-gpus" in line]

    machine = site.machines["node1"]
    before, written = await count(), len(lines())
    machine.answer(Answer.INVENTORY, b"boom " * 10_000, exit_status=13)
    try:

        async def often() -> bool:
            assert await count() >= before + 4
            return True

        await eventually(often, within=60, what="four failures", interval=0.2)
        new = lines()[written:]
        assert len(new) == 1, new
        assert len(new[0]) < 2048
    finally:
        machine.heal()
    await site.healthy("node1")


# --- the observer's owner and place ----------------------------------------------------------------------------------


@pytest.mark.fault("O5")
async def test_the_deployment_is_deleted(site: Site) -> None:
    """An observer whose Deployment is being deleted makes no ConfigMap; what there is goes with the Deployment."""
    (pod,) = await site.pods("observer")
    await site.api.merge_patch(DEPLOYMENT, {"metadata": {"finalizers": [HOLD]}})
    try:
        await site.api.delete(DEPLOYMENT)
        await site.api.delete(RECORDS)

        async def told() -> bool:
            _, body = await site.endpoint(pod, "/healthz")
            assert "Deployment nicrails-observer is being deleted" in body, body
            return True

        await eventually(told, within=30, what="the observer says why it makes no ConfigMap", interval=0.2)
        assert await site.config_map() is None
    finally:
        await site.api.merge_patch(DEPLOYMENT, {"metadata": {"finalizers": None}})
        site.installed = None

    async def gone() -> bool:
        assert await site.pods("observer") == []
        return True

    await eventually(gone, within=60, what="the observer is gone", interval=0.2)
    assert await site.config_map() is None
    site.install()
    await site.settled()


@pytest.mark.fault("O6")
async def test_the_namespace_is_deleted(site: Site) -> None:
    """A release's namespace that is deleted goes: nobody makes anything in it anew, and the observer ends in good order."""
    (pod,) = await site.pods("observer")
    path = f"{PODS}/{pod['metadata']['name']}"
    namespace = f"/api/v1/namespaces/{NAMESPACE}"
    await site.api.merge_patch(path, {"metadata": {"finalizers": [HOLD]}})
    site.installed = None
    try:
        await site.api.delete(namespace)

        async def terminated() -> Json:
            state = (await site.api.get(path))["status"]["containerStatuses"][0]["state"]
            assert "terminated" in state, state
            return dict(state["terminated"])

        state = await eventually(terminated, within=60, what="the observer has ended", interval=0.1)
        assert state["exitCode"] == 0, state
        said = [json.loads(line) for line in site.logs(pod).splitlines()]
        assert len([line for line in said if line["level"] in ("warning", "error")]) < 5, said
    finally:
        await site.api.merge_patch(path, {"metadata": {"finalizers": None}})

        async def gone() -> bool:
            assert await site.api.get_or_none(namespace) is None
            return True

        await eventually(gone, within=60, what="the namespace is gone", interval=0.2)
        await site.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    site.install()
    await site.settled()
