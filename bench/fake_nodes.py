"""A thousand Nodes without a kubelet change their MIG profile at once, while somebody else writes their topologies too.

The services run as processes of their own on a real etcd and kube-apiserver; without their programs nothing is measured, for
the embedded API has no server-side apply.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.api import Api, has_real, running_api
from bench.processes import Program, running, wait_healthy
from bench.report import Figure
from nicrails.kube import KubeClient, KubeconfigAccess
from nicrails_faker.mig import advertised_resources, read_topology
from nicrails_faker.topologies.store import TopologyStore
from tests.support.ports import release_port, reserve_port

NODES = int(os.environ.get("BENCH_FAKE_NODES", "1000"))
LIMIT_S = 30.0
NAMESPACE = "gpu-operator"
SENDERS = 24
MERGE_PATCH = "application/merge-patch+json"
STATE = "nvidia.com/mig.config.state"
TOPOLOGY = """\
nodePools:
  default: {gpuProduct: NVIDIA-A100-SXM4-40GB, gpuCount: 2, gpuMemory: 40960}
migStrategy: mixed
"""
LABELS = {
    "run.ai/simulated-gpu-node-pool": "default",
    "node-role.kubernetes.io/runai-dynamic-mig": "true",
    "nicrails.io/fake-node": "true",
}
CHANGES: tuple[tuple[str | None, Mapping[str, str]], ...] = (
    ('{devices: [0], mig-enabled: true, mig-devices: {"1g.5gb": 7}}', {"gpu": "1", "mig-1g.5gb": "7"}),
    ('{devices: all, mig-enabled: true, mig-devices: {"2g.10gb": 3}}', {"mig-2g.10gb": "6"}),
    (None, {"gpu": "2"}),
)


class WrongError(RuntimeError):
    """Nodes are not as they have to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What was measured.

    Attributes:
        created: Seconds from the first Node's creation until all advertise whole GPUs.
        changes: Seconds of each change, from the first annotation until all Nodes are right.
        floor: Seconds for one patch of each Node's status by the same number of senders.
        resident: MiB of the controller at the end.
    """

    created: float
    changes: tuple[float, ...]
    floor: float
    resident: float


def run() -> Iterator[Figure]:
    """Measure."""
    if not has_real():
        print("fake-nodes: no kube-apiserver here, so nothing is measured", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(measure(Path(folder), NODES))
    times = ", ".join(f"{seconds:.1f}" for seconds in result.changes)
    yield Figure(
        name=f"{NODES} fake Nodes change their profile, all right",
        value=max(result.changes),
        unit="s",
        floor=result.floor,
        floor_name="one patch of each Node's status, by as many senders",
        limit=LIMIT_S,
        note=f"slowest of {times}; from the first annotation; another writer changes each topology meanwhile",
    )
    yield Figure(
        name=f"{NODES} new fake Nodes advertise their GPUs",
        value=result.created,
        unit="s",
        note="from the first Node's creation, which is in it",
    )
    yield Figure(name="controller of fake Nodes, resident", value=result.resident, unit="MiB", note="afterwards")


async def measure(folder: Path, count: int) -> Result:
    """Create the Nodes, change them all three times, and look at each after each change.

    Raises:
        WrongError: A Node or its topology is not as it has to be, or not in time.
    """
    async with running_api(folder, window=0) as api:
        await api.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        document = {"metadata": {"name": "topology"}, "data": {"topology.yml": TOPOLOGY}}
        await api.call("POST", f"/api/v1/namespaces/{NAMESPACE}/configmaps", document)
        names = [f"fake-{index:04}" for index in range(count)]
        with _service("topology", folder, api) as topology, _service("nodes", folder, api) as nodes:
            for program, url in (topology, nodes):
                await asyncio.to_thread(wait_healthy, program, url)
            started = time.perf_counter()
            await _each(names, lambda name: api.call("POST", "/api/v1/nodes", _node(name)))
            await _until_right(api, names, CHANGES[-1], started)
            created = time.perf_counter() - started
            changes = []
            for version, change in enumerate(CHANGES):
                changes.append(await _change(api, names, change, str(version)))
            resident = nodes[0].resident()
        status = {"status": {"capacity": {"example.com/x": "1"}, "allocatable": {"example.com/x": "1"}}}
        started = time.perf_counter()
        await _each(names, lambda name: api.call("PATCH", f"/api/v1/nodes/{name}/status", status, MERGE_PATCH))
        floor = time.perf_counter() - started
    return Result(created=created, changes=tuple(changes), floor=floor, resident=resident)


@contextlib.contextmanager
def _service(name: str, folder: Path, api: Api) -> Iterator[tuple[Program, str]]:
    """A service of the faker as a process; gives it and its URL."""
    port = reserve_port()
    arguments = ["-m", "nicrails_faker", name, "--kubeconfig", str(api.kubeconfig), "--log-level", "warning"]
    arguments += ["--address", "127.0.0.1", "--port", str(port), "--topology-namespace", NAMESPACE]
    with running(arguments, folder / f"{name}.log") as program:
        yield program, f"http://127.0.0.1:{port}"
    release_port(port)


def _node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": LABELS}}


async def _each(names: list[str], work: Callable[[str], Awaitable[object]]) -> None:
    """Do it for each name, as many at once as there are senders."""
    waiting = iter(names)

    async def sender() -> None:
        for name in waiting:
            await work(name)

    async with asyncio.TaskGroup() as group:
        for _ in range(SENDERS):
            group.create_task(sender())


async def _change(api: Api, names: list[str], change: tuple[str | None, Mapping[str, str]], version: str) -> float:
    """Ask all Nodes for a change while another writer changes their topologies; the seconds until all are right."""
    entry = change[0]
    config = None if entry is None else f"version: v1\nmig-configs:\n  selected:\n  - {entry}\n"
    annotation = {"metadata": {"annotations": {"run.ai/mig.config": config}}}
    async with KubeClient(KubeconfigAccess(api.kubeconfig), user_agent="bench/0") as client:
        other = TopologyStore(client, NAMESPACE, "topology", field_manager="bench")
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            group.create_task(
                _each(names, lambda name: api.call("PATCH", f"/api/v1/nodes/{name}", annotation, MERGE_PATCH))
            )
            group.create_task(
                _each(names, lambda name: other.update(name, lambda now: replace(now, driver_version=version)))
            )
            group.create_task(_until_right(api, names, change, started))
        seconds = time.perf_counter() - started
    await _check_topologies(api, names, change[1], version)
    return seconds


async def _until_right(
    api: Api, names: list[str], change: tuple[str | None, Mapping[str, str]], started: float
) -> None:
    """Wait until each Node advertises exactly this and says so, and nothing else of ours is left."""
    state = None if change[0] is None else "success"
    resources = {f"nvidia.com/{name}": count for name, count in change[1].items()}
    while True:
        found = (await api.call("GET", "/api/v1/nodes?resourceVersion=0"))["items"]
        wrong = [node for node in found if not _is_right(node, resources, state)]
        if not wrong and len(found) == len(names):
            return
        if time.perf_counter() - started > 10 * LIMIT_S:
            raise WrongError(f"{len(wrong)} of {len(found)} Nodes are not right, such as {wrong[:1]}")
        await asyncio.sleep(1.0)


def _is_right(node: Mapping[str, Any], resources: Mapping[str, str], state: str | None) -> bool:
    status, labels = node.get("status", {}), node["metadata"]["labels"]
    slices = {key for key in labels if key.startswith("nvidia.com/mig-") and key.endswith(".count")}
    expected = {f"{name}.count" for name in resources if name.startswith("nvidia.com/mig-")}
    return (
        status.get("capacity") == resources
        and status.get("allocatable") == resources
        and labels.get(STATE) == state
        and slices == expected
    )


async def _check_topologies(api: Api, names: list[str], resources: Mapping[str, str], version: str) -> None:
    """No writer's change is lost: each topology has the slices and what the other writer wrote."""
    found = await api.call("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps?labelSelector=node-topology%3Dtrue")
    if len(found["items"]) != len(names):
        raise WrongError(f"{len(found['items'])} topologies for {len(names)} Nodes")
    for config_map in found["items"]:
        topology = read_topology(config_map["data"]["topology.yml"])
        advertised = {name: str(len(ids)) for name, ids in advertised_resources(topology).items()}
        if topology.driver_version != version or advertised != {f"nvidia.com/{k}": v for k, v in resources.items()}:
            raise WrongError(f"{config_map['metadata']['name']} has lost a change: {config_map['data']}")
