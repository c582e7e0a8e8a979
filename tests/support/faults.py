"""Ready-made faults for :class:`tests.support.proxy.FaultProxy`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import orjson
from aiohttp import web

from tests.support.proxy import CutError, Exchange, Fault, LineEdit

HTML_503 = b"<html><head><title>503 Service Temporarily Unavailable</title></head><body>nginx</body></html>"


def answer(status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Fault:
    """Answer without asking the API server."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        return await exchange.respond(status, body, headers or {"Content-Type": "text/plain"})

    return fault


def status(code: int, reason: str, message: str = "made by the proxy", **details: object) -> Fault:
    """Answer with a ``Status`` object, as the API server itself does."""
    document = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": details,
        "code": code,
    }
    return answer(code, orjson.dumps(document), {"Content-Type": "application/json"})


def too_many_requests(retry_after: int) -> Fault:
    """What the API server's own flow control says: plain text and a header."""
    headers = {"Retry-After": str(retry_after), "Content-Type": "text/plain; charset=utf-8"}
    return answer(429, b"Too many requests, please try again later.\n", headers)


def html(code: int = 503) -> Fault:
    """What a load balancer in front of the API server says."""
    return answer(code, HTML_503, {"Content-Type": "text/html"})


async def cut(exchange: Exchange) -> web.StreamResponse:
    """Reset the connection before the API server is asked."""
    return exchange.cut()


async def cut_after(exchange: Exchange) -> web.StreamResponse:
    """Let the API server do it, and reset the connection before its answer."""
    await exchange.ask()
    return exchange.cut()


def answer_after(code: int, body: bytes = b"") -> Fault:
    """Let the API server do it, and answer something else, as a gateway that ran out of patience does."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        await exchange.ask()
        return await exchange.respond(code, body, {"Content-Type": "text/plain"})

    return fault


async def silence(exchange: Exchange) -> web.StreamResponse:
    """Take the request and never answer."""
    await asyncio.Event().wait()
    return exchange.cut()


def held(until: asyncio.Event) -> Fault:
    """Send the request on only when the event is set."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        await until.wait()
        return await exchange.forward()

    return fault


def held_back(until: asyncio.Event) -> Fault:
    """Send the request on at once and give the answer only when the event is set."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        code, headers, body = await exchange.ask()
        await until.wait()
        return await exchange.respond(code, body, headers)

    return fault


def edited(edit: Callable[[dict[str, object]], object]) -> Fault:
    """Let ``edit`` change the JSON object of a successful answer."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        code, headers, body = await exchange.ask()
        if code == 200:
            document = orjson.loads(body)
            edit(document)
            body = orjson.dumps(document)
        return await exchange.respond(code, body, headers)

    return fault


def lines(edit: LineEdit) -> Fault:
    """Let ``edit`` change each line of a watch: it yields what the client gets instead."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        return await exchange.stream(edit)

    return fault


def watch_then(*data: bytes, end: bool = True) -> Fault:
    """A watch that says just this and then ends, or hangs."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        exchange.seen.status = 200
        await response.prepare(exchange.request)
        for piece in data:
            await response.write(piece)
        if not end:
            await asyncio.Event().wait()
        await response.write_eof()
        return response

    return fault


def event(kind: str, document: Mapping[str, object]) -> bytes:
    """One line of a watch."""
    return orjson.dumps({"type": kind, "object": document}) + b"\n"


async def cut_mid_event(line: bytes) -> AsyncIterator[bytes]:
    """Give half of the first event, and reset the connection."""
    yield line[: len(line) // 2]
    raise CutError


def instead_of_event(data: bytes) -> LineEdit:
    """Give this instead of each event."""

    async def edit(_: bytes) -> AsyncIterator[bytes]:
        yield data

    return edit


async def twice(line: bytes) -> AsyncIterator[bytes]:
    """Give each event twice."""
    yield line
    yield line
