"""What is undone when a test run is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.reaper import Reaper
from tests.support.waiting import eventually_sync

RUN = """
import subprocess, sys, os, pathlib
from tests.support.reaper import reaper
folder = pathlib.Path(sys.argv[1])
kept = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, start_new_session=True)
reaper().process(kept.pid)
other = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, start_new_session=True)
reaper().forget(reaper().process(other.pid))
reaper().folder(folder / "made")
reaper().command(["touch", str(folder / "ran")])
print(kept.pid, other.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def _lives(pid: int) -> bool:
    # A killed process may stay as a zombie where nobody collects orphans; it has no program any more.
    return Path(f"/proc/{pid}/exe").exists()


def test_a_killed_run_is_cleaned_up_after(tmp_path: Path) -> None:
    """Processes, folders and commands on the list are seen to; what was forgotten is left alone."""
    (tmp_path / "made" / "deep").mkdir(parents=True)
    argv = [sys.executable, "-c", RUN, str(tmp_path)]
    run = subprocess.run(argv, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, check=False, timeout=30)
    assert run.returncode == -9
    kept, other = map(int, run.stdout.split())
    try:
        eventually_sync(
            lambda: not _lives(kept) and not (tmp_path / "made").exists() and (tmp_path / "ran").exists(),
            within=10,
            what="everything on the list is undone",
        )
        assert _lives(other)
    finally:
        os.kill(other, signal.SIGKILL)


def test_a_reused_process_id_is_left_alone(tmp_path: Path) -> None:
    """A process that only has the same id as one on the list is not killed."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as bystander:
        reaper = Reaper()
        reaper._send({"number": 0, "kill": bystander.pid, "started": "12"})
        reaper.close()
        assert _lives(bystander.pid)
        bystander.kill()
