from __future__ import annotations

import importlib
import signal
import subprocess
import sys

import pytest

SCRIPT = "import sys, time\nfrom nicrails.signals import end_when_told\n{}\nprint('up', flush=True)\ntime.sleep(60)"


@pytest.mark.parametrize(("line", "status"), [("end_when_told()", 0), ("", -signal.SIGTERM)], ids=["with", "without"])
def test_a_program_that_starts_ends_when_told(line: str, status: int) -> None:
    """With it SIGTERM ends a process with exit code 0 before there is an event loop."""
    with subprocess.Popen([sys.executable, "-c", SCRIPT.format(line)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == status
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("part", "command", "answers"),
    [
        ("broker", "run", True),
        ("broker", "discover", False),
        ("observer", "run", True),
        ("observer", "check-config", False),
        ("faker", "topology", True),
        ("faker", "device-plugin", True),
        ("faker", "mig", True),
        ("faker", "nodes", True),
        ("faker", "metrics", True),
        ("faker", "mig-plan", False),
        ("faker", "demo", False),
    ],
)
def test_services_answer_before_they_are_imported(
    part: str, command: str, answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each service answers to SIGTERM before it imports what it needs; a command that is cut short never says 0."""
    program = importlib.import_module(f"nicrails_{part}.__main__")
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    def main(_: object) -> int:
        seen.append(signal.getsignal(signal.SIGTERM))
        return 0

    monkeypatch.setattr(program, "main", main)
    monkeypatch.setattr(sys, "argv", [f"nicrails-{part}", command])
    try:
        with pytest.raises(SystemExit):
            program.run()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (seen != [before]) is answers
