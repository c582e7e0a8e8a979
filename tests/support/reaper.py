"""Undoes what a test run did outside itself when the run is killed and cannot do it.

One helper process per run, in a session of its own, holds the list of things to undo and waits for the end of its
standard input, which is the end of the run however it came about. Ordinary clean-up stays with whoever made the thing.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path


class Reaper:
    """The list of things to undo if this process dies; safe to use from any thread."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a signal to the run's process group must not take it along
        )

    def process(self, pid: int) -> int:
        """Kill this process and its group, which it leads; returns the number to ``forget`` it by."""
        return self._add({"kill": pid, "started": _started(pid)})

    def folder(self, path: Path) -> int:
        """Remove this folder and all in it."""
        return self._add({"remove": str(path)})

    def command(self, argv: Sequence[str]) -> int:
        """Run this command."""
        return self._add({"run": list(argv)})

    def forget(self, number: int) -> None:
        """The thing is undone."""
        self._send({"forget": number})

    def close(self) -> None:
        """Undo what is left and end."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(timeout=30)

    def _add(self, entry: dict[str, object]) -> int:
        number = next(self._numbers)
        self._send({"number": number, **entry})
        return number

    def _send(self, entry: dict[str, object]) -> None:
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(json.dumps(entry).encode() + b"\n")
            self._process.stdin.flush()


@functools.cache
def reaper() -> Reaper:
    """This process's reaper, started when first asked for."""
    made = Reaper()
    atexit.register(made.close)
    return made


def _started(pid: int) -> str:
    """When a process started, in clock ticks: together with the id it is never used twice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return "gone"


def _undo(entry: dict[str, object]) -> None:
    match entry:
        case {"kill": int(pid), "started": started} if _started(pid) == started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        case {"remove": str(path)}:
            shutil.rmtree(path, ignore_errors=True)
        case {"run": [*argv]}:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run([str(word) for word in argv], stdin=subprocess.DEVNULL, check=False, timeout=10)


def _serve() -> None:
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    entries: dict[int, dict[str, object]] = {}
    for line in sys.stdin.buffer:
        entry = json.loads(line)
        if "forget" in entry:
            entries.pop(entry["forget"], None)
        else:
            entries[entry["number"]] = entry
    for entry in reversed(entries.values()):
        _undo(entry)


if __name__ == "__main__":
    _serve()
