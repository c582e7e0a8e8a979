"""A reverse proxy in front of an API server that misbehaves when told to, for faults that no healthy server shows.

A test puts it between the service and the API server and gives it rules. The first rule that matches a request and is
not used up decides what happens to it; without one the request goes through::

    async with FaultProxy(control_plane.endpoint) as proxy:
        with proxy.rule(faults.answer(429, b"Too many requests", {"Retry-After": "1"}), method="PATCH", times=2):
            ...

The faults are in :mod:`tests.support.faults`. Everything that reached the proxy is in ``proxy.seen``.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
import yaml
from aiohttp import web
from yarl import URL

from tests.support.endpoint import ApiEndpoint
from tests.support.ports import release_port, reserve_port

_HOP_BY_HOP = {"connection", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "content-length"}


@dataclass(slots=True, kw_only=True)
class Seen:
    """One request that reached the proxy, and what the client got.

    Attributes:
        path: Without the query.
        target: Path and query as they came.
        at: When it came, in seconds of the monotonic clock.
        status: What the client was told; 0 while there is no answer, or if it was cut.
        received: Bytes of the answer's body that the client was sent.
    """

    method: str
    path: str
    target: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    at: float = field(default_factory=time.monotonic)
    status: int = 0
    received: int = 0

    @property
    def watch(self) -> bool:
        """Whether a watch was asked for."""
        return self.query.get("watch") in ("1", "true")


class Exchange:
    """One request under way; what a fault works with."""

    def __init__(self, proxy: FaultProxy, request: web.Request, seen: Seen) -> None:
        self._proxy = proxy
        self.request = request
        self.seen = seen

    def cut(self) -> web.StreamResponse:
        """Reset the client's connection."""
        if self.request.transport is not None:
            self.request.transport.abort()
        return web.Response(status=500)

    async def respond(self, status: int, body: bytes, headers: Mapping[str, str]) -> web.StreamResponse:
        """Answer the client."""
        self.seen.status, self.seen.received = status, len(body)
        return web.Response(status=status, body=body, headers=headers)

    async def ask(self) -> tuple[int, dict[str, str], bytes]:
        """Send the request on and read the whole answer: status, headers, body."""
        async with self._proxy.upstream_request(self.seen) as answer:
            return answer.status, _end_to_end(answer.headers), await answer.read()

    async def forward(self) -> web.StreamResponse:
        """Send the request on and hand the answer through as it comes; a WebSocket, too."""
        if self.request.headers.get("Upgrade", "").lower() == "websocket":
            return await self._proxy.bridge(self)
        return await self.stream(_unchanged)

    async def stream(self, edit: LineEdit) -> web.StreamResponse:
        """Send the request on and hand each line of the answer through ``edit``."""
        async with self._proxy.upstream_request(self.seen) as answer:
            response = web.StreamResponse(status=answer.status, headers=_end_to_end(answer.headers))
            self.seen.status = answer.status
            await response.prepare(self.request)
            pieces = answer.content.iter_any() if edit is _unchanged else answer.content
            try:
                async for piece in pieces:
                    async for data in edit(piece):
                        await self._proxy.flowing.wait()
                        await response.write(data)
                        self.seen.received += len(data)
            except CutError:
                self.cut()
                return response
            await self._proxy.flowing.wait()
            with contextlib.suppress(ConnectionError):
                await response.write_eof()
            return response


class CutError(Exception):
    """Raised by an edit of a stream to reset the connection there."""


Fault = Callable[[Exchange], Awaitable[web.StreamResponse]]
LineEdit = Callable[[bytes], AsyncIterator[bytes]]


async def _unchanged(data: bytes) -> AsyncIterator[bytes]:
    yield data


@dataclass(slots=True)
class Rule:
    """What happens to which requests.

    Attributes:
        fault: What happens.
        method: The HTTP method, or any.
        path: A regular expression that is searched in the path.
        watch: Only watches, only other requests, or both.
        times: How often; None is until the rule is removed.
        used: How often so far.
    """

    fault: Fault
    method: str | None = None
    path: str = ""
    watch: bool | None = None
    times: int | None = None
    used: int = field(default=0, init=False)

    def matches(self, seen: Seen) -> bool:
        """Whether this request is meant."""
        return (
            (self.times is None or self.used < self.times)
            and self.method in (None, seen.method)
            and self.watch in (None, seen.watch)
            and re.search(self.path, seen.path) is not None
        )


