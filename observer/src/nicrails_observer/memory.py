"""Keeps the process small after it has read something large."""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_THRESHOLD = 128 * 1024


def return_large_buffers() -> None:
    """Make the C library give freed buffers of 128 KiB and more back to the system.

    A list page or the ConfigMap is a buffer of up to some MiB. glibc raises its threshold after the first of them was
    freed and keeps the next ones in its heap, which costs several MiB for ever. Setting the threshold, even to its
    default, keeps it fixed. Other C libraries have no such call and need none.

    Source: ``mallopt(3)``, M_MMAP_THRESHOLD.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _THRESHOLD)
        mallopt(_M_TRIM_THRESHOLD, _THRESHOLD)
