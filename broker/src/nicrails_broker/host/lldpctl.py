"""Asking the host's lldpd for its neighbours through lldpctl.

Only ``json0`` is asked for. ``json`` changes its shape with the number of neighbours, and before lldpd 1.0.22 a
neighbour can choose its own name so that another interface seems to have a neighbour; ``json0`` has neither fault.
"""

from __future__ import annotations

import re

from nicrails.text import excerpt
from nicrails_broker.host.command import CommandError, CommandRunner, run_command

MAX_OUTPUT = 8 * 1024 * 1024
"""Bytes: neighbours that fill their frames with small fields make lldpctl print about a MiB for each port."""

SIGNALLED = 128
LAST_SIGNAL = 64

_VERSIONS = (
    "lldpctl and the host's lldpd are of different versions, so they do not understand each other: "
    "use the lldpctl of the lldpd release that runs on the host"
)
_INCOMPLETE = re.compile(r"\[(?:WARN|CRIT|ALERT|EMERG)/(?:control|client|lldpctl|rpc)\]")
_SOCKET = re.compile(r"unable to connect to socket (\S+): (.+)")


class LldpctlError(Exception):
    """lldpd's view of the neighbours could not be had; the message names the cause and what to do."""


class Lldpctl:
    """The command ``lldpctl [-u SOCKET] -f json0``.

    Args:
        program: A name on ``PATH`` or a path.
        socket: lldpd's control socket, or None for the one that lldpctl was built with.
        time_limit: Seconds for one run.
        runner: What runs it.
    """

    def __init__(
        self, *, program: str, socket: str | None, time_limit: float, runner: CommandRunner = run_command
    ) -> None:
        self._argv = [program, *(["-u", socket] if socket else []), "-f", "json0"]
        self._time_limit = time_limit
        self._runner = runner

    async def neighbors(self) -> tuple[bytes, str]:
        """Run it.

        Returns:
            Its standard output, and what it said on standard error, cut; "" for nothing.

        Raises:
            LldpctlError: It failed, or said something on standard error that makes its output untrustworthy.
        """
        try:
            output = await self._runner(self._argv, time_limit=self._time_limit, max_output=MAX_OUTPUT)
        except CommandError as error:
            raise LldpctlError(f"{error}; is lldpctl in the image, and does lldpd answer on the host?") from error
        said = output.stderr.decode("utf-8", "replace")
        cause = _cause(output.status, said)
        if cause is not None:
            raise LldpctlError(f"{' '.join(self._argv)!r} failed: {cause}")
        return output.stdout, excerpt(said)


def _cause(status: int, said: str) -> str | None:
    """Why the output is not to be trusted, or None."""
    words = f" ({excerpt(said, 120)})" if said.strip() else ""
    if "WARN/marshal" in said or "unable to deserialize" in said:
        return f"{_VERSIONS}{words}"
    if status == 0:
        if "unknown output format" in said:
            return f"it is too old to know json0{words}"
        # lldpctl goes on after an answer that it could not read, prints what it has, be it nothing, and says 0.
        return f"it did not get lldpd's whole answer{words}" if _INCOMPLETE.search(said) else None
    # A shell tells the end by a signal as 128 and more.
    if status < 0 or SIGNALLED < status <= SIGNALLED + LAST_SIGNAL:
        number = -status if status < 0 else status - SIGNALLED
        return f"it was ended by signal {number}; {_VERSIONS}{words}"
    connection = _SOCKET.search(said)
    if connection is not None:
        return _no_connection(excerpt(connection[1], 120), connection[2].strip())
    return f"exit status {status}{words}"


def _no_connection(socket: str, problem: str) -> str:
    advice = {
        "No such file or directory": "lldpd does not run on the host, or its socket's folder is not mounted at this path "
        "(host.lldpdSocket)",
        "Connection refused": "the socket is stale: lldpd has ended, or it was restarted and the pod mounts the socket's "
        "file instead of its folder",
        "Permission denied": "the socket belongs to group _lldpd: run the broker as root or in that group",
    }.get(problem, "check lldpd on the host and host.lldpdSocket")
    return f"no connection to lldpd's socket {socket}: {excerpt(problem, 80)}; {advice}"
