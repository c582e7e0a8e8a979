"""The program ``nicrails-faker``; ``python -m nicrails_faker`` is the same."""

from __future__ import annotations

import sys

from nicrails_faker.cli import main

__all__ = ["main", "run"]


def run() -> None:
    """The console script."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
