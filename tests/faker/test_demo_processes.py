"""Child processes of the demonstration, and waiting for what they do."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from nicrails_faker.demo.processes import Program, Programs
from nicrails_faker.demo.waiting import NotKeptError, NotYetError, until
from tests.support.waiting import eventually

OBEDIENT = "import time; print('ready', flush=True); time.sleep(60)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
)


async def started(programs: Programs, name: str, code: str) -> Program:
    """A Python program that has said it is ready."""
    program = programs.start(name, [sys.executable, "-S", "-c", code], os.environ)
    await eventually(lambda: b"ready" in program.log.read_bytes(), within=10, what=f"{name} is ready")
    return program


def state(program: Program) -> str:
    """The state of a process as Linux names it: ``S`` sleeping, ``T`` stopped; empty if there is none."""
    stat = Path(f"/proc/{program.pid}/stat")
    return stat.read_text().rpartition(")")[2].split()[0] if stat.exists() else ""


async def test_programs_end_when_asked(tmp_path: Path) -> None:
    """Stopping asks with SIGTERM, gives the exit code, and leaves no process."""
    programs = Programs(tmp_path)
    program = await started(programs, "obedient", OBEDIENT)
    assert await programs.stop(program) == {"obedient": -signal.SIGTERM}
    assert programs.running == []
    assert state(program) == ""


async def test_stubborn_programs_are_killed(tmp_path: Path) -> None:
    """A program that does not end in time is killed and reaped."""
    program = await started(Programs(tmp_path), "stubborn", STUBBORN)
    program.terminate()
    assert await program.ended(within=0.2) == -signal.SIGKILL
    assert state(program) == ""


async def test_held_programs_can_be_stopped(tmp_path: Path) -> None:
    """A program that is held does nothing, and still ends when it is asked to."""
    programs = Programs(tmp_path)
    program = await started(programs, "held", OBEDIENT)
    program.hold()
    await eventually(lambda: state(program) == "T", within=5, what="the program is held")
    assert await programs.stop(program) == {"held": -signal.SIGTERM}


async def test_all_can_be_killed_at_once(tmp_path: Path) -> None:
    """The last resort ends every program, also a stubborn one, without waiting."""
    programs = Programs(tmp_path)
    one, other = await started(programs, "one", STUBBORN), await started(programs, "other", OBEDIENT)
    programs.kill()
    assert [await one.ended(5), await other.ended(5)] == [-signal.SIGKILL, -signal.SIGKILL]


async def test_log_tells_address_and_end(tmp_path: Path) -> None:
    """The address comes from the log's line with a port; the tail is the end of the log, errors included."""
    code = "import sys; print('noise'); print('{\"event\": \"x\", \"port\": 81}'); sys.exit('the end')"
    program = Programs(tmp_path).start("teller", [sys.executable, "-S", "-c", code], os.environ)
    assert await program.ended(10) == 1
    assert program.address() == "http://127.0.0.1:81"
    assert "the end" in program.tail()


async def test_waiting_ends_with_the_condition() -> None:
    """A condition is looked at until it holds; its result is given back."""
    looks = iter(["", "", "held"])

    async def condition() -> str:
        if look := next(looks):
            return look
        raise NotYetError("not yet")

    assert await until(condition, within=5, hopeless=lambda: None, interval=0) == "held"


async def test_waiting_ends_at_the_deadline() -> None:
    """At the deadline the last reason is told; a condition that hangs counts as no answer."""

    async def never() -> None:
        raise NotYetError("the sky is blue")

    async def hanging() -> None:
        await asyncio.Event().wait()

    with pytest.raises(NotKeptError, match=r"not within 0\.05 s: the sky is blue"):
        await until(never, within=0.05, hopeless=lambda: None, interval=0.01)
    with pytest.raises(NotKeptError, match="no answer"):
        await until(hanging, within=0.05, hopeless=lambda: None)


async def test_waiting_ends_when_it_is_hopeless() -> None:
    """There is no waiting for a program that has ended."""

    async def never() -> None:
        raise NotYetError("not yet")

    with pytest.raises(NotKeptError, match="it is over"):
        await until(never, within=60, hopeless=lambda: "it is over")
