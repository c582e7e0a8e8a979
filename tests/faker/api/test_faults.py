"""Scripted faults, as a client meets them."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest

from nicrails_faker.api import (
    Cut,
    CutEvent,
    EmbeddedCluster,
    EndWatch,
    Fault,
    Hang,
    LoseAnswer,
    NoBookmarks,
    Respond,
    Stall,
    error_event,
)
from tests.conformance.speaking import Api
from tests.support.waiting import eventually

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def test_an_answer_can_be_scripted(cluster: EmbeddedCluster, kube: Api) -> None:
    """429 in plain text with Retry-After, HTML, JSON: the client gets it to the byte, and nothing is applied."""
    cluster.faults.add(Fault(action=Respond(status=429, body="slow down", headers={"Retry-After": "7"})))
    cluster.faults.add(Fault(action=Respond(status=503, body="<html>", content_type="text/html")))
    cluster.faults.add(Fault(action=Respond(status=500, body={"kind": "Status"})))
    answers = [await kube.ask("POST", CONFIG_MAPS, {"metadata": {"name": "a"}}) for _ in range(4)]
    assert [answer.status for answer in answers] == [429, 503, 500, 201]
    assert (answers[0].body, answers[0].headers["Retry-After"]) == (b"slow down", "7")
    assert answers[0].headers["Content-Type"] == "text/plain"
    assert answers[1].headers["Content-Type"] == "text/html"
    assert answers[2].json == {"kind": "Status"}


async def test_a_fault_strikes_what_it_is_for(cluster: EmbeddedCluster, kube: Api) -> None:
    """Method, verb and path choose the requests, ``skip`` lets some through, ``times`` limits, ``remove`` ends."""
    boom = Respond(status=500)
    patches = cluster.faults.add(Fault(action=boom, verb="patch", path=CONFIG_MAPS, skip=1, times=2))
    for_ever = cluster.faults.add(Fault(action=boom, method="DELETE", times=None))
    cluster.create("v1", "configmaps", {"metadata": {"name": "a"}})
    path = f"{CONFIG_MAPS}/a"
    assert (await kube.get(path)).status == 200
    assert (await kube.merge("/api/v1/nodes/x", {})).status == 404
    assert [(await kube.merge(path, {})).status for _ in range(4)] == [200, 500, 500, 200]
    assert [(await kube.delete(path)).status for _ in range(3)] == [500, 500, 500]
    assert (patches.hits, patches.spent, for_ever.hits, len(cluster.faults)) == (2, True, 3, 1)
    for_ever.remove()
    assert (await kube.delete(path)).status == 200
    assert len(cluster.faults) == 0


@pytest.mark.parametrize("instead", [Respond(status=504, body="gateway"), None], ids=["504", "cut"])
async def test_an_answer_can_be_lost(cluster: EmbeddedCluster, kube: Api, instead: Respond | None) -> None:
    """The write is applied; the client gets a 504 or a cut connection."""
    cluster.create("v1", "configmaps", {"metadata": {"name": "a"}})
    cluster.faults.add(Fault(action=LoseAnswer(instead=instead), verb="patch"))
    if instead is None:
        with pytest.raises(aiohttp.ClientError):
            await kube.merge(f"{CONFIG_MAPS}/a", {"data": {"x": "1"}})
    else:
        assert (await kube.merge(f"{CONFIG_MAPS}/a", {"data": {"x": "1"}})).body == b"gateway"
    assert cluster.get("v1", "configmaps", "a")["data"] == {"x": "1"}


async def test_a_connection_can_be_cut_before_anything_happens(cluster: EmbeddedCluster, kube: Api) -> None:
    """The client loses the connection, and nothing is applied."""
    cluster.faults.add(Fault(action=Cut(), method="POST"))
    with pytest.raises(aiohttp.ClientError):
        await kube.ask("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert cluster.list("v1", "configmaps") == []


async def test_an_answer_can_be_late(cluster: EmbeddedCluster, kube: Api) -> None:
    """A request that hangs for a while is served afterwards."""
    cluster.faults.add(Fault(action=Hang(seconds=0.05)))
    assert (await kube.get(CONFIG_MAPS)).status == 200


async def test_an_answer_can_stay_away(cluster: EmbeddedCluster, kube: Api) -> None:
    """A request that hangs ends when the client gives up."""
    cluster.faults.add(Fault(action=Hang()))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await kube.get(CONFIG_MAPS)
    (logged,) = cluster.requests
    await eventually(lambda: logged.finished, within=5, what="the request is over")
    assert logged.status is None


async def watched(cluster: EmbeddedCluster, kube: Api, fault: Fault, **query: str) -> tuple[list[str], bytes]:
    """The whole lines of a watch of two events under a fault, and what came after the last line break."""
    cluster.faults.add(fault)
    start = cluster.revision
    for name in ("n1", "n2"):
        cluster.create("v1", "nodes", {"metadata": {"name": name}})
    received = bytearray()
    async with kube.watch("/api/v1/nodes", resourceVersion=start, timeoutSeconds="1", **query) as watch:
        try:
            async for chunk in watch.response.content.iter_any():
                received += chunk
        except aiohttp.ClientPayloadError:
            received += b"|cut"
    *lines, rest = bytes(received).split(b"\n")
    return [line.decode() for line in lines], rest


async def test_a_watch_can_be_cut_within_an_event(cluster: EmbeddedCluster, kube: Api) -> None:
    """The first event arrives whole, the second half, and the connection is gone."""
    lines, rest = await watched(cluster, kube, Fault(action=CutEvent(after=1)))
    assert [json.loads(line)["object"]["metadata"]["name"] for line in lines] == ["n1"]
    assert rest.startswith(b'{"type":"ADDED"')
    assert rest.endswith(b"|cut")


async def test_a_watch_can_carry_garbage(cluster: EmbeddedCluster, kube: Api) -> None:
    """A line that is no JSON comes in the place of the second event."""
    lines, rest = await watched(cluster, kube, Fault(action=EndWatch(after=1, line=b"<garbage>\n")))
    assert (lines[1:], rest) == (["<garbage>"], b"")


async def test_a_watch_can_end_with_an_error(cluster: EmbeddedCluster, kube: Api) -> None:
    """An ERROR event of any code comes in the place of the first event."""
    gone = error_event(410, "Gone", "too old")
    lines, _ = await watched(cluster, kube, Fault(action=EndWatch(line=gone)))
    event = json.loads(lines[0])
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Gone")
    assert len(lines) == 1


async def test_a_watch_can_end_early(cluster: EmbeddedCluster, kube: Api) -> None:
    """A watch ends in order in the place of the second event."""
    lines, rest = await watched(cluster, kube, Fault(action=EndWatch(after=1)))
    assert (len(lines), rest) == (1, b"")


async def test_a_watch_can_go_silent(cluster: EmbeddedCluster, kube: Api) -> None:
    """After the first event nothing comes, and the connection stays."""
    cluster.faults.add(Fault(action=Stall(after=1)))
    start = cluster.revision
    for name in ("n1", "n2"):
        cluster.create("v1", "nodes", {"metadata": {"name": name}})
    async with kube.watch("/api/v1/nodes", resourceVersion=start) as watch:
        assert (await watch.next()).name == "n1"
        with pytest.raises(TimeoutError):
            await watch.next(within=0.2)
        assert watch.response.connection is not None
    (logged,) = cluster.requests
    await eventually(lambda: logged.finished, within=5, what="the watch is over")


async def test_bookmarks_can_stay_away(cluster: EmbeddedCluster, kube: Api) -> None:
    """Events come and bookmarks do not."""
    cluster.bookmark_interval = 0.05
    lines, _ = await watched(cluster, kube, Fault(action=NoBookmarks()), allowWatchBookmarks="true")
    assert [json.loads(line)["type"] for line in lines] == ["ADDED", "ADDED"]


async def test_a_watch_fault_leaves_other_requests_alone(cluster: EmbeddedCluster, kube: Api) -> None:
    """A fault within a watch waits for a watch."""
    fault = cluster.faults.add(Fault(action=CutEvent()))
    assert (await kube.get("/api/v1/nodes")).status == 200
    assert fault.hits == 0
    cluster.faults.clear()
    assert len(cluster.faults) == 0
