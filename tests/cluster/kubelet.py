"""A kubelet that answers nothing but ``exec``, for faults that no real kubelet produces on demand.

The API server dials it by the Node's ``status.addresses`` and ``status.daemonEndpoints`` and proxies the client's
WebSocket (``v4.channel.k8s.io``) to it. What a real kubelet sends is taken from its ``remotecommand`` package and from
watching kubelet 1.36 with containerd 2.2.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from aiohttp import WSMsgType, web

from tests.cluster.pki import KeyPair
from tests.support.ports import release_port, reserve_port

PROTOCOL = "v4.channel.k8s.io"
STDOUT, STDERR, ERROR = 1, 2, 3
"""Channel numbers: the first byte of every message."""

SUCCESS = {"metadata": {}, "status": "Success"}
_FRAME = 8192
"""The real kubelet's frames are about this long."""

_CLOSED = {WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.CLOSING, WSMsgType.ERROR}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exec:
    """One exec that was asked for.

    Attributes:
        client: The common name of the certificate that the API server showed.
        over: Set when this exec's connection is over, by either side.
    """

    namespace: str
    pod: str
    container: str
    command: tuple[str, ...]
    client: str
    stdin: bool
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Stream:
    """The kubelet's end of an exec; what an answer writes to."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._socket = web.WebSocketResponse(protocols=[PROTOCOL])

    async def open(self) -> web.WebSocketResponse:
        """Complete the upgrade and say, as the real one does by an empty message, that the stream stands."""
        await self._socket.prepare(self._request)
        await self.send(STDOUT, b"")
        return self._socket

    async def send(self, channel: int, data: bytes) -> None:
        """One message."""
        await self._socket.send_bytes(bytes([channel]) + data)

    async def write(self, channel: int, data: bytes) -> None:
        """Data in messages of the usual length."""
        for start in range(0, len(data), _FRAME):
            await self.send(channel, data[start : start + _FRAME])

    async def status(self, status: Mapping[str, object]) -> None:
        """The outcome, on the error channel."""
        await self.send(ERROR, json.dumps(status, separators=(",", ":")).encode())

    async def until_closed(self) -> None:
        """Wait until the client has gone."""
        while (await self._socket.receive()).type not in _CLOSED:
            pass

    def cut(self) -> None:
        """End the connection without a word, as a killed kubelet does: what was written before still arrives."""
        assert self._request.transport is not None
        self._request.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        self._request.transport.abort()


Answer = Callable[[Stream], Awaitable[None]]
"""What happens after the upgrade; the connection is closed (1000) when it returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An answer instead of the upgrade."""

    status: int
    body: str = ""


def succeeds(stdout: bytes, stderr: bytes = b"") -> Answer:
    """The command ran and exited with 0."""

    async def answer(stream: Stream) -> None:
        await stream.write(STDERR, stderr)
        await stream.write(STDOUT, stdout)
        await stream.status(SUCCESS)

    return answer


def succeeds_in(pieces: Sequence[bytes], channel: int = STDOUT) -> Answer:
    """The command ran and its output came in exactly these messages, for text cut within a character."""

    async def answer(stream: Stream) -> None:
        for piece in pieces:
            await stream.send(channel, piece)
        await stream.status(SUCCESS)

    return answer


def half(stdout: bytes) -> Answer:
    """The runtime lost the second half of the output and says ``Success``."""
    return succeeds(stdout[: len(stdout) // 2])


def exits(code: int, stdout: bytes = b"", stderr: bytes = b"") -> Answer:
    """The command ran and exited with another code."""
    status = {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }

    async def answer(stream: Stream) -> None:
        await stream.write(STDERR, stderr)
        await stream.write(STDOUT, stdout)
        await stream.status(status)

    return answer


def missing_binary(name: str) -> Answer:
    """The container has no such program: the status is a 500."""
    cause = (
        "error executing command in container: failed to exec in container: failed to start exec: OCI runtime exec"
        f' failed: exec failed: unable to start container process: exec: "{name}": executable file not found in $PATH'
    )
    status = {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {cause}",
        "reason": "InternalError",
        "details": {"causes": [{"message": cause}]},
        "code": 500,
    }

    async def answer(stream: Stream) -> None:
        await stream.status(status)

    return answer


def cut(stdout: bytes) -> Answer:
    """The connection ends without a word after this much output."""

    async def answer(stream: Stream) -> None:
        await stream.write(STDOUT, stdout)
        stream.cut()

    return answer


def no_status(stdout: bytes) -> Answer:
    """The stream closes in order, without a word about the outcome."""

    async def answer(stream: Stream) -> None:
        await stream.write(STDOUT, stdout)

    return answer


def hangs(stdout: bytes = b"") -> Answer:
    """This much output, then nothing until the client gives up."""

    async def answer(stream: Stream) -> None:
        await stream.write(STDOUT, stdout)
        await stream.until_closed()

    return answer


def floods(size: int, channel: int = STDOUT, stdout: bytes = b"") -> Answer:
    """``size`` bytes on one channel, then ``stdout`` and success, if the client still listens."""
    piece = b"All work and no play makes Jack a dull boy.\n" * 744

    async def answer(stream: Stream) -> None:
        for _ in range(size // len(piece) + 1):
            await stream.send(channel, piece)
        await stream.write(STDOUT, stdout)
        await stream.status(SUCCESS)

    return answer


class FakeKubelet:
    """A TLS server for ``/exec/{namespace}/{pod}/{container}``; ``running`` makes one.

    Attributes:
        port: Where it listens on 127.0.0.1.
        asked: Every exec so far, oldest first.
        most_at_once: The largest number of execs that were open at the same time.
    """

    def __init__(self, serving: KeyPair, authority: str) -> None:
        self.port = reserve_port()
        self.asked: list[Exec] = []
        self.most_at_once = 0
        self._open = 0
        self._answers: dict[tuple[str, ...], list[Answer | Refusal]] = {}
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority)
        self._tls.verify_mode = ssl.CERT_REQUIRED  # as the real one: nobody but the API server gets in
        self._tls.load_cert_chain(serving.certificate, serving.key)
        self._runner: web.AppRunner | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, serving: KeyPair, authority: str) -> AsyncIterator[Self]:
        """A kubelet with this certificate that lets in who has one of ``authority`` (a PEM file)."""
        kubelet = cls(serving, authority)
        await kubelet.start()
        try:
            yield kubelet
        finally:
            await kubelet.stop()
            release_port(kubelet.port)

    async def start(self) -> None:
        """Listen."""
        app = web.Application()
        app.router.add_get("/exec/{namespace}/{pod}/{container}", self._exec)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self._tls).start()

    async def stop(self) -> None:
        """End every stream and refuse connections from now on."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def answers(self, command: Sequence[str], *answers: Answer | Refusal) -> None:
        """Answer ``command`` by these in turn and then for ever by the last; a command nobody scripted is missing."""
        self._answers[tuple(command)] = list(answers)

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        # The API server's connection carries its certificate; its subject is ((('commonName', 'x'),), …).
        subject = request.get_extra_info("peercert")["subject"]
        asked = Exec(
            namespace=request.match_info["namespace"],
            pod=request.match_info["pod"],
            container=request.match_info["container"],
            command=tuple(request.query.getall("command", [])),
            client=next(value for part in subject for name, value in part if name == "commonName"),
            stdin=request.query.get("input") == "1",
        )
        self.asked.append(asked)
        self._open += 1
        self.most_at_once = max(self.most_at_once, self._open)
        try:
            return await self._answer(request, asked)
        finally:
            self._open -= 1
            asked.over.set()

    async def _answer(self, request: web.Request, asked: Exec) -> web.StreamResponse:
        scripted = self._answers.get(asked.command, [missing_binary(asked.command[0] if asked.command else "")])
        answer = scripted.pop(0) if len(scripted) > 1 else scripted[0]
        if isinstance(answer, Refusal):
            return web.Response(status=answer.status, text=answer.body)
        stream = Stream(request)
        upgraded = await stream.open()
        # A client that has seen enough goes away in the middle; that is its right.
        with contextlib.suppress(ConnectionError):
            await answer(stream)
            await upgraded.close()
        return upgraded
