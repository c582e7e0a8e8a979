"""The services as child processes, with their logs in files; each is ended by its own process id."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson

GRACE = 6.0
"""Seconds that a service gets to end by itself; its own limit is a little shorter."""
_POLL = 0.02
_TAIL = 12


class Program:
    """A running service.

    Args:
        name: For people: ``observer``, ``broker of gb200-4gpu``.
        argv: The argument list.
        environ: The whole environment.
        log: The file that standard output and standard error go to.
    """

    def __init__(self, name: str, argv: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("wb") as output:
            # A session of its own: a terminal's Ctrl-C reaches the demonstration alone, which then ends this in order.
            self._process = subprocess.Popen(  # noqa: S603  (our own programs)
                list(argv),
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._held = False

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while it runs, negative after a signal."""
        return self._process.poll()

    def address(self) -> str | None:
        """The base URL of its health and metrics, as soon as its log tells it."""
        for line in self.log.read_bytes().splitlines():
            with contextlib.suppress(orjson.JSONDecodeError):
                event = orjson.loads(line)
                if isinstance(event, dict) and isinstance(event.get("port"), int):
                    return f"http://127.0.0.1:{event['port']}"
        return None

    def tail(self) -> tuple[str, ...]:
        """The last lines of its log."""
        return tuple(self.log.read_bytes().decode("utf-8", "replace").splitlines()[-_TAIL:])

    def hold(self) -> None:
        """Let it do nothing, as if its machine had stalled."""
        self._held = True
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._held = False
        self._process.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Ask it to end; a program that has ended is left alone."""
        self._process.terminate()
        if self._held:
            self.resume()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    async def ended(self, within: float = GRACE) -> int:
        """Wait for its end; kill it if it does not come.

        Returns:
            Its exit code.
        """
        deadline = time.monotonic() + within
        while (code := self.exit_code) is None:
            if time.monotonic() > deadline:
                self.kill()
                return self._process.wait()
            await asyncio.sleep(_POLL)
        return code


class Programs:
    """All services that were started, and the promise that none is left behind.

    Args:
        folder: Where the logs go; must exist.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.running: list[Program] = []

    def start(self, name: str, argv: Sequence[str], environ: Mapping[str, str]) -> Program:
        """Start a service."""
        log = self._folder / f"{name.replace(' ', '-')}.log"
        program = Program(name, argv, environ, log)
        self.running.append(program)
        return program

    async def stop(self, *programs: Program) -> Mapping[str, int]:
        """End some services together.

        Returns:
            Their exit codes by name.
        """
        for program in programs:
            program.terminate()
        codes = {program.name: await program.ended() for program in programs}
        self.running = [program for program in self.running if program not in programs]
        return codes

    def kill(self) -> None:
        """End all services at once; the last resort when there is no time for order."""
        for program in self.running:
            program.kill()
            program.exit_code  # noqa: B018  (reaps it)
