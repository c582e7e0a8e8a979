"""Running the programs and reading what the kernel says about them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


class Program:
    """A started program."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log

    def resident(self) -> float:
        """Resident memory in MiB."""
        return self._status("VmRSS")

    def peak(self) -> float:
        """The most resident memory so far, in MiB."""
        return self._status("VmHWM")

    def cpu(self) -> float:
        """Processor seconds used so far, its own and those of the commands that it has run."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(int(field) for field in fields[11:15]) / _TICKS

    def _status(self, name: str) -> float:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) / 1024
        raise RuntimeError(f"the program has ended: {self.log.read_text()[-2000:]}")

    def check(self) -> None:
        """Raise if it has ended."""
        if self.process.poll() is not None:
            raise RuntimeError(f"the program ended with {self.process.returncode}: {self.log.read_text()[-2000:]}")


@contextlib.contextmanager
def running(arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> Iterator[Program]:
    """A Python program, ended afterwards by SIGTERM."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(os.environ) | dict(environment or {}),
        )
    try:
        yield Program(process, log)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def get(url: str) -> tuple[int, str]:
    """Status and body; status 0 when nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  (our own loopback server)
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def wait_healthy(program: Program, url: str, within: float = 60.0) -> None:
    """Wait until /healthz says 200."""
    deadline = time.monotonic() + within
    while True:
        status, body = get(f"{url}/healthz")
        if status == 200:
            return
        program.check()
        if time.monotonic() > deadline:
            raise RuntimeError(f"not healthy in time: {body}\n{program.log.read_text()[-2000:]}")
        time.sleep(0.02)


def sample(metrics: str, name: str) -> float:
    """The value of a metric without labels in Prometheus text."""
    for line in metrics.splitlines():
        if line.startswith(name + " "):
            return float(line.split()[1])
    raise KeyError(name)
