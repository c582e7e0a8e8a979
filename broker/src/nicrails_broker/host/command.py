"""Running a program on the host with a time limit and an output cap, and never leaving it behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

STDOUT, STDERR = 1, 2
REAP_TIMEOUT = 2.0
"""Seconds to wait for the end of a killed program; one that hangs in the kernel can not be waited for."""


class CommandError(Exception):
    """A program could not be run to its end."""


class CommandTimeoutError(CommandError):
    """The program did not end in time and was killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a program that ended has written.

    Attributes:
        status: Its exit status; negative is the number of the signal that ended it.
        stdout: Bytes.
        stderr: Bytes.
    """

    status: int
    stdout: bytes
    stderr: bytes


class CommandRunner(Protocol):
    """Runs a program; :func:`run_command`, or a stand-in."""

    async def __call__(self, argv: Sequence[str], *, time_limit: float, max_output: int) -> Output:
        """See :func:`run_command`."""


async def run_command(argv: Sequence[str], *, time_limit: float, max_output: int) -> Output:
    """Run a program without standard input, in a process group of its own, and read both of its outputs.

    The end of a program is the end of its output: a child that it leaves behind with an open pipe counts as the program
    still running. However this ends, nothing of the process group lives on.

    Args:
        argv: The program and its arguments; no shell is involved.
        time_limit: Seconds from start to end.
        max_output: Bytes of standard output, and of standard error, after which the program is killed.

    Raises:
        CommandTimeoutError: No end within the limit.
        CommandError: The program can not be started, or wrote too much.
    """
    loop = asyncio.get_running_loop()
    try:
        transport, capture = await loop.subprocess_exec(
            lambda: _Capture(max_output),
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise CommandError(f"can not run {argv[0]}: {error.strerror}") from error
    try:
        async with asyncio.timeout(time_limit):
            await capture.finished
    except TimeoutError as error:
        raise CommandTimeoutError(f"{' '.join(argv)!r} did not end within {time_limit:g} s and was killed") from error
    except OverflowError as error:
        raise CommandError(
            f"{' '.join(argv)!r} wrote more than {max_output} bytes and was killed; output of this size is not its own"
        ) from error
    finally:
        if not capture.finished.done() or capture.finished.cancelled() or capture.finished.exception() is not None:
            # While a member of the group lives its number is not given to another, and an open pipe says one may live.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(transport.get_pid(), signal.SIGKILL)
        transport.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REAP_TIMEOUT):
                await capture.reaped.wait()
    status = transport.get_returncode()
    return Output(
        status=-signal.SIGKILL if status is None else status,
        stdout=bytes(capture.buffers[STDOUT]),
        stderr=bytes(capture.buffers[STDERR]),
    )


class _Capture(asyncio.SubprocessProtocol):
    """Collects both outputs as they come.

    Attributes:
        buffers: Bytes so far, by file descriptor.
        finished: Set when the program has ended and both pipes are closed, or a cap was passed.
        reaped: Set when the process is no more.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.buffers = {STDOUT: bytearray(), STDERR: bytearray()}
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.reaped = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        buffer = self.buffers[fd]
        if self.finished.done():
            return
        buffer += data
        if len(buffer) > self._limit:
            self.finished.set_exception(OverflowError())

    def process_exited(self) -> None:
        self.reaped.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (the protocol's signature)
        if not self.finished.done():
            self.finished.set_result(None)
