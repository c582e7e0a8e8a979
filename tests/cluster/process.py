"""One long-running program that tests start, look at, stop for a while and end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.reaper import reaper


class Daemon:
    """A program in a session of its own; it ends with the test run however that ends.

    Args:
        name: For messages and the log file's name.
        argv: What to run.
        logs: The folder of the log file; output of all starts is appended to it.
        environment: The whole environment, or None for this process's.
        behind: The program is a child of what is started, as behind a command that enters a process namespace.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        logs: Path,
        environment: Mapping[str, str] | None = None,
        *,
        behind: bool = False,
    ) -> None:
        self.name = name
        self.log = logs / f"{name}.log"
        self._argv = list(argv)
        self._environment = environment
        self._behind = behind
        self._process: subprocess.Popen[bytes] | None = None
        self._undo = -1
        self._paused = False

    @property
    def pid(self) -> int:
        """The process id of the running program."""
        assert self._process is not None, f"{self.name} is not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the program is there, paused or not."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the program; it is an error if it runs already."""
        assert not self.running, f"{self.name} runs already"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,  # Ctrl-C in a terminal reaches the test run, which then ends this in order
            )
        self._paused = False
        self._undo = reaper().process(self._process.pid)

    def stop(self, *, within: float = 10) -> None:
        """Ask the program to end, and kill it if it is still there after ``within`` seconds; return when it is gone."""
        if self._process is None:
            return
        self.resume()
        if self._behind:
            self._signal_group(signal.SIGTERM)
        else:
            self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=within)
        deadline = time.monotonic() + within
        while self._behind and self._signal_group(0) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.kill()

    def kill(self) -> None:
        """End the program and its children at once; return when it is gone."""
        if self._process is None:
            return
        if self._behind or self._process.poll() is None:
            # The program leads a process group of its own.
            self._signal_group(signal.SIGKILL)
        self._process.wait()
        self._process = None
        reaper().forget(self._undo)

    def _signal_group(self, number: int) -> bool:
        """Send a signal to all processes of the group; whether there are any."""
        assert self._process is not None
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        return True

    def pause(self) -> None:
        """Freeze the program: its connections stay open and nothing answers."""
        assert self._process is not None, f"{self.name} is not started"
        self._process.send_signal(signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        """Let a frozen program go on; harmless if it is not frozen."""
        if self._paused and self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._paused = False

    def tail(self, lines: int = 30) -> str:
        """The last lines of the log."""
        try:
            with self.log.open("rb") as log:
                log.seek(0, 2)
                log.seek(max(0, log.tell() - lines * 1000))
                text = log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])
