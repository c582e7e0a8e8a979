"""Running a command in a container, through the API server and over a WebSocket.

The library's own exec says "success" for a failed command, a missing program and a cut connection. Here a command has
succeeded only when the server said so on the error channel.

Source: the remote command protocol ``v4.channel.k8s.io`` (k8s.io/apimachinery, pkg/util/remotecommand).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp
import orjson

from nicrails.kube.client import KubeClient, core_path
from nicrails.text import excerpt

PROTOCOL = "v4.channel.k8s.io"
STDOUT, STDERR, ERROR = 1, 2, 3
MAX_STATUS = 64 * 1024
CLOSE_TIMEOUT = 1.0


class ExecError(Exception):
    """A command in a container did not succeed."""


class ExecExitError(ExecError):
    """The command ran and ended with another exit code than 0.

    Attributes:
        exit_code: As the container runtime reported it.
        stdout: What it had written, up to the cap.
        stderr: As stdout.
    """

    def __init__(self, message: str, *, exit_code: int, stdout: bytes, stderr: bytes) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.stdout = stdout
        self.stderr = stderr


class ExecTimeoutError(ExecError):
    """No end within the time limit; the process in the container may still be running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecOutput:
    """The complete output of a command that succeeded."""

    stdout: bytes
    stderr: bytes


async def exec_in_pod(
    client: KubeClient,
    *,
    namespace: str,
    pod: str,
    container: str,
    command: Sequence[str],
    time_limit: float,
    max_output: int,
) -> ExecOutput:
    """Run a command without standard input and return its output.

    Args:
        client: Needs ``get`` on ``pods/exec``, and ``create`` from Kubernetes 1.35.
        namespace: Of the pod.
        pod: Its name.
        container: Its container's name; a pod with several has no default.
        command: The argument list; no shell is involved.
        time_limit: Seconds from the request to the end of the command.
        max_output: Bytes of stdout, and of stderr, after which the command counts as broken.

    Raises:
        ExecError: The command failed, was cut off, or wrote too much.
        ApiError: The API server or the kubelet did not start it.
    """
    what = f"{' '.join(command)!r} in pod {namespace}/{pod}"
    query = [("container", container), ("stdout", "true"), ("stderr", "true")]
    query += [("command", argument) for argument in command]
    try:
        async with asyncio.timeout(time_limit):
            socket = await client.websocket(
                core_path(namespace, "pods", pod, "exec"), query, {"sec-websocket-protocol": PROTOCOL}
            )
            try:
                return await _receive(socket, what, max_output)
            finally:
                await _close(socket)
    except TimeoutError as error:
        raise ExecTimeoutError(f"{what} did not end within {time_limit:g} s") from error


async def _receive(socket: aiohttp.ClientWebSocketResponse, what: str, max_output: int) -> ExecOutput:
    channels = {STDOUT: bytearray(), STDERR: bytearray(), ERROR: bytearray()}
    while True:
        message = await socket.receive()
        if message.type is aiohttp.WSMsgType.BINARY:
            data: bytes = message.data
        elif message.type is aiohttp.WSMsgType.TEXT:
            data = message.data.encode()
        else:
            # The close code says nothing: 1000 and 1006 both follow the same success.
            break
        buffer = channels.get(data[0]) if data else None
        if buffer is None:
            continue
        buffer += data[1:]
        if len(buffer) > (MAX_STATUS if buffer is channels[ERROR] else max_output):
            raise ExecError(
                f"{what} wrote more than {max_output} bytes; output of this size is not that of the command"
            )
    return _judge(what, bytes(channels[STDOUT]), bytes(channels[STDERR]), bytes(channels[ERROR]))


def _judge(what: str, stdout: bytes, stderr: bytes, status: bytes) -> ExecOutput:
    if not status:
        raise ExecError(f"the connection to {what} was cut before the command's end was reported")
    try:
        document = orjson.loads(status)
    except orjson.JSONDecodeError as error:
        raise ExecError(f"{what}: the runtime's report is not JSON: {excerpt(status)}") from error
    if not isinstance(document, dict):
        raise ExecError(f"{what}: the runtime's report is not a Status: {excerpt(status)}")
    if document.get("status") == "Success":
        return ExecOutput(stdout=stdout, stderr=stderr)
    said = excerpt(stderr) or excerpt(stdout)
    words = f": {said}" if said else ""
    exit_code = _exit_code(document)
    if exit_code is not None:
        raise ExecExitError(
            f"{what} ended with exit code {exit_code}{words}", exit_code=exit_code, stdout=stdout, stderr=stderr
        )
    raise ExecError(f"{what} was not run: {excerpt(str(document.get('message', 'no reason given')))}")


def _exit_code(document: dict[str, object]) -> int | None:
    details = document.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    for cause in causes if isinstance(causes, list) else []:
        if isinstance(cause, dict) and cause.get("reason") == "ExitCode":
            text = str(cause.get("message", ""))
            return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
    return None


async def _close(socket: aiohttp.ClientWebSocketResponse) -> None:
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT):
            await socket.close()
    except (TimeoutError, aiohttp.ClientError, OSError):
        # A peer that does not answer the closing handshake changes nothing about the result.
        return
