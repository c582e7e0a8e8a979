"""The observer at 5,000 Nodes: memory, stalls of its event loop, and how long a deleted Node's record stays.

Runs on a real etcd and kube-apiserver where their programs are found, else on the embedded API, and says which.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from bench.api import Api, running_api
from bench.processes import Program, running, wait_healthy
from bench.report import Figure, percentile
from tests.support.ports import reserve_port

NODES = int(os.environ.get("BENCH_NODES", "5000"))
NODE_SIZE = 25_000
DELETIONS = 200
NAMESPACE, CONFIG_MAP, DEPLOYMENT = "nicrails-bench", "topograph-nic-rails", "nicrails-observer"
MEMORY_LIMIT_MIB, STALL_LIMIT_MS, DELETION_LIMIT_MS = 64.0, 50.0, 250.0
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


def run() -> Iterator[Figure]:
    """Measure."""
    yield from asyncio.run(_measure())


async def _measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with running_api(folder, window=2 * NODES) as api:
            await _populate(api)
            floor = await asyncio.to_thread(_resident, folder, api, "floor", enabled=False)
            resident, peak = await asyncio.to_thread(_resident, folder, api, "observer", enabled=True)
            worst = folder / "worst.json"
            port, config = _config(folder, "timed", enabled=True)
            arguments = ["-m", "bench.timed_loop", str(worst), "nicrails_observer", "run"]
            arguments += ["--config", str(config), "--kubeconfig", str(api.kubeconfig)]
            with running(arguments, folder / "timed.log", _environment()) as program:
                await asyncio.to_thread(wait_healthy, program, f"http://127.0.0.1:{port}")
                latencies = await _deletions(api, program)
                floors = await _round_trips(api)
            stall = orjson.loads(worst.read_bytes())
    on = f"{api.kind}, {NODES} Nodes of {NODE_SIZE // 1000} KB"
    return [
        Figure(
            name="observer, resident",
            value=resident,
            unit="MiB",
            floor=floor[0],
            floor_name="the same program with the plug-in disabled",
            limit=MEMORY_LIMIT_MIB,
            note=f"{on}; after the full reconciliation; peak {peak:.1f} MiB",
        ),
        Figure(
            name="observer, longest stall of the event loop",
            value=stall["wall_ms"],
            unit="ms",
            limit=STALL_LIMIT_MS,
            note=f"{on}; worst single callback from start to end, of it {stall['cpu_ms']:.1f} ms processor time",
        ),
        Figure(
            name="deletion of a Node to record gone, p99",
            value=percentile(latencies, 0.99),
            unit="ms",
            floor=percentile(floors, 0.99),
            floor_name="p99 of two requests that change the same ConfigMap, one after the other",
            limit=DELETION_LIMIT_MS,
            note=f"{on}; {len(latencies)} deletions; p50 {percentile(latencies, 0.5):.0f} ms",
        ),
    ]


def _node(index: int) -> dict[str, Any]:
    """A Node as a GPU cluster has it: about a third of its size is metadata, most of the rest its list of images."""
    metadata = {
        "name": f"gpu-node-{index:05}",
        "labels": {f"nvidia.com/gpu.label-{i}": "value-of-a-label" for i in range(60)},
        "annotations": {f"example.com/annotation-{i}": "x" * 200 for i in range(20)},
    }
    node: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"images": []}}
    image = {"names": ["registry.example/team/image-name-of-usual-length@sha256:" + "0" * 64], "sizeBytes": 123456789}
    missing = NODE_SIZE - len(orjson.dumps(node))
    node["status"]["images"] = [image] * (missing // len(orjson.dumps(image)))
    return node


def _record(uid: str, index: int) -> str:
    nic = f"0000:{index % 256:02x}:00.0"
    document = {
        "gpus": {},
        "nics": {nic: ["rail0"]},
        "nodeUID": uid,
        "railSource": "host-lldp",
        "schemaVersion": "v1alpha1",
    }
    return orjson.dumps(document).decode()


async def _populate(api: Api) -> None:
    await api.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    labels = {"app": DEPLOYMENT}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "observer", "image": "none"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    deployment = await api.call(
        "POST", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments", {"metadata": {"name": DEPLOYMENT}, "spec": spec}
    )
    records: dict[str, str] = {}
    waiting = iter(range(NODES))

    async def creator() -> None:
        for index in waiting:
            node = await api.call("POST", "/api/v1/nodes", _node(index))
            records[node["metadata"]["name"]] = _record(node["metadata"]["uid"], index)

    async with asyncio.TaskGroup() as group:
        for _ in range(24):
            group.create_task(creator())
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": DEPLOYMENT, "uid": deployment["metadata"]["uid"]}
    metadata = {"name": CONFIG_MAP, "ownerReferences": [owner | {"controller": True}]}
    await api.call("POST", f"/api/v1/namespaces/{NAMESPACE}/configmaps", {"metadata": metadata, "data": records})


def _environment() -> dict[str, str]:
    return {"POD_NAMESPACE": NAMESPACE, "DEPLOYMENT_NAME": DEPLOYMENT}


def _config(folder: Path, name: str, *, enabled: bool) -> tuple[int, Path]:
    port = reserve_port()
    file = folder / f"{name}.json"
    settings = {
        "nodeMetadata": {"plugins": {"gpuNicRailMapping": {"enabled": enabled, "configMapName": CONFIG_MAP}}},
        "server": {"address": "127.0.0.1", "port": port},
    }
    file.write_bytes(orjson.dumps(settings))
    return port, file


def _resident(folder: Path, api: Api, name: str, *, enabled: bool) -> tuple[float, float]:
    port, config = _config(folder, name, enabled=enabled)
    arguments = ["-m", "nicrails_observer", "run", "--config", str(config), "--kubeconfig", str(api.kubeconfig)]
    with running(arguments, folder / f"{name}.log", _environment()) as program:
        wait_healthy(program, f"http://127.0.0.1:{port}")
        time.sleep(3)
        program.check()
        return program.resident(), program.peak()


async def _deletions(api: Api, program: Program) -> list[float]:
    """Delete one Node after the other; each time until the ConfigMap has changed."""
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    before = await api.call("GET", f"{path}/{CONFIG_MAP}")
    query = (
        f"?watch=1&fieldSelector=metadata.name%3D{CONFIG_MAP}&resourceVersion={before['metadata']['resourceVersion']}"
    )
    latencies = []
    step = NODES // DELETIONS
    async with api.session.get(
        api.url + path + query,
        headers={"Accept": METADATA},
        ssl=api.tls,
        timeout=aiohttp.ClientTimeout(total=None, sock_read=20),
    ) as watch:
        for number in range(DELETIONS):
            name = f"gpu-node-{number * step:05}"
            started = time.perf_counter()
            await api.call("DELETE", f"/api/v1/nodes/{name}")
            await watch.content.readline()
            latencies.append((time.perf_counter() - started) * 1000)
            program.check()
    after = await api.call("GET", f"{path}/{CONFIG_MAP}")
    expected = {name for name in before["data"] if int(name[-5:]) % step or int(name[-5:]) >= step * DELETIONS}
    if set(after["data"]) != expected:
        raise RuntimeError("other records are gone than those of the deleted Nodes")
    return latencies


async def _round_trips(api: Api) -> list[float]:
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIG_MAP}"
    samples = []
    for number in range(50):
        started = time.perf_counter()
        for _ in range(2):
            body = {"metadata": {"labels": {"bench": str(time.monotonic_ns() + number)}}}
            await api.call("PATCH", path, body, "application/merge-patch+json")
        samples.append((time.perf_counter() - started) * 1000)
    return samples
