from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from aiohttp import web

from nicrails.kube import ApiError, Collection, GoneError, Reflector
from tests.shared.serving import scripted
from tests.support.waiting import eventually

Item = tuple[str, str]


def _extract(item: Mapping[str, Any]) -> Item:
    return item["metadata"]["name"], item["metadata"]["uid"]


NODES = Collection(path="/api/v1/nodes", extract=_extract, field_selector="metadata.name!=x")


def _object(name: str, version: int, uid: str = "u") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid, "resourceVersion": str(version)}}


def _event(kind: str, *args: Any) -> bytes:
    return orjson.dumps({"type": kind, "object": _object(*args)}) + b"\n"


BOOKMARK = orjson.dumps({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "50"}}}) + b"\n"
EXPIRED = (
    orjson.dumps(
        {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}
    )
    + b"\n"
)


@dataclass
class Told:
    """What the reflector told its sink and its observer."""

    events: list[tuple[str, Any]] = field(default_factory=list)

    def replaced(self, items: Sequence[Item]) -> None:
        self.events.append(("replaced", sorted(items)))

    def changed(self, item: Item) -> None:
        self.events.append(("changed", item))

    def removed(self, item: Item) -> None:
        self.events.append(("removed", item))

    def listed(self, count: int, _seconds: float) -> None:
        self.events.append(("listed", count))

    def restarted(self, reason: str) -> None:
        self.events.append(("restarted", reason))

    def failed(self, error: ApiError) -> None:
        self.events.append(("failed", type(error).__name__))

    def of(self, *kinds: str) -> list[tuple[str, Any]]:
        return [event for event in self.events if event[0] in kinds]


@dataclass
class Server:
    """A collection whose lists and watches are scripted; the last script of each kind is used again and again."""

    lists: list[Any]
    watches: list[Any]
    queries: list[dict[str, str]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.queries.append(dict(request.query))
        script = self.watches if request.query.get("watch") else self.lists
        step = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(step, web.Response):
            return web.Response(status=step.status, body=step.body, headers=step.headers)
        if isinstance(step, dict):
            return web.json_response(step)
        response = web.StreamResponse()
        await response.prepare(request)
        for part in step:
            if part is None:
                await asyncio.sleep(30)
            elif part == b"cut":
                assert request.transport is not None
                request.transport.abort()
            else:
                await response.write(part)
        return response


def _list(*items: dict[str, Any], version: str = "10", token: str = "") -> dict[str, Any]:
    return {"metadata": {"resourceVersion": version} | ({"continue": token} if token else {}), "items": list(items)}


@asynccontextmanager
async def following(server: Server, silence: float = 5.0) -> AsyncIterator[Told]:
    """A reflector that follows the server's collection."""
    told = Told()
    async with scripted(server.handle) as (client, _):
        reflector = Reflector(client, NODES, told, told, rng=random.Random(1), silence=silence)
        task = asyncio.create_task(reflector.run())
        try:
            yield told
        finally:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task


async def test_list_then_watch() -> None:
    """A list is read whole in pages, then watched from its version with bookmarks and a server timeout."""
    server = Server(
        lists=[_list(_object("a", 1), version="10", token="t"), _list(_object("b", 2), version="10")],
        watches=[
            [_event("ADDED", "c", 11), _event("MODIFIED", "a", 12, "v"), _event("DELETED", "b", 13), BOOKMARK],
            [None],
        ],
    )
    async with following(server) as told:
        await eventually(lambda: len(server.queries) == 4, within=5, what="the second watch")
    assert told.events[:6] == [
        ("listed", 2),
        ("replaced", [("a", "u"), ("b", "u")]),
        ("changed", ("c", "u")),
        ("changed", ("a", "v")),
        ("removed", ("b", "u")),
        ("restarted", "timeout"),
    ]
    first, second, watch, again = server.queries
    assert (first["limit"], first["fieldSelector"], second["continue"]) == ("50", "metadata.name!=x", "t")
    assert (watch["resourceVersion"], watch["allowWatchBookmarks"]) == ("10", "true")
    assert 240 <= int(watch["timeoutSeconds"]) <= 480
    assert again["resourceVersion"] == "50"


@pytest.mark.parametrize(
    ("watch", "reason"),
    [
        ([EXPIRED], "gone"),
        (web.Response(status=410, body=b'{"message":"too old"}'), "gone"),
        ([_event("ADDED", "b", 11), b"cut"], "cut"),
        ([b'{"type":"ADDED","object":{"meta', b"cut"], "cut"),
        ([None], "silent"),
        ([b"<html>\n"], "cut"),
        ([orjson.dumps({"type": "NEWS", "object": _object("b", 11)}) + b"\n"], "cut"),
        ([b'{"type":"ADDED","object":{"metadata":{"name":"b"}}}\n'], "cut"),
    ],
)
async def test_a_lost_thread_is_a_new_list(watch: Any, reason: str) -> None:
    """O11, O12: after a 410, a cut, silence or anything that is no event, everything is listed again."""
    server = Server(lists=[_list(_object("a", 1)), _list(_object("z", 2), version="20")], watches=[watch, [None]])
    async with following(server, silence=0.3) as told:
        await eventually(lambda: len(told.of("replaced")) >= 2, within=8, what="the second list")
    assert ("restarted", reason) in told.events
    assert told.of("replaced")[1] == ("replaced", [("z", "u")])


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (web.Response(status=429, body=b"Too many requests", headers={"Retry-After": "0"}), "TooManyRequestsError"),
        (web.Response(status=503, body=b"<html>"), "ServerFaultError"),
        (web.Response(status=403, body=b"{}"), "ForbiddenError"),
        (web.Response(body=b"<html>"), "UnreachableError"),
        (web.Response(body=b'{"metadata":{}}'), "UnreachableError"),
        (web.Response(body=b'{"metadata":{"resourceVersion":"1"},"items":5}'), "UnreachableError"),
        (web.Response(body=b'{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{}}]}'), "UnreachableError"),
    ],
)
async def test_a_failed_list_is_no_list(answer: web.Response, error: str) -> None:
    """O10: an answer that is not a complete list is never taken for one; it is tried again after a pause."""
    server = Server(lists=[answer, _list(_object("a", 1))], watches=[[None]])
    async with following(server) as told:
        await eventually(lambda: told.of("replaced"), within=5, what="the list")
    assert told.events[0] == ("failed", error)
    assert told.of("replaced") == [("replaced", [("a", "u")])]


