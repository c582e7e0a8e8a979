"""The program ``nicrails-observer``; ``python -m nicrails_observer`` is the same."""

from __future__ import annotations

import sys

from nicrails_observer.cli import main

__all__ = ["main", "run"]


def run() -> None:
    """The console script."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
