"""Lists and watches of Nodes that go wrong, on a real API server behind a proxy that misbehaves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web

from tests.cluster.controlplane import ControlPlane
from tests.observer.scene import Scene
from tests.support import faults
from tests.support.proxy import Exchange, LineEdit

pytestmark = pytest.mark.needs("control-plane")

NODES = "^/api/v1/nodes$"


@pytest_asyncio.fixture
async def scene(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Scene]:
    """A scene on the real API server, with a Node that stays."""
    async with Scene.on(control_plane.endpoint, tmp_path) as scene:
        await scene.node("other")
        yield scene


@pytest.mark.fault("F8")
@pytest.mark.fault("O12")
async def test_a_watch_that_falls_silent(scene: Scene) -> None:
    """F8, O12: on a dead connection the watch is given up after the time of silence, and the list repairs the view."""
    async with scene.observer(silence=1.0) as observer:
        records = await scene.published(["a", "b"])
        await observer.until_metric("configmap_records", 2)
        restarts = await observer.metric("watch_restarts_total", reason="silent")
        scene.proxy.flowing.clear()
        name = next(iter(records))
        await scene.world.delete_node(name)
        await observer.until_metric("watch_restarts_total", restarts + 1, reason="silent")
        await observer.until_unhealthy("nodes", "no answer in time")
        assert await scene.records() == records
        scene.proxy.flowing.set()
        del records[name]
        await scene.until_records(records, within=40)
        await observer.until_healthy(within=40)


@pytest.mark.fault("O11")
@pytest.mark.parametrize("times", [1, 2])
async def test_a_list_that_expires_on_the_way(scene: Scene, times: int) -> None:
    """O11: where a page's token has expired the list starts over, and half a list never counts as a list."""
    names = [(await scene.node(f"page-{number:03}"))[0] for number in range(60)]
    expired = 0

    async def expire(exchange: Exchange) -> web.StreamResponse:
        nonlocal expired
        if "continue" not in exchange.seen.query or expired == times:
            return await exchange.forward()
        expired += 1
        return await faults.status(410, "Expired")(exchange)

    with scene.proxy.rule(expire, method="GET", path=NODES, watch=False):
        async with scene.observer() as observer:
            assert expired == times
            assert await observer.metric("node_lists_total") == 1
            assert await observer.metric("nodes") >= len(names)


@pytest.mark.fault("O12")
@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (faults.cut_mid_event, "cut"),
        (faults.instead_of_event(b'{"type":"SURPRISE","object":{"metadata":{"resourceVersion":"1"}}}\n'), "cut"),
        (faults.instead_of_event(b"<html>proxy</html>\n"), "cut"),
        (faults.instead_of_event(b'{"type":"ADDED","object":{"metadata":{}}}\n'), "cut"),
        (faults.instead_of_event(b"x" * (9 * 1024 * 1024)), "cut"),
        (
            faults.instead_of_event(
                faults.event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
            ),
            "gone",
        ),
        (
            faults.instead_of_event(
                faults.event("ERROR", {"kind": "Status", "code": 500, "reason": "InternalError", "message": "etcd"})
            ),
            "refused",
        ),
    ],
    ids=["half an event", "unknown type", "garbage", "no version", "too long", "410", "500"],
)
async def test_a_watch_that_goes_wrong(scene: Scene, edit: LineEdit, reason: str) -> None:
    """O12: whatever comes instead of an event, the Nodes are listed anew and no event is lost or made up."""
    with scene.proxy.rule(faults.lines(edit), path=NODES, watch=True, times=1):
        async with scene.observer() as observer:
            records = await scene.published(["a", "b"])
            await observer.until_metric("watch_restarts_total", 1, reason=reason)
            await observer.until_metric("node_lists_total", 2)
            await scene.collects(observer, records)
            await observer.until_metric("removals_total", 1, reason="node-gone")
            assert await observer.metric("removals_total", reason="node-gone") == 1


@pytest.mark.fault("O12")
async def test_events_that_come_twice(scene: Scene) -> None:
    """O12: duplicates change nothing: a Node that is replaced loses its old record once and keeps the new one."""
    with scene.proxy.rule(faults.lines(faults.twice), path=NODES, watch=True):
        async with scene.observer() as observer:
            records = await scene.published(["a", "b"])
            name = next(iter(records))
            await scene.world.delete_node(name)
            await scene.world.node(name)
            del records[name]
            await scene.until_records(records)
            removed = [
                await observer.metric("removals_total", reason=reason) for reason in ("node-gone", "node-replaced")
            ]
            assert sum(removed) == 1
            assert await observer.metric("node_lists_total") == 1
            await observer.until_healthy()


@pytest.mark.fault("O12")
async def test_a_watch_that_the_server_ends_in_time_goes_on(scene: Scene) -> None:
    """O12: a watch that ends without an error goes on where it was, without another list."""
    with scene.proxy.rule(faults.watch_then(), path=NODES, watch=True, times=2):
        async with scene.observer() as observer:
            await observer.until_metric("watch_restarts_total", 2, reason="timeout")
            records = await scene.published(["a", "b"])
            await scene.collects(observer, records)
            assert await observer.metric("node_lists_total") == 1
