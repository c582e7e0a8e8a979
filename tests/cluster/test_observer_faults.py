"""What the observer outlives, on a real API server behind a proxy that misbehaves."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import structlog

from tests.cluster.controlplane import ControlPlane
from tests.observer.observing import observing, quick_settings
from tests.observer.scene import Scene
from tests.support import faults
from tests.support.ports import reserve_port
from tests.support.proxy import Fault
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs("control-plane")

NODES = "^/api/v1/nodes$"


@pytest_asyncio.fixture
async def scene(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Scene]:
    """A scene on the real API server, with a Node that stays."""
    async with Scene.on(control_plane.endpoint, tmp_path) as scene:
        await scene.node("other")
        yield scene


@pytest.mark.fault("F1")
async def test_an_api_server_that_refuses_connections(scene: Scene) -> None:
    """F1: without an API server the observer is unhealthy and alive, says whom it can not reach, and recovers alone."""
    async with scene.observer() as observer:
        records = await scene.published(["a", "b"])
        await observer.until_metric("configmap_records", 2)
        async with scene.proxy.refusing():
            for duty in ("configmap", "nodes"):
                await observer.until_unhealthy(duty, "no usable answer from the API server", str(scene.proxy.port))
            name = next(iter(records))
            await scene.world.delete_node(name)
        del records[name]
        await scene.until_records(records, within=40)
        await observer.until_healthy(within=40)
        await scene.collects(observer, records)


@pytest.mark.fault("F1")
@pytest.mark.fault("O13")
async def test_an_api_server_that_restarts(control_plane: ControlPlane, tmp_path: Path) -> None:
    """F1, O13: the observer outlives a restart of the API server, lists the Nodes anew and goes on."""
    async with Scene.on(control_plane.endpoint, tmp_path) as scene:
        await scene.node("other")
        access = control_plane.kubeconfig(tmp_path / "direct")
        async with observing(access, scene.world.namespace) as observer:
            await observer.until_healthy()
            records = await scene.published(["a", "b"])
            await asyncio.to_thread(control_plane.stop_api_server, graceful=True)
            try:
                await observer.until_unhealthy("nodes", "no usable answer from the API server")
            finally:
                await asyncio.to_thread(control_plane.start_api_server)
            await observer.until_healthy(within=40)
            await observer.until_metric("node_lists_total", 2)
            await scene.collects(observer, records)


@pytest.mark.fault("F2")
async def test_a_busy_api_server_is_given_time(scene: Scene) -> None:
    """F2: after a 429 the next try comes no sooner than it was asked for, and the outcome counts as known."""
    async with scene.observer() as observer:
        records = await scene.published(["a", "b"])
        with scene.proxy.rule(faults.too_many_requests(2), method="PATCH", times=2):
            await scene.world.delete_node(next(iter(records)))
            await observer.until_unhealthy("garbage-collection", "remove", "asks to wait", "429")
            assert await scene.records() == records
            del records[next(iter(records))]
            await scene.until_records(records)
        tries = [seen.at for seen in scene.proxy.requests("PATCH")]
        assert len(tries) == 3
        assert all(later - earlier >= 2 for earlier, later in itertools.pairwise(tries))
        assert await observer.metric("patches_total", outcome="unknown") == 0
        await observer.until_healthy()


@pytest.mark.fault("F2")
async def test_a_busy_api_server_at_start(scene: Scene) -> None:
    """F2: a list that is put off by a 429 is asked again only after the time that was asked for."""
    with scene.proxy.rule(faults.too_many_requests(1), path=NODES, times=1):
        async with scene.observer() as observer:
            first, second = [seen.at for seen in scene.proxy.requests("GET", NODES, watch=False)][:2]
            assert second - first >= 1
            assert await observer.metric("failures_total", duty="nodes") == 1


@pytest.mark.fault("F3")
@pytest.mark.parametrize("code", [500, 502, 503, 504])
async def test_a_server_that_fails_reads(scene: Scene, code: int) -> None:
    """F3: while every read is answered by an HTML error the observer is unhealthy and removes nothing; then it goes on."""
    async with scene.observer() as observer:
        records = await scene.published(["a", "b"])
        with scene.proxy.rule(faults.html(code), method="GET"):
            scene.proxy.cut_all()
            for duty in ("configmap", "nodes"):
                await observer.until_unhealthy(duty, f"{code} ", "nginx")
            await scene.world.delete_node(next(iter(records)))
            assert await scene.records() == records
        del records[next(iter(records))]
        await scene.until_records(records, within=40)
        await observer.until_healthy(within=40)


@pytest.mark.fault("F3")
@pytest.mark.parametrize(
    "fault",
    [faults.answer_after(504), faults.cut_after, faults.html(503), faults.cut],
    ids=["504 after it was done", "cut after it was done", "503 instead", "cut instead"],
)
async def test_a_patch_of_unknown_outcome(scene: Scene, fault: Fault) -> None:
    """F3: whether an unanswered patch was done or not, in the end the record is gone, counted once, and no other is."""
    async with scene.observer() as observer:
        records = await scene.published(["a", "b"])
        with scene.proxy.rule(fault, method="PATCH", times=1):
            await scene.collects(observer, records)
        assert await observer.metric("patches_total", outcome="unknown") == 1
        await observer.until_metric("removals_total", 1, reason="node-gone")
        assert await observer.metric("removals_total", reason="node-gone") == 1


@pytest.mark.fault("F9")
@pytest.mark.parametrize("hours", [-9, 9])
async def test_a_wall_clock_that_is_set(scene: Scene, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    """F9: setting the time of day by hours changes nothing, for every wait goes by the monotonic clock."""
    async with scene.observer() as observer:
        records = await scene.published(["a", "b", "c"])
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + hours * 3600)
        await scene.collects(observer, records)
        scene.proxy.cut_all()
        await scene.collects(observer, records)


@pytest.mark.fault("F12")
async def test_proxies_of_the_environment_are_ignored(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """F12: proxy variables that lead nowhere do not keep the observer from the API server."""
    dead = f"http://127.0.0.1:{reserve_port()}"
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, dead)
        monkeypatch.setenv(name.lower(), dead)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with scene.observer() as observer:
        records = await scene.published(["a", "b"])
        await scene.collects(observer, records)


@pytest.mark.fault("F14")
async def test_a_flood_of_words_is_cut(scene: Scene) -> None:
    """F14: long and strange words of a server are cut and made printable in the health report and in the log."""
    words = b"\x1b[31m" + b"x" * 100_000
    async with scene.observer() as observer:
        with structlog.testing.capture_logs() as logs, scene.proxy.rule(faults.answer(500, words)):
            scene.proxy.cut_all()
            await observer.until_unhealthy("nodes", "500")
            said = await observer.until_unhealthy("configmap", "500", "xxx")
        assert len(said["reason"]) < 1024
        assert said["reason"].isprintable()
        assert all(len(str(event)) < 2048 for event in logs)
        await observer.until_healthy(within=40)


@pytest.mark.fault("F10")
async def test_stopping_in_the_middle_of_a_patch(scene: Scene) -> None:
    """F10: told to stop during a patch the observer ends soon, says so until then, and the records are whole either way."""
    async with scene.observer() as observer:
        records = await scene.published(["a", "b"])
        with scene.proxy.rule(faults.silence, method="PATCH") as rule:
            await scene.world.delete_node(next(iter(records)))
            await eventually(lambda: rule.used, within=20, what="the patch is under way")
            started = time.monotonic()
            observer.stop.set()
            await eventually(lambda: not observer.app.health.healthy, within=5, what="the observer says that it stops")
            await observer.task
            assert time.monotonic() - started < 5
        assert await scene.records() == records
    async with scene.observer():
        del records[next(iter(records))]
        await scene.until_records(records)


async def test_disabled_it_idles(scene: Scene) -> None:
    """With ``enabled: false`` the observer is healthy and asks the API server for nothing."""
    async with scene.observer(settings=quick_settings(enabled=False)) as observer:
        _, body = await observer.get("/healthz")
        assert json.loads(body) == {"status": "healthy", "duties": {}}
        assert scene.proxy.seen == []
