"""The demonstration as a whole: the real services on the embedded cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nicrails
from nicrails_faker.demo import Commands, Screen, Style, run
from nicrails_faker.machines import names, shipped
from tests.support.reaper import reaper
from tests.support.waiting import eventually_sync

PLAIN = Style(width=100, unicode=True, colour=False)
IDLE = (sys.executable, "-S", "-c", "import time; time.sleep(60)")


class Demo:
    """A demonstration in a process of its own.

    Args:
        folder: Where its temporary files and its output go.
        arguments: Of the command.
    """

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self._output = folder / "output"
        # What a build machine gives: no terminal, no UTF-8.
        plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TMPDIR": str(self.temporary)}
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "nicrails_faker", "demo", *arguments],
                cwd=folder,
                env={**os.environ, **plain},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        # Ended in order, since killing it would leave its children.
        self._reaper = reaper().command(["kill", "-INT", str(self.process.pid)])

    @property
    def output(self) -> str:
        """All output so far; whatever is not ASCII is a failure."""
        return self._output.read_bytes().decode("ascii")

    def wait_for(self, text: str, within: float) -> None:
        """Wait until the output contains a text."""

        def seen() -> bool:
            assert self.process.poll() is None, self.output
            return text in self.output

        eventually_sync(seen, within=within, what=f"the demonstration says {text!r}")

    def children(self) -> list[int]:
        """The ids of its child processes."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == self.process.pid:
                found.append(int(stat.parent.name))
        return found

    def interrupt(self) -> int:
        """Press Ctrl-C; gives the exit code."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=20)
        reaper().forget(self._reaper)
        return code


@contextlib.contextmanager
def playing(folder: Path, *arguments: str) -> Iterator[Demo]:
    """A demonstration that must leave no temporary file, however the test ends."""
    demo = Demo(folder, *arguments)
    try:
        yield demo
    finally:
        if demo.process.poll() is None:
            demo.interrupt()
    assert list(demo.temporary.iterdir()) == []


def get(url: str) -> tuple[int, bytes]:
    """A GET request; gives status and body."""
    with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310  (loopback)
        return response.status, response.read()


def gone(pids: list[int]) -> bool:
    """Whether none of these processes is there any more."""
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_every_promise_holds_and_everything_ends(tmp_path: Path) -> None:
    """The whole demonstration keeps its promises within 30 s, stays for people to look at, and ends with Ctrl-C."""
    with playing(tmp_path, "--keep") as demo:
        look_at_all_of_it(demo)


def look_at_all_of_it(demo: Demo) -> None:
    """Check the output, what keeps running, and the end."""
    demo.wait_for("Ctrl-C ends it", within=30)
    output = demo.output
    assert "[FAILED]" not in output
    for name in names():
        assert f"[ok] the record of {name} is the expected one, byte for byte" in output
    for promise in (
        "the observer created ConfigMap topograph-nic-rails, owned by its Deployment",
        "all 7 services are healthy",
        "the observer removed the record of cpu-rails, ",
        "the records of all other Nodes are unchanged",
        "the broker of gb200-4gpu published the record of the new Node by itself",
        "it asked the API itself before it removed anything, and kept the new record",
        "the new record survived the observer's full reconciliation",
        "the observer removed nothing meanwhile",
        "its broker is unhealthy and says which step failed and why",
        "the old record stands, byte for byte",
        "its broker is healthy again by itself, with the same record",
    ):
        assert f"[ok] {promise}" in output
    assert "step    discover-gpus\n            reason  nvidia-smi topo -m, line " in output
    assert "    0  GPU-4283fefc  0000:1b:00.0  PIX   rail0 -> 0000:1a:00.0 0000:1a:00.1\n" in output
    assert re.search(r"^All \d+ promises held, in \d", output, re.MULTILINE)
    assert "\x1b" not in output

    demo.wait_for("curl -s -X DELETE", within=5)
    pids = demo.children()
    assert len(pids) == 6
    services = re.findall(r"(http://[0-9.:]+)/healthz  /metrics  pid (\d+)", demo.output)
    assert sorted(int(pid) for _, pid in services) == sorted(pids)
    for address, _ in services:
        assert get(f"{address}/healthz")[0] == 200
        assert b"nicrails_build_info" in get(f"{address}/metrics")[1]
    (api,) = re.findall(r"^  API +(\S+)$", demo.output, re.MULTILINE)
    config_map = json.loads(get(f"{api}/api/v1/namespaces/nicrails/configmaps/topograph-nic-rails")[1])
    assert set(nicrails.read_records(config_map["data"])) == set(names()) - {"cpu-rails"}
    (kubeconfig,) = re.findall(r"^  kubeconfig +(\S+)$", demo.output, re.MULTILINE)
    assert api in Path(kubeconfig).read_text()

    assert demo.interrupt() == 0
    assert "[ok] every service stopped in order, with exit code 0" in demo.output
    assert gone(pids)


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path) -> None:
    """Ctrl-C in the middle ends every process and removes every file."""
    with playing(tmp_path) as demo:
        demo.wait_for("Waiting for them", within=20)
        pids = demo.children()
        assert len(pids) == 7
        assert demo.interrupt() == 130
    assert gone(pids)
    assert "Interrupted; stopping all processes." in demo.output
    assert "Traceback" not in demo.output


def test_a_wrong_record_breaks_a_promise() -> None:
    """A record that is not the expected one fails at once, and the exit code is 1 with the promise named."""
    machine = shipped("h200-mig")
    assert machine.record is not None
    wrong = dataclasses.replace(machine, record=machine.record.replace(b'"path":"NODE"', b'"path":"PHB"'))
    stream = io.StringIO()
    screen = Screen(stream, PLAIN)
    assert run(screen=screen, machines=[wrong]) == 1
    (broken,) = screen.broken
    assert broken.text == "the record of h200-mig is the expected one, byte for byte"
    assert broken.why.startswith("the record is another: {")
    assert any("record-published" in line for line in broken.log)
    assert "The other acts need all records, so they are left out." in stream.getvalue()
    assert "1 of 3 promises did NOT hold:" in stream.getvalue()


def test_a_dead_service_breaks_a_promise() -> None:
    """A service that ends by itself is named with its exit code and the end of its log, without waiting."""
    dying = (sys.executable, "-S", "-c", "import sys; sys.exit('the observer has a bad day')")
    stream = io.StringIO()
    screen = Screen(stream, PLAIN)
    assert run(screen=screen, machines=[shipped("h200-mig")], commands=Commands(broker=IDLE, observer=dying)) == 1
    created = screen.broken[0]
    assert created.text.startswith("the observer created ConfigMap")
    assert created.why == "the observer ended with exit code 1"
    assert created.log == ("the observer has a bad day",)
    assert screen.elapsed < 15
    assert "the observer has a bad day" in stream.getvalue()
