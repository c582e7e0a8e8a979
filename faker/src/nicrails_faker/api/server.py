"""HTTP: takes requests through faults, tokens and authorisation, and sends what the endpoints answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace

import orjson
from aiohttp import web

from nicrails_faker.api import actions, decoding, discovery, execs, requests, status, watching
from nicrails_faker.api.endpoints import Asked, Endpoints
from nicrails_faker.api.execs import ExecHandler
from nicrails_faker.api.faults import Faults
from nicrails_faker.api.operations import Operations
from nicrails_faker.api.requests import LoggedRequest, RequestInfo

Authorize = Callable[[RequestInfo], str | None]
"""Returns None to allow a request, else the sentence of the refusal; an empty one stands for the server's own."""

ANONYMOUS = "system:anonymous"
EVERYBODY = "system:admin"
"""The user of every request while there are no tokens."""

_HEALTH = frozenset({"/livez", "/readyz", "/healthz"})
_PUBLIC = _HEALTH | {"/version"}
"""What may be read without a token."""


class Server:
    """One API server; its attributes may be changed while it runs.

    Attributes:
        tokens: Bearer token → user name; None: everybody is let in.
        authorize: Asked about every request that is not public; None: everything is allowed.
        exec_handler: Runs commands in containers; None: no kubelet answers.
        bookmark_interval: Seconds between bookmarks.
        faults: The faults in force.
        log: The latest requests.
        address: ``host:port``, once it listens.
    """

    def __init__(self, operations: Operations, *, log_size: int) -> None:
        self.tokens: Mapping[str, str] | None = None
        self.authorize: Authorize | None = None
        self.exec_handler: ExecHandler | None = None
        self.bookmark_interval = 60.0
        self.faults = Faults()
        self.log = requests.RequestLog(log_size)
        self.address = ""
        self._operations = operations
        self._endpoints = Endpoints(operations)
        self._closing = asyncio.Event()
        self._watches: set[watching.Watch] = set()

    def open(self, address: str) -> None:
        """Begin, or begin again, at ``host:port``."""
        self.address = address
        self._closing.clear()

    def close_streams(self) -> None:
        """End all watches and hanging requests in order, so that the server can go."""
        self._closing.set()
        for watch in self._watches:
            watch.stop()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one request."""
        info = requests.parse(request.method, request.rel_url.raw_path, _first_values(request))
        logged = LoggedRequest(info=info, headers=request.headers.copy())
        self.log.append(logged)
        try:
            return await self._disturbed(request, logged)
        except actions.CutConnectionError:
            execs.cut(request)
            raise asyncio.CancelledError from None
        finally:
            logged.finished = True

    async def _disturbed(self, request: web.Request, logged: LoggedRequest) -> web.StreamResponse:
        action = self.faults.strike(logged.info)
        match action:
            case actions.Respond():
                logged.request_bytes = len(await request.read())
                return _scripted(action, logged)
            case actions.Cut():
                raise actions.CutConnectionError
            case actions.Hang():
                await self._pause(action.seconds)
        try:
            answer = await self._serve(request, logged, action)
        except status.StatusError as exc:
            answer = _json(orjson.dumps(exc.status), exc.code, logged, list(exc.headers.items()))
        if isinstance(action, actions.LoseAnswer):
            if action.instead is None:
                raise actions.CutConnectionError
            return _scripted(action.instead, logged)
        return answer

    async def _pause(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            return
        raise actions.CutConnectionError

    async def _serve(
        self, request: web.Request, logged: LoggedRequest, action: actions.Action | None
    ) -> web.StreamResponse:
        info = logged.info = self._authenticated(request, logged.info)
        self._check_access(info)
        if not info.resource or not self._operations.table.has_group(info.group):
            return self._document(info, logged)
        resource = self._endpoints.resource(info)
        if info.subresource == "exec":
            return await self._exec(request, logged)
        body = await _body(request)
        logged.request_bytes = len(body)
        asked = Asked(
            info=info,
            resource=resource,
            accept=request.headers.get("Accept", ""),
            content_type=request.headers.get("Content-Type", ""),
            user_agent=request.headers.get("User-Agent", ""),
            body=body,
        )
        try:
            if info.verb == "watch":
                return await self._watch(request, asked, logged, action)
            answer = self._endpoints.answer(asked)
        except RecursionError as exc:
            raise status.bad_request("exceeded max depth") from exc
        warnings = [("Warning", f'299 - "{_escaped(text)}"') for text in answer.warnings]
        return _json(answer.body, answer.code, logged, warnings)

    def _authenticated(self, request: web.Request, info: RequestInfo) -> RequestInfo:
        if self.tokens is None:
            return replace(info, user=EVERYBODY)
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return replace(info, user=ANONYMOUS)
        user = self.tokens.get(token.strip())
        if user is None:
            raise status.unauthorized()
        return replace(info, user=user)

    def _check_access(self, info: RequestInfo) -> None:
        if info.path in _PUBLIC:
            return
        denial = "" if info.user == ANONYMOUS else self.authorize(info) if self.authorize is not None else None
        if denial is not None:
            subject = status.Subject(group=info.group, resource=info.resource)
            raise status.forbidden(subject, info.name, denial or info.denial())

    def _document(self, info: RequestInfo, logged: LoggedRequest) -> web.StreamResponse:
        if info.path in _HEALTH:
            return _text("ok", 200, logged)
        if info.method not in {"GET", "HEAD"}:
            raise status.method_not_allowed()
        found = discovery.document(self._operations.table, info.path.rstrip("/"), self.address)
        if found is None:
            return _text("404 page not found\n", 404, logged)
        return _json(orjson.dumps(found), 200, logged)

    async def _exec(self, request: web.Request, logged: LoggedRequest) -> web.StreamResponse:
        info = logged.info
        wanted = execs.ExecRequest(
            namespace=info.namespace,
            pod=info.name,
            container=info.query.get("container", ""),
            command=tuple(request.query.getall("command", [])),
        )
        asked = execs.locate(self._operations, wanted)
        if not execs.is_upgrade(request):
            raise status.bad_request("Upgrade request required")
        if self.exec_handler is None:
            raise status.internal("error dialing backend: the embedded cluster has no exec handler")
        logged.status = 101
        return await execs.serve(request, asked, self.exec_handler, logged)

    async def _watch(
        self, request: web.Request, asked: Asked, logged: LoggedRequest, action: actions.Action | None
    ) -> web.StreamResponse:
        watch = self._endpoints.watch(asked, self.bookmark_interval)
        response = web.StreamResponse(
            headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
        )
        response.enable_chunked_encoding()
        self._watches.add(watch)
        try:
            await response.prepare(request)
            logged.status = 200
            async with aclosing(watch.lines()) as lines:
                if isinstance(action, actions.WatchAction):
                    async with aclosing(action.apply(lines)) as changed:
                        await _stream(response, changed, logged)
                else:
                    await _stream(response, lines, logged)
        finally:
            self._watches.discard(watch)
        return response


async def _stream(response: web.StreamResponse, lines: AsyncIterator[bytes], logged: LoggedRequest) -> None:
    try:
        async for line in lines:
            await response.write(line)
            logged.response_bytes += len(line)
        await response.write_eof()
    except ConnectionError:
        # The client has gone, and nobody is left to be told.
        return


def _first_values(request: web.Request) -> dict[str, str]:
    query: dict[str, str] = {}
    for name, value in request.rel_url.query.items():
        query.setdefault(name, value)
    return query


async def _body(request: web.Request) -> bytes:
    data = bytearray()
    async for chunk in request.content.iter_any():
        data += chunk
        if len(data) > decoding.MAX_BODY:
            raise status.too_large(f"limit is {decoding.MAX_BODY}")
    return bytes(data)


def _scripted(answer: actions.Respond, logged: LoggedRequest) -> web.Response:
    logged.status, logged.response_bytes = answer.status, len(answer.encoded)
    headers = {"Content-Type": answer.media_type, **answer.headers}
    return web.Response(status=answer.status, body=answer.encoded, headers=headers)


def _json(body: bytes, code: int, logged: LoggedRequest, headers: list[tuple[str, str]] | None = None) -> web.Response:
    logged.status, logged.response_bytes = code, len(body)
    response = web.Response(
        status=code, body=body, content_type="application/json", headers={"Cache-Control": "no-cache, private"}
    )
    for name, value in headers or []:
        response.headers.add(name, value)
    return response


def _text(text: str, code: int, logged: LoggedRequest) -> web.Response:
    logged.status, logged.response_bytes = code, len(text)
    return web.Response(status=code, text=text)


def _escaped(text: str) -> str:
    """Text inside the quotes of a header: without control characters, which would end it."""
    printable = "".join(character if character.isprintable() else "\ufffd" for character in text)
    return printable.replace("\\", "\\\\").replace('"', '\\"')
