"""Faults of the GPU Operator, its pod, the kubelet and nvidia-smi, behind a real API server.

Every scenario starts from a published record, brings the fault about, and checks that health and metrics name it, that
the record stays as it is, and that the broker is healthy again by itself when the fault is gone.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from nicrails.settings import Duration
from nicrails_broker.sources import Command
from nicrails_broker.sources.gpu_operator import MAX_OUTPUT
from nicrails_faker.machines import Answer
from tests.broker.site import DAEMON_SET, Running, Site, install, make_site
from tests.cluster.controlplane import ControlPlane
from tests.cluster.kubelet import (
    STDERR,
    FakeKubelet,
    Refusal,
    cut,
    exits,
    floods,
    half,
    hangs,
    missing_binary,
    no_status,
    succeeds,
    succeeds_in,
)
from tests.cluster.kubelet import Answer as Reply
from tests.cluster.world import World
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs("control-plane")

STEP = "discover-gpus"
FAILED = 'nicrails_broker_source_state{kind="gpus",source="gpu-operator",state="failed"}'
FAILURES = 'nicrails_broker_failures_total{duty="rails-record",step="discover-gpus"}'


@pytest_asyncio.fixture
async def site(control_plane: ControlPlane, world: World, kubelet: FakeKubelet, tmp_path: Path) -> Site:
    """A Node with eight GPUs, the GPU Operator's pod, and the observer's ConfigMap."""
    machine = install("h100-8gpu-dual-port", tmp_path / "h100-8gpu-dual-port")
    site = await make_site(world, machine, control_plane.kubeconfig(tmp_path / "kubeconfig"), kubelet)
    await site.make_config_map({"another-node": "is left alone"})
    return site


@contextlib.asynccontextmanager
async def published(site: Site, *, time_limit: float = 5.0) -> AsyncIterator[Running]:
    """A broker that is healthy, and again after the block; nobody else's key was touched."""
    async with site.running(gpu={"timeout": Duration(time_limit)}) as broker:
        await site.published()
        await broker.healthy()
        yield broker
        await broker.healthy()
        assert await site.record() == site.expected()
    assert (await site.config_map() or {})["data"]["another-node"] == "is left alone"


async def stays(site: Site, broker: Running, *fragments: str) -> None:
    """The broker fails at the GPU source for more than one try, says why, and the record stays."""
    await broker.unhealthy(STEP, *fragments)
    before = (await broker.metrics())[FAILURES]

    async def tried_again() -> bool:
        return (await broker.metrics())[FAILURES] > before

    await eventually(tried_again, within=15, what="the broker has tried again")
    await broker.unhealthy(STEP, *fragments)
    metrics = await broker.metrics()
    assert metrics[FAILED] == 1
    assert metrics['nicrails_broker_duty_done{duty="rails-record"}'] == 0
    assert await site.record() == site.expected()


async def no_pod(site: Site, pod: str) -> None:
    """The pod goes."""
    await site.world.delete_pod(pod)


async def pending(site: Site, pod: str) -> None:
    """The pod has not started."""
    await site.world.pod_status(pod, phase="Pending")


async def not_ready(site: Site, pod: str) -> None:
    """The pod is not ready."""
    await site.world.pod_status(pod, ready=False)


async def terminating(site: Site, pod: str) -> None:
    """The pod ends, slowly."""
    await site.world.delete_pod(pod, grace=600)


async def other_node(site: Site, pod: str) -> None:
    """The DaemonSet's only pod is on another Node."""
    await site.world.delete_pod(pod)
    other = await site.world.node(site.world.unique("other"))
    await site.world.pod(site.daemon_set, other["metadata"]["name"])


async def foreign(site: Site, pod: str) -> None:
    """A pod with the labels that the DaemonSet does not control."""
    await site.world.delete_pod(pod)
    await site.world.pod(site.daemon_set, site.name, name="impostor", owned=False)


async def two_pods(site: Site, pod: str) -> None:
    """A second good pod."""
    await site.world.pod(site.daemon_set, site.name, name="second")


async def other_labels(site: Site, pod: str) -> None:
    """The DaemonSet's pod without its labels."""
    await site.world.delete_pod(pod)
    await site.world.pod(site.daemon_set, site.name, name="mislabelled", labels={"app": "other"})


