"""The program ``nicrails-observer``; ``python -m nicrails_observer`` is the same."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from nicrails.signals import end_when_told


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """See :func:`nicrails_observer.cli.main`."""
    # Importing it takes most of the time of a start, and :func:`run` has something to do before.
    from nicrails_observer.cli import main as command_line  # noqa: PLC0415

    return command_line(argv, environ)


def run() -> None:
    """The console script."""
    if sys.argv[1:2] == ["run"]:
        end_when_told()
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
