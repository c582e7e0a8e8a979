"""Running programs on the host."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path

import pytest

from nicrails_broker.host import CommandError, CommandTimeoutError, run_command
from tests.support.waiting import eventually

MIB = 1024 * 1024


def python(code: str, *arguments: str) -> list[str]:
    """A program."""
    return [sys.executable, "-S", "-c", code, *arguments]


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def pid_in(file: Path) -> int:
    """The process id that a program writes to a file, with a full stop behind it."""

    def written() -> str:
        text = file.read_text() if file.exists() else ""
        return text.removesuffix(".") if text.endswith(".") else ""

    return int(await eventually(written, within=10, what="the program has started"))


async def test_both_outputs_and_the_status_are_told() -> None:
    """A program's output, its errors and its exit status are given as they are."""
    output = await run_command(
        python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"), time_limit=10, max_output=100
    )
    assert (output.status, output.stdout, output.stderr) == (3, b"out\n", b"err\n")


async def test_the_signal_that_ended_a_program_is_told() -> None:
    """A program that a signal ended has that signal's negative number as its status."""
    output = await run_command(
        python("import os, signal; os.kill(os.getpid(), signal.SIGABRT)"), time_limit=10, max_output=100
    )
    assert output.status == -signal.SIGABRT


async def test_arguments_reach_the_program_as_they_are() -> None:
    """No shell reads the arguments."""
    argument = "$(id) ; * 'x' \"y\" \n"
    output = await run_command(
        python("import sys; sys.stdout.write(sys.argv[1])", argument), time_limit=10, max_output=100
    )
    assert output.stdout.decode() == argument


async def test_a_program_has_no_standard_input() -> None:
    """A program that reads gets the end of the file at once."""
    output = await run_command(python("import sys; print(len(sys.stdin.read()))"), time_limit=10, max_output=100)
    assert output.stdout == b"0\n"


async def test_much_output_on_both_pipes_is_read_at_once() -> None:
    """A program that fills both pipes is never blocked by the one that is not read."""
    code = "import sys\nfor _ in range(64):\n sys.stdout.write('o' * 16384)\n sys.stderr.write('e' * 16384)"
    output = await run_command(python(code), time_limit=10, max_output=MIB)
    assert (output.stdout, output.stderr) == (b"o" * MIB, b"e" * MIB)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_a_flood_ends_the_program(stream: str, tmp_path: Path) -> None:
    """A program that writes without end is killed as soon as it passes the cap, on either pipe."""
    pid = tmp_path / "pid"
    code = f"import os, sys\nopen(sys.argv[1], 'w').write(f'{{os.getpid()}}.')\nwhile True: sys.{stream}.write('x' * 65536)"
    started = time.monotonic()
    with pytest.raises(CommandError, match="wrote more than 100000 bytes and was killed"):
        await run_command(python(code, str(pid)), time_limit=30, max_output=100_000)
    assert time.monotonic() - started < 10
    assert not alive(await pid_in(pid))


async def test_a_program_that_hangs_is_killed() -> None:
    """A program that does not end in time is killed, and the sentence says which and after what time."""
    started = time.monotonic()
    with pytest.raises(CommandTimeoutError, match=r"'sleep 60' did not end within 0\.2 s and was killed"):
        await run_command(["sleep", "60"], time_limit=0.2, max_output=100)
    assert time.monotonic() - started < 5


async def test_a_program_that_ignores_signals_is_killed(tmp_path: Path) -> None:
    """A program that ignores SIGTERM does not outlive its time either."""
    pid = tmp_path / "pid"
    code = (
        "import os, signal, sys, time\nfor number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):\n"
        " signal.signal(number, signal.SIG_IGN)\nopen(sys.argv[1], 'w').write(f'{os.getpid()}.')\ntime.sleep(60)"
    )
    with pytest.raises(CommandTimeoutError):
        await run_command(python(code, str(pid)), time_limit=1, max_output=100)
    assert not alive(await pid_in(pid))


async def test_children_of_a_killed_program_go_with_it(tmp_path: Path) -> None:
    """The children that a hanging program has started are killed with it."""
    pid = tmp_path / "pid"
    with pytest.raises(CommandTimeoutError):
        await run_command(
            ["sh", "-c", 'sleep 60 & printf "%d." $! > "$1"; wait', "sh", str(pid)], time_limit=1, max_output=100
        )
    child = await pid_in(pid)
    await eventually(lambda: not alive(child), within=5, what="the child is gone")


async def test_a_child_that_keeps_a_pipe_open_counts_as_the_program_still_running(tmp_path: Path) -> None:
    """A program that ends but leaves a child with its output behind is killed with that child when its time is up."""
    pid = tmp_path / "pid"
    with pytest.raises(CommandTimeoutError):
        await run_command(
            ["sh", "-c", 'sleep 60 & printf "%d." $! > "$1"', "sh", str(pid)], time_limit=0.5, max_output=100
        )
    child = await pid_in(pid)
    await eventually(lambda: not alive(child), within=5, what="the child is gone")


async def test_a_child_in_a_session_of_its_own_can_not_hold_us(tmp_path: Path) -> None:
    """Even a child that left the process group with the pipe in its hand does not keep the call from ending in time."""
    pid = tmp_path / "pid"
    started = time.monotonic()
    with pytest.raises(CommandTimeoutError):
        await run_command(
            ["setsid", "--fork", "sh", "-c", 'printf "%d." $$ > "$1"; exec sleep 3', "sh", str(pid)],
            time_limit=0.5,
            max_output=100,
        )
    assert time.monotonic() - started < 5
    child = await pid_in(pid)
    await eventually(lambda: not alive(child), within=10, what="the stray child has ended by itself")


async def test_cancelling_kills_the_program(tmp_path: Path) -> None:
    """When the caller is cancelled the program and its children are gone before the cancellation goes on."""
    pid = tmp_path / "pid"
    task = asyncio.create_task(
        run_command(
            ["sh", "-c", 'sleep 60 & printf "%d." $! > "$1"; wait', "sh", str(pid)], time_limit=60, max_output=100
        )
    )
    child = await pid_in(pid)
    task.cancel()
    started = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - started < 2
    await eventually(lambda: not alive(child), within=5, what="the child is gone")


@pytest.mark.parametrize("argv", [["/nowhere/lldpctl"], ["/etc"], ["nicrails-no-such-program", "-x"]])
async def test_a_program_that_is_not_there_is_an_error(argv: list[str]) -> None:
    """A program that can not be started is an error that names it and the cause."""
    with pytest.raises(CommandError, match=f"can not run {argv[0]}: "):
        await run_command(argv, time_limit=1, max_output=100)
