"""``scripts/images engine`` with programs that play Docker's; no need of Docker."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.images.docker import ROOT, Done, run
from tests.support.waiting import eventually_sync

DOCKERD = """#!/bin/sh
echo $$ >>"$PLAYED/started"
trap 'rm -f "$PLAYED/answers"; echo ended >>"$PLAYED/ended"; exit 0' TERM
[ -e "$PLAYED/broken" ] && { echo 'no storage driver' >&2; exit 1; }
touch "$PLAYED/answers"
while :; do sleep 0.05; done
"""


@pytest.fixture
def played(tmp_path: Path) -> Path:
    """A folder with ``docker``, which answers while there is a file ``answers``, and ``dockerd``, which makes it."""
    for name, text in (("docker", '#!/bin/sh\n[ -e "$PLAYED/answers" ]\n'), ("dockerd", DOCKERD)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def environment(played: Path) -> dict[str, str]:
    """Where these programs come first."""
    return {"PATH": f"{played}:{os.environ['PATH']}", "PLAYED": str(played)}


def engine(played: Path, *argv: str) -> Done:
    """Run a command with an engine."""
    return run(["scripts/images", "engine", *argv], environment=environment(played))


def test_an_engine_that_answers_is_used(played: Path) -> None:
    """No engine is started, and none is ended, where one answers."""
    (played / "answers").touch()
    done = engine(played, "sh", "-c", "echo here; exit 3")
    assert (done.status, done.out) == (3, "here\n")
    assert not (played / "started").exists()
    assert (played / "answers").exists()


@pytest.mark.needs("root")
@pytest.mark.parametrize("status", [0, 3])
def test_an_engine_is_started_and_ended(played: Path, status: int) -> None:
    """Where none answers one is started, the command runs with it, and it has ended before the command's status is given."""
    done = engine(played, "sh", "-c", f'test -e "$PLAYED/answers" && echo served; exit {status}')
    assert (done.status, done.out) == (status, "served\n")
    assert (played / "ended").read_text() == "ended\n"


@pytest.mark.needs("root")
def test_an_interrupted_command_ends_the_engine(played: Path) -> None:
    """The engine that was started ends also when the command is interrupted."""
    process = subprocess.Popen(
        ["scripts/images", "engine", "sh", "-c", 'touch "$PLAYED/runs"; exec sleep 60'],
        cwd=ROOT,
        env={**os.environ, **environment(played)},
        start_new_session=True,
    )
    eventually_sync((played / "runs").exists, within=30, what="the command runs")
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(30) != 0
    eventually_sync((played / "ended").exists, within=30, what="the engine ended")


@pytest.mark.needs("root")
def test_an_engine_that_does_not_start_is_told(played: Path) -> None:
    """The words of an engine that ended are in the error, and the command does not run."""
    (played / "broken").touch()
    done = engine(played, "sh", "-c", "echo ran")
    assert (done.status, done.out) == (1, "")
    assert done.err.splitlines() == ["no storage driver", "dockerd did not start"]


REAL = """
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib/docker
ip link set lo up
scripts/images engine docker version --format '{{.Server.Os}}'
! docker version >/dev/null 2>&1
[ ! -e /run/docker.pid ]
"""


@pytest.mark.needs("root", "docker")
def test_a_real_engine_is_started_and_ended() -> None:
    """Where no engine answers a real one is started, and it has ended when the command has. In namespaces of its own."""
    Path("/var/lib/docker").mkdir(exist_ok=True)
    done = run(
        ["unshare", "--mount", "--net", "sh", "-euc", REAL], environment={"DOCKER_HOST": "unix:///run/docker.sock"}
    )
    assert (done.status, done.out) == (0, "linux\n"), done.err