async def test_a_page_that_expired_restarts_the_list() -> None:
    """O11: when the continue token has expired, the half list is dropped and a new one begins."""
    expired = web.Response(status=410, body=b'{"reason":"Expired"}')
    server = Server(
        lists=[_list(_object("a", 1), token="t"), expired, _list(_object("b", 2), version="30")], watches=[[None]]
    )
    async with following(server) as told:
        await eventually(lambda: told.of("replaced"), within=5, what="the list")
    assert told.of("replaced", "failed") == [("replaced", [("b", "u")])]


async def test_a_list_that_always_expires_is_an_error() -> None:
    """A collection that can not be listed before it expires is an error, not an endless loop."""
    expired = web.Response(status=410, body=b'{"reason":"Expired"}')
    server = Server(lists=[expired], watches=[[None]])
    async with scripted(server.handle) as (client, _):
        with pytest.raises(GoneError):
            await Reflector(client, NODES, Told(), Told()).read_all()
    assert len(server.queries) == 5


async def test_a_watch_that_is_refused_backs_off() -> None:
    """A3: a server that refuses every watch is not asked in a hot loop."""
    server = Server(
        lists=[_list(_object("a", 1))], watches=[web.Response(status=429, body=b"no", headers={"Retry-After": "1"})]
    )
    async with following(server) as told:
        await eventually(lambda: told.of("failed"), within=5, what="the refusal")
        await asyncio.sleep(0.8)
        assert len(server.queries) == 2


async def test_watches_that_end_at_once_are_not_a_hot_loop() -> None:
    """A3: a server that ends every watch without an event is asked about once a second."""
    server = Server(lists=[_list(_object("a", 1))], watches=[[]])
    async with following(server) as told:
        await eventually(lambda: len(told.of("restarted")) >= 2, within=8, what="two ends")
        assert len(server.queries) <= 4


async def test_lists_that_lead_nowhere_become_rare() -> None:
    """F5: while every watch is cut, the whole collection is listed at growing intervals."""
    server = Server(lists=[_list(_object("a", 1))], watches=[[b"cut"]])
    delays: list[float] = []

    class Recorded(random.Random):
        def uniform(self, a: float, b: float) -> float:
            delays.append(b)
            return 0.0

    told = Told()
    async with scripted(server.handle) as (client, _):
        task = asyncio.create_task(Reflector(client, NODES, told, told, rng=Recorded(1)).run())
        await eventually(lambda: len(delays) >= 7, within=10, what="seven pauses")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert delays[:7] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0]
