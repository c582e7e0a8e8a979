"""``python -m nicrails_broker`` and the command ``nicrails-broker``."""

from __future__ import annotations

import sys
from typing import NoReturn

from nicrails.signals import end_when_told
from nicrails_broker.cli import main

__all__ = ["main", "run"]


def run() -> NoReturn:
    """The command's entry point."""
    if sys.argv[1:2] == ["run"]:
        end_when_told()
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
