"""``pods/exec`` over a WebSocket: the refusals of the API server, and a handler in the place of kubelet and container.

Source: pkg/registry/core/pod/strategy.go of kubernetes (refusals); k8s.io/kubelet, remotecommand, and kubelet 1.36 with
containerd 2.2 (frames and statuses).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
from aiohttp import web

from nicrails_faker.api import status
from nicrails_faker.api.operations import Operations
from nicrails_faker.api.requests import LoggedRequest

Json = dict[str, Any]

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
"""They differ in how a client ends standard input, which is not read here."""
STDOUT, STDERR, ERROR = 1, 2, 3
MAX_FRAME = 8192
"""Bytes of output in one message, about as many as a kubelet sends."""
MAX_HANDSHAKE = 2.0
"""Seconds to wait for the client's part of the closing handshake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecRequest:
    """One command to run.

    Attributes:
        namespace: The pod's namespace.
        pod: The pod's name.
        container: The container's name; the pod's only one if the client named none.
        command: The argument list.
    """

    namespace: str
    pod: str
    container: str
    command: tuple[str, ...]


class ExecIO:
    """The container's end of an exec.

    Attributes:
        gone: Set when the client has gone.
    """

    def __init__(self, request: web.Request, websocket: web.WebSocketResponse, logged: LoggedRequest) -> None:
        self._request = request
        self._socket = websocket
        self._logged = logged
        self._judged = False
        self.gone = asyncio.Event()

    @property
    def judged(self) -> bool:
        """Whether the outcome was sent."""
        return self._judged

    async def stdout(self, data: bytes) -> None:
        """Write to standard output, in messages of the usual length."""
        await self._write(STDOUT, data)

    async def stderr(self, data: bytes) -> None:
        """Write to standard error."""
        await self._write(STDERR, data)

    async def message(self, channel: int, data: bytes) -> None:
        """Send one message on any channel, as it is."""
        self._judged = self._judged or channel == ERROR
        await self._socket.send_bytes(bytes([channel]) + data)
        self._logged.response_bytes += len(data) + 1

    async def status(self, document: Mapping[str, Any]) -> None:
        """Report the outcome as this ``Status``."""
        await self.message(ERROR, orjson.dumps(dict(document)))

    async def exit(self, code: int) -> None:
        """Report that the command has ended with this exit code."""
        await self.status(exit_status(code))

    async def hang(self) -> None:
        """Wait until the client has gone."""
        await self.gone.wait()

    def abort(self) -> None:
        """Cut the connection without a word; what was written before still arrives."""
        cut(self._request)
        self._judged = True

    async def end(self) -> None:
        """Leave the outcome unsaid and close in order."""
        self._judged = True
        await self._socket.close()

    async def _write(self, channel: int, data: bytes) -> None:
        for start in range(0, len(data), MAX_FRAME):
            await self.message(channel, data[start : start + MAX_FRAME])


ExecHandler = Callable[[ExecRequest, ExecIO], Awaitable[int | None]]
"""Runs a command; the exit code that it returns is reported unless it has reported something itself, None is 0.

``FileNotFoundError`` is reported as a program that the container does not have.
"""


def exit_status(code: int) -> Json:
    """The ``Status`` of a command that has ended with this code."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def missing_program(name: str) -> Json:
    """The ``Status`` of a command whose program the container does not have."""
    cause = (
        "error executing command in container: failed to exec in container: failed to start exec: OCI runtime exec"
        f' failed: exec failed: unable to start container process: exec: "{name}": executable file not found in $PATH'
    )
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {cause}",
        "reason": "InternalError",
        "details": {"causes": [{"message": cause}]},
        "code": 500,
    }


def cut(request: web.Request) -> None:
    """End a connection as a killed process does."""
    transport = request.transport
    if transport is None:
        return
    raw = transport.get_extra_info("socket")
    if raw is not None:
        # The client may have been faster.
        with contextlib.suppress(OSError):
            raw.shutdown(socket.SHUT_RDWR)
    transport.abort()


def locate(operations: Operations, wanted: ExecRequest) -> ExecRequest:
    """Find out where a command is to be run.

    Args:
        operations: To find pod and Node.
        wanted: What the client asks for; its container may be empty.

    Returns:
        The same, with the container's name.

    Raises:
        StatusError: 400 or 404, as the server refuses such a request before it turns to a kubelet.
    """
    pods, nodes = operations.table.named("v1", "pods"), operations.table.find("", "v1", "nodes")
    pod, container = wanted.pod, wanted.container
    spec = operations.get(pods, (wanted.namespace, pod)).document.get("spec", {})
    regular = [item.get("name", "") for item in spec.get("containers", ())]
    names = [*(item.get("name", "") for item in spec.get("initContainers", ())), *regular]
    if not container:
        if len(regular) != 1:
            choice = f", choose one of: [{' '.join(names)}]" if regular else ""
            raise status.bad_request(f"a container name must be specified for pod {pod}{choice}")
        container = regular[0]
    elif container not in names:
        raise status.bad_request(f"container {container} is not valid for pod {pod}")
    node = spec.get("nodeName", "")
    if not node:
        raise status.bad_request(f"pod {pod} does not have a host assigned")
    if nodes is not None and operations.store.find(nodes, ("", node)) is None:
        # The server takes the Node's absence for the pod's.
        raise status.not_found(pods.subject, node)
    return replace(wanted, container=container)


def is_upgrade(request: web.Request) -> bool:
    """Whether the client asks for a WebSocket."""
    connection = request.headers.get("Connection", "").lower()
    return "upgrade" in connection and request.headers.get("Upgrade", "").lower() == "websocket"


async def serve(
    request: web.Request, asked: ExecRequest, handler: ExecHandler, logged: LoggedRequest
) -> web.WebSocketResponse:
    """Upgrade the connection and let the handler run; the bytes sent are counted in ``logged``."""
    websocket = web.WebSocketResponse(protocols=PROTOCOLS, timeout=MAX_HANDSHAKE)
    await websocket.prepare(request)
    io = ExecIO(request, websocket, logged)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(_run(asked, io, handler), name=f"exec in {asked.namespace}/{asked.pod}")
        # Standard input is read and dropped, so that the client's going is noticed.
        async for _ in websocket:
            pass
        io.gone.set()
        await asyncio.sleep(0)
        running.cancel()
    return websocket


async def _run(asked: ExecRequest, io: ExecIO, handler: ExecHandler) -> None:
    try:
        # The kubelet says by an empty message that the stream stands.
        await io.message(STDOUT, b"")
        outcome = await _outcome(asked, io, handler)
        if not io.judged:
            await io.status(outcome)
        await io.end()
    except ConnectionError:
        # The client has seen enough.
        return


async def _outcome(asked: ExecRequest, io: ExecIO, handler: ExecHandler) -> Json:
    try:
        return exit_status(await handler(asked, io) or 0)
    except FileNotFoundError:
        return missing_program(asked.command[0] if asked.command else "")
    except ConnectionError:
        raise
    except Exception as exc:  # noqa: BLE001 - a handler is foreign code; its failure is the container runtime's
        return status.internal(f"Internal error occurred: {type(exc).__name__}: {exc}").status