class FaultProxy:
    """The proxy; an asynchronous context manager.

    Args:
        upstream: The API server. The client's own credentials are sent on.
        tls: Serve ``https`` with this context; plain ``http`` without.

    Attributes:
        rules: What to do to requests, first match first; change it at any time.
        seen: All requests so far.
        flowing: While cleared, connections stay open and nothing that streams moves, as over a dead network.
    """

    def __init__(self, upstream: ApiEndpoint, *, tls: ssl.SSLContext | None = None) -> None:
        self.upstream = upstream
        self.rules: list[Rule] = []
        self.seen: list[Seen] = []
        self.flowing = asyncio.Event()
        self.flowing.set()
        self._tls = tls
        self._upstream_tls: ssl.SSLContext | bool = upstream.ssl_context() or True
        self._stack = contextlib.AsyncExitStack()
        self._transports: set[asyncio.Transport] = set()

    async def __aenter__(self) -> Self:
        self._port = reserve_port()
        self._stack.callback(release_port, self._port)
        self._session = await self._stack.enter_async_context(
            aiohttp.ClientSession(auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None), read_bufsize=2**22)
        )
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # A handler must end with its client, or an idle watch would hold the proxy open.
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        self._stack.push_async_callback(self._runner.cleanup)
        await self.listen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.flowing.set()
        self.cut_all()
        await self._stack.aclose()

    @property
    def url(self) -> str:
        """The address without a trailing slash; it stays the same when the proxy stops listening for a while."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        """The TCP port on 127.0.0.1."""
        return self._port

    async def listen(self, *, tls: ssl.SSLContext | None = None) -> None:
        """Accept connections again, with another certificate if one is given."""
        self._tls = tls or self._tls
        self._site = web.TCPSite(self._runner, "127.0.0.1", self._port, ssl_context=self._tls)
        await self._site.start()

    async def refuse(self) -> None:
        """Refuse connections, and reset those that stand."""
        await self._site.stop()
        self.cut_all()

    @contextlib.asynccontextmanager
    async def refusing(self) -> AsyncIterator[None]:
        """No server within the block."""
        await self.refuse()
        try:
            yield
        finally:
            await self.listen()

    def cut_all(self) -> None:
        """Reset all connections that stand."""
        for transport in list(self._transports):
            transport.abort()

    @contextlib.contextmanager
    def rule(
        self,
        fault: Fault,
        *,
        method: str | None = None,
        path: str = "",
        watch: bool | None = None,
        times: int | None = None,
    ) -> Iterator[Rule]:
        """A rule within the block; the arguments are those of :class:`Rule`."""
        rule = Rule(fault, method=method, path=path, watch=watch, times=times)
        self.rules.append(rule)
        try:
            yield rule
        finally:
            self.rules.remove(rule)

    def requests(self, method: str, path: str = "", *, watch: bool | None = None) -> list[Seen]:
        """The requests so far that match, as :class:`Rule` matches."""
        wanted = Rule(_forward, method=method, path=path, watch=watch)
        return [seen for seen in self.seen if wanted.matches(seen)]

    def kubeconfig(self, path: Path, *, token: str | None = None) -> Path:
        """Write a kubeconfig that leads through the proxy; returns ``path``.

        Args:
            path: The file to write.
            token: Whose credentials; by default the administrator's of the upstream.
        """
        cluster: dict[str, object] = {"server": self.url}
        if self._tls:
            cluster["insecure-skip-tls-verify"] = True
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": cluster}],
            "users": [{"name": "user", "user": {"token": token or self.upstream.token or "none"}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "user"}}],
            "current-context": "proxy",
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(document))
        return path

    @contextlib.asynccontextmanager
    async def upstream_request(self, seen: Seen) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request on; used by :class:`Exchange`."""
        async with self._session.request(
            seen.method,
            URL(self.upstream.url + seen.target, encoded=True),
            data=seen.body or None,
            headers=_end_to_end(seen.headers),
            ssl=self._upstream_tls,
            allow_redirects=False,
        ) as answer:
            yield answer

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self._transports.add(request.transport)
        seen = Seen(
            method=request.method,
            path=request.path,
            target=request.raw_path,
            query=dict(request.query),
            headers=request.headers,
            body=await request.read(),
        )
        self.seen.append(seen)
        exchange = Exchange(self, request, seen)
        for rule in self.rules:
            if rule.matches(seen):
                rule.used += 1
                return await rule.fault(exchange)
        try:
            return await _forward(exchange)
        except aiohttp.ClientError:
            # The API server behind is gone, or has ended a stream in the middle: so does this one.
            return exchange.cut()

    async def bridge(self, exchange: Exchange) -> web.WebSocketResponse:
        """Join two WebSockets, as ``exec`` needs it; used by :class:`Exchange`."""
        request = exchange.request
        protocols = [name.strip() for name in request.headers.get("Sec-WebSocket-Protocol", "").split(",") if name]
        headers = {
            name: value for name, value in _end_to_end(request.headers).items() if not name.startswith("Sec-WebSocket")
        }
        async with self._session.ws_connect(
            URL(self.upstream.url + exchange.seen.target, encoded=True),
            protocols=protocols,
            headers=headers,
            ssl=self._upstream_tls,
            max_msg_size=0,
        ) as server:
            client = web.WebSocketResponse(protocols=[server.protocol] if server.protocol else [], max_msg_size=0)
            await client.prepare(request)
            exchange.seen.status = 101
            pumps = [asyncio.create_task(self._pump(*pair)) for pair in ((client, server), (server, client))]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
            await client.close()
            return client

    async def _pump(self, source: _WebSocket, target: _WebSocket) -> None:
        while True:
            message = await source.receive()
            await self.flowing.wait()
            if message.type is aiohttp.WSMsgType.BINARY:
                await target.send_bytes(message.data)
            elif message.type is aiohttp.WSMsgType.TEXT:
                await target.send_str(message.data)
            else:
                return


_WebSocket = aiohttp.ClientWebSocketResponse | web.WebSocketResponse


async def _forward(exchange: Exchange) -> web.StreamResponse:
    return await exchange.forward()


def _end_to_end(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}
