"""The observer as a process of its own, on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from tests.cluster.controlplane import ControlPlane
from tests.observer.scene import Scene
from tests.support import faults
from tests.support.ports import release_port, reserve_port
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs("control-plane")


@pytest_asyncio.fixture
async def scene(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Scene]:
    """A scene on the real API server, with a Node that stays."""
    async with Scene.on(control_plane.endpoint, tmp_path) as scene:
        await scene.node("other")
        yield scene


class _Process:
    """A running ``nicrails-observer``."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self.log = log

    async def status(self, path: str) -> int:
        """An endpoint's status; 0 if it does not answer within a second."""
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=1)) as session,
                session.get(self.url + path) as response,
            ):
                return response.status
        except (aiohttp.ClientError, TimeoutError):
            return 0

    async def until(self, path: str, status: int) -> None:
        """Wait for an endpoint's status."""

        async def there() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            return await self.status(path) == status

        await eventually(there, within=30, what=f"{path} answers {status}")

    async def ended(self, within: float) -> int:
        """Wait for the end; the exit code."""
        return await asyncio.to_thread(self.process.wait, within)


@contextlib.contextmanager
def _running(scene: Scene, folder: Path) -> Iterator[_Process]:
    port = reserve_port()
    settings = folder / "settings.yaml"
    settings.write_text(f"server: {{address: 127.0.0.1, port: {port}}}\nobserver: {{checkInterval: 200ms}}\n")
    log = folder / f"observer-{port}.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "nicrails_observer",
                "run",
                "--config",
                str(settings),
                "--kubeconfig",
                str(scene.kubeconfig()),
            ],
            env={**os.environ, "POD_NAMESPACE": scene.world.namespace},
            stderr=stderr,
        )
    try:
        yield _Process(process, port, log)
    finally:
        process.kill()
        process.wait()
        release_port(port)


async def test_the_program_does_its_work_and_logs_json(scene: Scene, tmp_path: Path) -> None:
    """The program collects, every line of its log is one JSON object, and it ends by SIGTERM with exit code 0."""
    with _running(scene, tmp_path) as observer:
        await observer.until("/readyz", 200)
        (gone,) = await scene.published(["a"])
        await scene.world.delete_node(gone)
        await scene.until_records({})
        observer.process.send_signal(signal.SIGTERM)
        assert await observer.ended(5) == 0
        events = [json.loads(line) for line in observer.log.read_text().splitlines()]
    assert {"serving", "nodes-listed", "configmap-created", "records-removed", "stopping"} <= {
        event["event"] for event in events
    }
    assert all({"level", "timestamp"} <= event.keys() for event in events)


@pytest.mark.fault("F10")
@pytest.mark.parametrize("what", ["patch", "list", "back-off"])
async def test_sigterm_at_any_moment(scene: Scene, tmp_path: Path, what: str) -> None:
    """F10: during a patch, a list or a back-off, SIGTERM ends the process within 5 s, exit code 0, and no record is harmed."""
    with _running(scene, tmp_path) as observer:
        await observer.until("/healthz", 200)
        records = await scene.published(["a"])
        method, path = ("PATCH", "") if what == "patch" else ("GET", "/api/v1/nodes$")
        fault = faults.html(503) if what == "back-off" else faults.silence
        with scene.proxy.rule(fault, method=method, path=path) as rule:
            if what == "patch":
                await scene.world.delete_node(next(iter(records)))
            else:
                scene.proxy.cut_all()
            await eventually(lambda: rule.used, within=20, what="it is under way")
            observer.process.send_signal(signal.SIGTERM)
            assert await observer.ended(5) == 0
    assert await scene.records() == records


@pytest.mark.fault("F11")
async def test_a_stalled_process_fails_its_liveness(scene: Scene, tmp_path: Path) -> None:
    """F11: a process whose event loop stands still does not answer ``/livez``; when it turns again all is repaired."""
    with _running(scene, tmp_path) as observer:
        await observer.until("/healthz", 200)
        (gone,) = await scene.published(["a"])
        observer.process.send_signal(signal.SIGSTOP)
        try:
            assert await observer.status("/livez") == 0
            await scene.world.delete_node(gone)
        finally:
            observer.process.send_signal(signal.SIGCONT)
        await observer.until("/livez", 200)
        await scene.until_records({})
        await observer.until("/healthz", 200)


@pytest.mark.fault("F14")
async def test_an_outage_does_not_flood_the_log(scene: Scene, tmp_path: Path) -> None:
    """F14: while the API server is away the same failure is not written again and again."""
    with _running(scene, tmp_path) as observer:
        await observer.until("/healthz", 200)
        async with scene.proxy.refusing():
            await observer.until("/healthz", 503)
            before = len(observer.log.read_text().splitlines())
            await asyncio.sleep(3)
            written = observer.log.read_text().splitlines()[before:]
        assert len(written) <= 6, written
        await observer.until("/healthz", 200)
