"""``nicrails-faker check``: whether a running system of embedded cluster, observer and brokers is right in all it shows.

The checker knows the services by nothing but what anybody can ask for: the objects of the API, health and metrics.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TextIO

GOOD, FAILED, BAD_ARGUMENTS = 0, 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--server", required=True, metavar="URL", help="the embedded API")
    parser.add_argument("--observer", required=True, metavar="URL", help="the observer's endpoints")
    parser.add_argument(
        "--broker",
        required=True,
        action="append",
        metavar="MACHINE=URL",
        help="a machine and its broker's endpoints; a shipped machine, or a folder; may be repeated",
    )
    parser.add_argument(
        "--within", type=float, default=60.0, metavar="SECONDS", help="how long to wait for it (%(default)g)"
    )


def run(arguments: argparse.Namespace, stdout: TextIO | None = None, stderr: TextIO | None = None) -> int:
    """Run the command.

    Returns:
        0 once everything was right in several looks in a row; 1 if that did not come in time, or a record was wrong;
        2 for arguments that cannot be used.
    """
    from nicrails_faker.checker import waiting  # noqa: PLC0415  (other commands must not cost the start of a web client)

    try:
        system, golden = waiting.expected(arguments.server, arguments.observer, arguments.broker)
    except (KeyError, ValueError, OSError) as error:
        sentence = error.args[0] if isinstance(error, KeyError) else error
        (stderr or sys.stderr).write(f"nicrails-faker check: {sentence}\n")
        return BAD_ARGUMENTS
    return GOOD if waiting.check(system, golden, arguments.within, _lines(stdout or sys.stdout)) else FAILED


def _lines(stream: TextIO) -> Callable[[str], None]:
    def say(line: str) -> None:
        stream.write(line + "\n")
        stream.flush()

    return say
