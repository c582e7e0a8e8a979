"""The program ``nicrails-faker``; ``python -m nicrails_faker`` is the same."""

from __future__ import annotations

import sys

from nicrails.signals import end_when_told
from nicrails_faker.cli import SERVICES, main

__all__ = ["main", "run"]


def run() -> None:
    """The console script."""
    if sys.argv[1:2] and sys.argv[1] in SERVICES:
        end_when_told()
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