@pytest.mark.parametrize(
    ("fault", "fragments"),
    [
        (no_pod, ["no pod of DaemonSet", f"/{DAEMON_SET} is on Node"]),
        (pending, ["no pod of", "phase Pending"]),
        (not_ready, ["no pod of", "not ready"]),
        (terminating, ["no pod of", "terminating"]),
        (other_node, ["no pod of", "is on Node"]),
        (foreign, ["no pod of", "impostor (controlled by nothing)"]),
        (two_pods, ["2 pods of", "second"]),
        (other_labels, ["no pod of", "is on Node"]),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
@pytest.mark.fault("B5")
async def test_a_pod_that_does_not_fit(
    site: Site, fault: Callable[[Site, str], Awaitable[None]], fragments: list[str]
) -> None:
    """B5: without exactly one fitting pod the update fails with what was found; the record stays; it heals by itself."""
    pod = (await site.make_operator())["metadata"]["name"]
    async with published(site) as broker:
        await fault(site, pod)
        asked = len(site.kubelet.asked) if site.kubelet else 0
        await stays(site, broker, *fragments)
        assert site.kubelet is not None
        assert len(site.kubelet.asked) - asked <= 2, "an exec went to a pod that does not fit"
        for name in (pod, "impostor", "second", "mislabelled"):
            await site.world.delete_pod(name)
        await site.make_operator()


@pytest.mark.fault("B5")
async def test_a_restarting_container_is_waited_for(site: Site) -> None:
    """B5: while the container restarts the update fails; the other containers' readiness does not help it."""
    containers = ("config-manager", "nvidia-device-plugin")
    pod = (await site.make_operator(containers=containers))["metadata"]["name"]
    async with published(site) as broker:
        status = await site.world.api.get(site.world.path("pods", pod))
        waiting = status["status"]["containerStatuses"]
        waiting[1] |= {"ready": False, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
        await site.world.api.merge_patch(
            site.world.path("pods", pod) + "/status", {"status": {"containerStatuses": waiting}}
        )
        await stays(site, broker, "container nvidia-device-plugin is not running and ready")
        await site.world.pod_status(pod, containers=containers)
    assert site.kubelet is not None
    assert {asked.container for asked in site.kubelet.asked} == {"nvidia-device-plugin"}


TOPOLOGY, INVENTORY = Command.TOPOLOGY, Command.INVENTORY
SOFTWARE_RDMA = b"Failed to run topology matrix\n"


def captured(site: Site, command: Command) -> bytes:
    """What the machine prints."""
    return site.machine.run_nvidia_smi(command.argv).stdout


@pytest.mark.parametrize(
    ("command", "reply", "fragments"),
    [
        (TOPOLOGY, lambda text: exits(255, SOFTWARE_RDMA), ["exit code 255", "Failed to run", "software RDMA device"]),
        (INVENTORY, lambda text: exits(9, b"", b"NVIDIA-SMI has failed"), ["exit code 9", "NVIDIA-SMI has failed"]),
        (INVENTORY, lambda text: missing_binary("nvidia-smi"), ["was not run", "executable file not found"]),
        (TOPOLOGY, no_status, ["cut before the command's end was reported"]),
        (TOPOLOGY, cut, ["cut before the command's end was reported"]),
        (INVENTORY, lambda text: cut(text[:40]), ["cut before the command's end was reported"]),
        (TOPOLOGY, half, ["nvidia-smi topo -m", "the output ends"]),
        (INVENTORY, half, ["the inventory lists 4 GPUs and the topology 8"]),
        (INVENTORY, lambda text: succeeds(b""), ["nvidia-smi --query-gpu"]),
        (INVENTORY, lambda text: succeeds(b"No devices were found\n"), ["No devices were found"]),
        (TOPOLOGY, lambda text: floods(MAX_OUTPUT + 1), [f"wrote more than {MAX_OUTPUT} bytes"]),
        (TOPOLOGY, lambda text: floods(MAX_OUTPUT + 1, STDERR, text), [f"wrote more than {MAX_OUTPUT} bytes"]),
    ],
    ids=[
        "software-rdma",
        "exit-9",
        "no-binary",
        "no-status",
        "cut-at-end",
        "cut-in-the-middle",
        "half-matrix",
        "half-inventory",
        "empty",
        "no-devices",
        "flood",
        "flood-of-errors",
    ],
)
@pytest.mark.fault("B6")
async def test_a_command_that_fails_or_lies(
    site: Site, command: Command, reply: Callable[[bytes], Reply], fragments: list[str]
) -> None:
    """B6: every way in which a command fails, is cut, or succeeds with wrong output fails the update by its name."""
    await site.make_operator()
    assert site.kubelet is not None
    step = "join" if "the inventory lists 4 GPUs and the topology 8" in fragments else STEP
    async with published(site) as broker:
        site.kubelet.answers(command.argv, reply(captured(site, command)))
        if step == STEP:
            await stays(site, broker, *fragments)
        else:
            await broker.unhealthy(step, *fragments)
            assert await site.record() == site.expected()
        site.answer()
    assert site.kubelet.most_at_once == 1


@pytest.mark.fault("B6")
async def test_a_command_that_hangs(site: Site) -> None:
    """B6: a hang ends by the time limit, is counted, and is not followed by another exec before a long pause."""
    await site.make_operator()
    assert site.kubelet is not None
    async with published(site, time_limit=0.3) as broker:
        site.kubelet.answers(TOPOLOGY.argv, hangs(b"GPU0"))
        await stays(site, broker, "did not end within 0.3 s", "Xid")
        metrics = await broker.metrics()
        assert metrics["nicrails_broker_exec_timeouts_total"] >= 2
        hung = [asked for asked in site.kubelet.asked if asked.command == TOPOLOGY.argv]
        await eventually(
            lambda: sum(asked.over.is_set() for asked in hung) >= 2, within=10, what="the sockets are closed"
        )
        site.answer()
    assert site.kubelet.most_at_once == 1


async def test_warnings_beside_good_output_are_told_and_fail_nothing(site: Site) -> None:
    """B6: what a command writes to standard error while it succeeds is counted and logged, and the record stands."""
    await site.make_operator()
    assert site.kubelet is not None
    site.kubelet.answers(TOPOLOGY.argv, succeeds(captured(site, TOPOLOGY), b"libibverbs: warning\n" * 100))
    async with published(site) as broker:
        metrics = await broker.metrics()
    assert metrics['nicrails_broker_command_warnings_total{command="nvidia-smi topo -m"}'] >= 1


async def test_output_in_odd_pieces_is_whole(site: Site) -> None:
    """B6: output that comes byte by byte, with empty messages in between, is read as one text."""
    await site.make_operator()
    assert site.kubelet is not None
    text = captured(site, INVENTORY)
    pieces = [piece for at in range(0, len(text), 7) for piece in (text[at : at + 7], b"")]
    site.kubelet.answers(INVENTORY.argv, succeeds_in(pieces))
    async with published(site):
        pass


@pytest.mark.parametrize(
    ("refusal", "fragments"),
    [
        (Refusal(status=500, body="container runtime is down"), ["500"]),
        (Refusal(status=404, body="pod does not exist"), ["404"]),
        (Refusal(status=503, body="<html>"), ["503"]),
    ],
    ids=["500", "404", "503"],
)
@pytest.mark.fault("B7")
async def test_a_kubelet_that_refuses(site: Site, refusal: Refusal, fragments: list[str]) -> None:
    """B7: whatever the kubelet answers instead of a stream is told with its status and tried again."""
    await site.make_operator()
    assert site.kubelet is not None
    async with published(site) as broker:
        site.kubelet.answers(INVENTORY.argv, refusal)
        await stays(site, broker, "can not run 'nvidia-smi --query-gpu", *fragments)
        site.answer()


@pytest.mark.fault("B7")
async def test_a_kubelet_that_is_down(site: Site) -> None:
    """B7: while nothing listens on the kubelet's port the update fails, and goes on when the kubelet is back."""
    await site.make_operator()
    assert site.kubelet is not None
    async with published(site) as broker:
        await site.kubelet.stop()
        await stays(site, broker, "can not run 'nvidia-smi", "500")
        await site.kubelet.start()


@pytest.mark.fault("B7")
async def test_a_container_that_is_not_in_the_pod(site: Site) -> None:
    """B7: a configured container that the pod has not is a sentence that names the setting, not a 400 of the server."""
    pod = await site.make_operator(containers=("main", "sidecar"))
    async with site.running() as broker:
        await broker.unhealthy(STEP, "has no container nvidia-device-plugin, only main, sidecar", "gpuSource.container")
        assert await site.record() is None
        await site.world.delete_pod(pod["metadata"]["name"])
        await site.make_operator()
        await site.published()
        await broker.healthy()


@pytest.mark.fault("B8")
async def test_the_operator_comes_later_than_the_broker(site: Site) -> None:
    """B8: on a Node with GPUs and without the GPU Operator nothing is published; when it comes, the record follows."""
    async with site.running() as broker:
        await broker.unhealthy(
            STEP, f"DaemonSet {site.world.namespace}/{DAEMON_SET} does not exist", "not installed yet"
        )
        assert await site.record() is None
        site.daemon_set = await site.world.daemon_set(DAEMON_SET)
        await broker.unhealthy(STEP, "no pod of")
        await site.make_operator()
        await site.published()
        await broker.healthy()


@pytest.mark.fault("B8")
async def test_a_driver_upgrade_is_outlived(site: Site) -> None:
    """B8: while the driver is exchanged (pod gone, new pod without a driver, driver back) the old record stands."""
    pod = (await site.make_operator())["metadata"]["name"]
    async with published(site) as broker:
        await site.world.delete_pod(pod)
        await broker.unhealthy(STEP, "no pod of")
        for answer in (Answer.TOPO, Answer.INVENTORY):
            site.machine.answer(answer, None)
        await site.make_operator()
        await broker.unhealthy(STEP, "couldn't communicate with the NVIDIA driver")
        assert await site.record() == site.expected()
        site.machine.heal()
        site.answer()


async def test_the_full_selector_decides(site: Site) -> None:
    """Pods are matched by the whole selector of the DaemonSet, expressions included."""
    selector = {
        "matchLabels": {"app": "x"},
        "matchExpressions": [
            {"key": "app", "operator": "In", "values": ["x", "y"]},
            {"key": "canary", "operator": "DoesNotExist"},
        ],
    }
    site.daemon_set = await site.world.daemon_set(DAEMON_SET, selector=selector)
    await site.world.pod(site.daemon_set, site.name, name="canary", labels={"app": "x", "canary": "true"})
    async with site.running() as broker:
        await broker.unhealthy(STEP, "no pod of")
        await site.make_operator()
        await site.published()
        await broker.healthy()


async def test_gpus_of_another_host_never_get_published(site: Site, tmp_path: Path) -> None:
    """A pod whose nvidia-smi shows the GPUs of another machine is caught by this machine's sysfs."""
    await site.make_operator()
    assert site.kubelet is not None
    other = install("gb200-4gpu-domains", tmp_path / "other")
    async with published(site) as broker:
        for command in Command:
            site.kubelet.answers(command.argv, succeeds(other.run_nvidia_smi(command.argv).stdout))
        await stays(site, broker, "which sysfs of this host does not show")
        site.answer()


@pytest.mark.fault("B10")
async def test_an_unknown_path_class(site: Site) -> None:
    """B10: a path class between a GPU and a NIC that nobody knows fails the update by its name; the record stays."""
    await site.make_operator()
    assert site.kubelet is not None
    async with published(site) as broker:
        site.kubelet.answers(TOPOLOGY.argv, succeeds(captured(site, TOPOLOGY).replace(b"PIX", b"PXC")))
        await stays(site, broker, "unknown path class", "PXC")
        site.answer()


@pytest.mark.fault("B10")
async def test_a_rail_without_a_nic_for_a_gpu(
    control_plane: ControlPlane, world: World, kubelet: FakeKubelet, tmp_path: Path
) -> None:
    """B10: a rail of which the matrix shows no NIC fails the update with rail and NIC; what stood there stays."""
    machine = install("rtx-rail-without-rdma", tmp_path / "rtx-rail-without-rdma")
    site = await make_site(world, machine, control_plane.kubeconfig(tmp_path / "kubeconfig"), kubelet)
    await site.make_operator()
    await site.make_config_map({site.name: "the previous record"})
    async with site.running() as broker:
        await broker.unhealthy("join", "rail1 has no NIC that the topology shows")
        assert await site.record() == b"the previous record"
        lldp = json.loads(machine.machine.captures.lldp or b"")
        ports = lldp["lldp"][0]["interface"]
        ports[:] = [port for port in ports if "_r1_" not in port["name"]]
        machine.answer(Answer.LLDP, json.dumps(lldp).encode())
        await broker.healthy()
        await site.published(lambda value: value is not None and b"rail0" in value and b"rail1" not in value)
