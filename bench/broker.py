"""The broker as a process: its memory when idle, its own time from start to the first publication, its publication's size."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from bench.processes import Program, running, wait_healthy
from bench.report import Figure, median
from nicrails_faker.api import EmbeddedCluster
from nicrails_faker.machines import shipped, write
from nicrails_faker.machines.gpu_operator import GpuOperator
from tests.support.ports import reserve_port

MACHINE = "h100-8gpu-dualport"
NAMESPACE, CONFIG_MAP, DEPLOYMENT = "nicrails", "topograph-nic-rails", "nicrails-observer"
ROUNDS = 3
MEMORY_LIMIT_MIB = 64.0
TIME_LIMIT_S = 1.0
IDLE_SECONDS = 5.0
FLOOR = """
import asyncio, sys
import orjson
from aiohttp import web
app = web.Application()
async def healthz(_):
    return web.Response()
app.router.add_get("/healthz", healthz)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
"""


def run() -> Iterator[Figure]:
    """Measure."""
    yield from asyncio.run(_measure())


async def _measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with EmbeddedCluster() as cluster:
            config, kubeconfig = _scene(cluster, folder)
            resident, own, floor_resident, floor_own = [], [], [], []
            for _ in range(ROUNDS):
                memory, seconds = await asyncio.to_thread(_floor, folder)
                floor_resident.append(memory)
                floor_own.append(seconds)
                memory, seconds = await asyncio.to_thread(_broker, folder, config, kubeconfig)
                resident.append(memory)
                own.append(seconds)
    floor = "a Python process that serves /healthz by aiohttp"
    return [
        Figure(
            name="broker, resident when idle",
            value=median(resident),
            unit="MiB",
            floor=median(floor_resident),
            floor_name=floor,
            limit=MEMORY_LIMIT_MIB,
            note=f"median of {ROUNDS} starts, {IDLE_SECONDS:g} s after the first publication",
        ),
        Figure(
            name="broker, own time to the first publication",
            value=median(own),
            unit="s",
            floor=median(floor_own),
            floor_name=floor + ", to its first answer",
            limit=TIME_LIMIT_S,
            note=f"processor seconds with its commands, median of {ROUNDS}, {MACHINE}",
        ),
    ]


def _scene(cluster: EmbeddedCluster, folder: Path) -> tuple[dict[str, Any], Path]:
    cluster.create("v1", "namespaces", {"metadata": {"name": NAMESPACE}})
    labels = {"app": DEPLOYMENT}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "observer", "image": "simulated"}]}}
    deployment = cluster.create(
        "apps/v1",
        "deployments",
        {"metadata": {"name": DEPLOYMENT}, "spec": {"selector": {"matchLabels": labels}, "template": template}},
        namespace=NAMESPACE,
    )
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": DEPLOYMENT, "uid": deployment["metadata"]["uid"]}
    cluster.create(
        "v1",
        "configmaps",
        {"metadata": {"name": CONFIG_MAP, "ownerReferences": [owner | {"controller": True}]}},
        namespace=NAMESPACE,
    )
    cluster.create("v1", "nodes", {"metadata": {"name": MACHINE}})
    installed = write(shipped(MACHINE), folder / "machine")
    GpuOperator(cluster).place(installed)
    settings = installed.machine.settings
    mapping = {
        "startJitter": 0,
        "railSource": {
            "name": "host-lldp",
            "hostLLDP": {"interfaceRegex": settings.interface_regex, "railID": settings.rail_id},
        },
    }
    config = {
        "nodeMetadata": {"plugins": {"gpuNicRailMapping": mapping}},
        "host": {"sysfsRoot": str(installed.sysfs_root), "lldpctl": str(installed.lldpctl)},
    }
    return config, cluster.kubeconfig(folder / "kubeconfig")


def _broker(folder: Path, config: dict[str, Any], kubeconfig: Path) -> tuple[float, float]:
    port = reserve_port()
    file = folder / "broker.json"
    file.write_bytes(orjson.dumps(config | {"server": {"address": "127.0.0.1", "port": port}}))
    arguments = ["-m", "nicrails_broker", "run", "--config", str(file), "--kubeconfig", str(kubeconfig)]
    environment = {"NODE_NAME": MACHINE, "POD_NAMESPACE": NAMESPACE}
    with running(arguments, folder / "broker.log", environment) as program:
        # The time is read off the process, so looking at it seldom keeps the looks themselves out of it.
        wait_healthy(program, f"http://127.0.0.1:{port}")
        own = program.cpu()
        return _idle(program), own


def _floor(folder: Path) -> tuple[float, float]:
    port = reserve_port()
    with running(["-c", FLOOR, str(port)], folder / "floor.log") as program:
        wait_healthy(program, f"http://127.0.0.1:{port}")
        own = program.cpu()
        return _idle(program), own


def _idle(program: Program) -> float:
    time.sleep(IDLE_SECONDS)
    program.check()
    return program.resident()
