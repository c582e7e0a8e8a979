"""Asking lldpd through lldpctl."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from nicrails_broker.host import CommandTimeoutError, Lldpctl, LldpctlError, Output

CORPUS = Path(__file__).parent.parent / "corpus/lldp"


class Runner:
    """Stands in for the runner of programs."""

    def __init__(self, output: Output | Exception) -> None:
        self.output = output
        self.asked: list[tuple[Sequence[str], float]] = []

    async def __call__(self, argv: Sequence[str], *, time_limit: float, max_output: int) -> Output:
        """Answer as told."""
        self.asked.append((argv, time_limit))
        assert max_output >= 1 << 20
        if isinstance(self.output, Exception):
            raise self.output
        return self.output


def ended(status: int, stdout: bytes = b"", stderr: bytes = b"") -> Runner:
    """A runner of a program that ended."""
    return Runner(Output(status=status, stdout=stdout, stderr=stderr))


def lldpctl(runner: Runner, socket: str | None = None) -> Lldpctl:
    """An lldpctl that this runner runs."""
    return Lldpctl(program="lldpctl", socket=socket, time_limit=7.5, runner=runner)


@pytest.mark.parametrize(
    ("socket", "argv"),
    [
        (None, ["lldpctl", "-f", "json0"]),
        ("/run/x/lldpd.socket", ["lldpctl", "-u", "/run/x/lldpd.socket", "-f", "json0"]),
    ],
)
async def test_only_json0_is_asked_for(socket: str | None, argv: list[str]) -> None:
    """The command is ``lldpctl [-u SOCKET] -f json0`` with the time limit of the settings."""
    runner = ended(0, b'{"lldp": [{}]}')
    assert await lldpctl(runner, socket).neighbors() == (b'{"lldp": [{}]}', "")
    assert runner.asked == [(argv, 7.5)]


async def test_a_complaint_beside_good_output_is_passed_on() -> None:
    """What lldpctl says on standard error while it succeeds is given to the caller, safe to print."""
    _, said = await lldpctl(ended(0, b"{}", b"2026 [WARN/x] odd\x1b[31m\n")).neighbors()
    assert said == r"2026 [WARN/x] odd\x1b[31m"


@pytest.mark.parametrize(
    ("status", "file", "fragments"),
    [
        (
            1,
            "020-error-socket-missing.stderr.txt",
            ["/run/lldpd.socket", "does not run on the host", "host.lldpdSocket"],
        ),
        (1, "021-error-socket-connection-refused.stderr.txt", ["stale", "instead of its folder"]),
        (
            1,
            "027-error-socket-missing-two-lines-other-path.txt",
            ["/run/lldpd/lldpd.socket", "does not run on the host"],
        ),
        (0, "024-error-unknown-format.stderr.txt", ["too old to know json0"]),
        (0, "025-error-version-mismatch-marshal.txt", ["different versions", "WARN/marshal"]),
        (1, "025-error-version-mismatch-marshal.txt", ["different versions"]),
        (-6, "026-error-client-in-pod-daemon-on-host.txt", ["signal 6", "different versions", "double free"]),
        (134, "026-error-client-in-pod-daemon-on-host.txt", ["signal 6", "different versions"]),
    ],
)
async def test_known_failures_are_told_with_their_cause(status: int, file: str, fragments: list[str]) -> None:
    """Each failure that lldpctl is known for is an error whose sentence names the cause and what to do."""
    with pytest.raises(LldpctlError) as caught:
        await lldpctl(ended(status, b'{"lldp": [{}]}', (CORPUS / file).read_bytes())).neighbors()
    sentence = str(caught.value)
    assert all(fragment in sentence for fragment in fragments), sentence
    assert "\n" not in sentence


async def test_a_socket_that_may_not_be_opened_is_told_as_that() -> None:
    """A socket of another group is an error that names the group."""
    said = b"2026-12-01T00:48:39 [WARN/control] unable to connect to socket /run/lldpd.socket: Permission denied\n"
    with pytest.raises(LldpctlError, match="Permission denied; the socket belongs to group _lldpd"):
        await lldpctl(ended(1, b"", said)).neighbors()


async def test_an_answer_that_was_not_read_whole_is_no_answer() -> None:
    """An empty or short list with status 0 is refused when lldpctl says that it could not read lldpd's answer."""
    said = b"2026-12-01T05:00:00 [WARN/control] message received is too large\n"
    with pytest.raises(LldpctlError, match=r"it did not get lldpd's whole answer .*message received is too large"):
        await lldpctl(ended(0, b'{"lldp": [{}]}', said)).neighbors()


async def test_any_other_failure_shows_status_and_words() -> None:
    """An exit status without a known cause is told with what lldpctl said, cut and safe to print."""
    with pytest.raises(LldpctlError, match=r"exit status 3 \(who knows \\x07 x+…\)"):
        await lldpctl(ended(3, b"", b"who knows \x07 " + b"x" * 9000)).neighbors()


async def test_a_hang_is_told_as_lldpds_fault() -> None:
    """A time-out points to lldpd."""
    with pytest.raises(LldpctlError, match=r"did not end within.*does lldpd answer on the host\?"):
        await lldpctl(Runner(CommandTimeoutError("'lldpctl' did not end within 7.5 s and was killed"))).neighbors()
