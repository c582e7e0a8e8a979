"""Being told to end while a program has hardly begun.

It imports next to nothing, so that a program can call it before it imports the rest.
"""

from __future__ import annotations

import os
import signal
from types import FrameType


def end_when_told() -> None:
    """From now on SIGTERM ends the process at once with exit code 0, until a service takes the signal over.

    A container's first process does not get a signal that it has no handler for: a pod that is deleted while its program
    still starts would stay until its grace period is over. Only for the main thread of a program of one's own.
    """
    signal.signal(signal.SIGTERM, _end)


def _end(_number: int, _frame: FrameType | None) -> None:
    # Nothing has begun, so there is nothing to tidy up, and half an import is no state to run handlers in.
    os._exit(0)
