from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import aiohttp
import orjson
import pytest
from aiohttp import web

from nicrails.kube import (
    ApiError,
    ExecError,
    ExecExitError,
    ExecOutput,
    ExecTimeoutError,
    ForbiddenError,
    KubeClient,
    NotFoundError,
    ServerFaultError,
    exec_in_pod,
)
from tests.shared.serving import scripted

Script = Callable[[web.WebSocketResponse], Awaitable[None]]
SUCCESS = b'\x03{"metadata":{},"status":"Success"}'


def _failure(code: str) -> bytes:
    return b"\x03" + orjson.dumps(
        {
            "status": "Failure",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": code}]},
        }
    )


async def _run(client: KubeClient, *, time_limit: float = 10.0, max_output: int = 100_000) -> ExecOutput:
    return await exec_in_pod(
        client,
        namespace="gpu-operator",
        pod="driver",
        container="ctr",
        command=("nvidia-smi", "topo", "-m"),
        time_limit=time_limit,
        max_output=max_output,
    )


async def _exec(script: Script, *, time_limit: float = 10.0, max_output: int = 100_000) -> ExecOutput:
    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.raw_path == (
            "/api/v1/namespaces/gpu-operator/pods/driver/exec?container=ctr&stdout=true&stderr=true"
            "&command=nvidia-smi&command=topo&command=-m"
        )
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        assert socket.ws_protocol == "v4.channel.k8s.io"
        await script(socket)
        return socket

    async with scripted(handler) as (client, _):
        return await _run(client, time_limit=time_limit, max_output=max_output)


async def test_output_of_a_command_that_succeeded() -> None:
    """Frames are put together per channel, also where a character is split over two of them."""

    async def script(socket: web.WebSocketResponse) -> None:
        text = "GPU\tä\n".encode()
        for byte in text:
            await socket.send_bytes(b"\x01" + bytes([byte]))
        await socket.send_bytes(b"\x02warning\n")
        await socket.send_bytes(b"\x01")
        await socket.send_bytes(b"")
        await socket.send_bytes(b"\x09of an unknown channel")
        await socket.send_bytes(SUCCESS)

    assert await _exec(script) == ExecOutput(stdout="GPU\tä\n".encode(), stderr=b"warning\n")


@pytest.mark.parametrize("code", [aiohttp.WSCloseCode.OK, aiohttp.WSCloseCode.INTERNAL_ERROR])
async def test_the_close_code_says_nothing(code: aiohttp.WSCloseCode) -> None:
    """Success is what the error channel said, whatever the WebSocket is closed with."""

    async def script(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\x01out")
        await socket.send_bytes(SUCCESS)
        await socket.close(code=code)

    assert (await _exec(script)).stdout == b"out"


async def test_non_zero_exit() -> None:
    """B6: a command that failed is an error with its exit code and its words."""

    async def script(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\x02Failed to run topology matrix\n")
        await socket.send_bytes(_failure("255"))

    with pytest.raises(ExecExitError, match="exit code 255: Failed to run topology matrix") as error:
        await _exec(script)
    assert error.value.exit_code == 255


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (
            b'\x03{"status":"Failure","message":"exec: nvidia-smi: not found","code":500}',
            "was not run: exec: nvidia-smi: not",
        ),
        (b"\x03not json", "report is not JSON: not json"),
        (b"\x03[1]", "report is not a Status"),
        (b"\x03{}", "was not run: no reason given"),
        (_failure("many"), "was not run"),
        (b"\x03" + b"x" * 100_000, "wrote more than"),
    ],
)
async def test_any_other_report_is_no_success(status: bytes, said: str) -> None:
    """B6: only a Status of Success is a success; a missing program or an odd report is an error with its words."""

    async def script(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\x01complete output\n")
        await socket.send_bytes(status)

    with pytest.raises(ExecError, match=said):
        await _exec(script)


async def test_a_cut_connection() -> None:
    """B6: output without a report of the command's end is not taken for complete."""

    async def script(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\x01half of the ou")

    with pytest.raises(ExecError, match="was cut before the command's end was reported"):
        await _exec(script)


async def test_a_command_that_hangs() -> None:
    """B6: a command that does not end is given up after the time limit, whatever it does with the connection."""

    async def script(_: web.WebSocketResponse) -> None:
        await asyncio.sleep(20)

    started = time.monotonic()
    with pytest.raises(ExecTimeoutError, match=r"did not end within 0\.2 s"):
        await _exec(script, time_limit=0.2)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("channel", [b"\x01", b"\x02"])
async def test_a_flood(channel: bytes) -> None:
    """B6: endless output is cut off at the cap, on either channel."""

    async def script(socket: web.WebSocketResponse) -> None:
        for _ in range(10_000):
            await socket.send_bytes(channel + b"x" * 10_000)

    with pytest.raises(ExecError, match="wrote more than 100000 bytes"):
        await _exec(script)


@pytest.mark.parametrize(
    ("status", "kind"), [(403, ForbiddenError), (404, NotFoundError), (400, ApiError), (500, ServerFaultError)]
)
async def test_refusals_keep_their_words(status: int, kind: type[ApiError]) -> None:
    """B5, B7: the server's reason for not starting a command is not lost in the WebSocket handshake."""

    async def handler(request: web.Request) -> web.StreamResponse:
        message = "upgraded" if request.headers.get("Upgrade") else "the reason in full"
        return web.json_response({"kind": "Status", "message": message, "code": status}, status=status)

    async with scripted(handler) as (client, _):
        with pytest.raises(kind) as error:
            await _run(client)
    assert error.value.status == status
    if status < 500:
        assert error.value.message == "the reason in full"


async def test_a_401_reads_the_token_again() -> None:
    """F4: an exec that is refused for an old token is tried once more with a new one."""

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.headers["Authorization"] != "Bearer renewed":
            return web.json_response({}, status=401)
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        await socket.send_bytes(SUCCESS)
        return socket

    async with scripted(handler) as (client, access):
        access.tokens.append("renewed")
        assert await _run(client) == ExecOutput(stdout=b"", stderr=b"")
