from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from tests.support import faults
from tests.support.endpoint import ApiEndpoint
from tests.support.proxy import Fault, FaultProxy


@pytest_asyncio.fixture
async def proxy() -> AsyncIterator[FaultProxy]:
    """A proxy before a server that echoes requests, streams three lines, and answers messages on a WebSocket."""

    async def echo(request: web.Request) -> web.Response:
        body = await request.text()
        headers = {"X-Came": request.headers.get("X-Sent", "")}
        return web.Response(status=201, text=f"{request.method} {request.raw_path} {body}", headers=headers)

    async def lines(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for number in range(3):
            await response.write(b"line %d\n" % number)
        return response

    async def talk(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=["v4.channel.k8s.io"])
        await socket.prepare(request)
        async for message in socket:
            await socket.send_bytes(b"heard " + message.data)
        return socket

    app = web.Application()
    app.add_routes([web.get("/lines", lines), web.get("/talk", talk)])
    app.router.add_route("*", "/{path:.*}", echo)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with FaultProxy(ApiEndpoint(url="http://127.0.0.1:{1}".format(*runner.addresses[0]))) as proxy:
        yield proxy
    await runner.cleanup()


@pytest_asyncio.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """A client."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
        yield session


async def test_hands_requests_through_unchanged(proxy: FaultProxy, session: aiohttp.ClientSession) -> None:
    """Method, raw path, query, headers and body arrive as sent, the answer comes back as given, and both are on record."""
    async with session.patch(f"{proxy.url}/a%2Fb?x=1&x=%C3%A9", data="body", headers={"X-Sent": "y"}) as answer:
        assert answer.status == 201
        assert await answer.text() == "PATCH /a%2Fb?x=1&x=%C3%A9 body"
        assert answer.headers["X-Came"] == "y"
    (seen,) = proxy.requests("PATCH", "a/b")
    assert (seen.status, seen.body, seen.received) == (201, b"body", len("PATCH /a%2Fb?x=1&x=%C3%A9 body"))


async def test_a_rule_strikes_what_it_names_as_often_as_it_says(
    proxy: FaultProxy, session: aiohttp.ClientSession
) -> None:
    """A rule is for its method, path and kind of request, and is used up after the given times."""
    with proxy.rule(faults.answer(503), method="GET", path="^/x$", watch=False, times=2) as rule:
        statuses = []
        for method, path in (("POST", "/x"), ("GET", "/y"), ("GET", "/x?watch=1"), *[("GET", "/x")] * 3):
            async with session.request(method, proxy.url + path) as answer:
                statuses.append(answer.status)
    assert statuses == [201, 201, 201, 503, 503, 201]
    assert rule.used == 2
    assert proxy.rules == []


@pytest.mark.parametrize("fault", [faults.cut, faults.cut_after])
async def test_a_cut_is_a_reset(proxy: FaultProxy, session: aiohttp.ClientSession, fault: Fault) -> None:
    """A cut request gets no answer at all."""
    with proxy.rule(fault), pytest.raises(aiohttp.ClientConnectionError):
        await session.post(f"{proxy.url}/x")


async def test_a_stream_can_be_edited_and_cut(proxy: FaultProxy, session: aiohttp.ClientSession) -> None:
    """Each line passes through the edit; an edit may end it all in the middle of a line."""
    with proxy.rule(faults.lines(faults.twice)):
        async with session.get(f"{proxy.url}/lines") as answer:
            assert await answer.text() == "line 0\nline 0\nline 1\nline 1\nline 2\nline 2\n"
    with proxy.rule(faults.lines(faults.cut_mid_event)):
        async with session.get(f"{proxy.url}/lines") as answer:
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()


async def test_a_dead_network_moves_nothing(proxy: FaultProxy, session: aiohttp.ClientSession) -> None:
    """While nothing flows connections stand and no byte comes; afterwards all comes."""
    proxy.flowing.clear()
    async with session.get(f"{proxy.url}/lines") as answer:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await answer.content.readany()
        proxy.flowing.set()
        assert await answer.text() == "line 0\nline 1\nline 2\n"


async def test_refuses_and_comes_back_at_the_same_address(proxy: FaultProxy, session: aiohttp.ClientSession) -> None:
    """A proxy that refuses has the same address when it listens again."""
    url = proxy.url
    async with proxy.refusing():
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(url)
    async with session.get(f"{url}/x") as answer:
        assert answer.status == 201


async def test_joins_websockets(proxy: FaultProxy, session: aiohttp.ClientSession) -> None:
    """A WebSocket goes through with its subprotocol and its messages."""
    async with session.ws_connect(f"{proxy.url}/talk", protocols=["v4.channel.k8s.io"]) as socket:
        assert socket.protocol == "v4.channel.k8s.io"
        await socket.send_bytes(b"this")
        assert await socket.receive_bytes() == b"heard this"


async def test_its_kubeconfig_leads_to_it(proxy: FaultProxy, tmp_path: Path) -> None:
    """The kubeconfig has the proxy's address and the given token, for its owner's eyes only."""
    file = proxy.kubeconfig(tmp_path / "kubeconfig", token="secret")
    assert proxy.url in file.read_text()
    assert "secret" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
