"""Waiting for what can be observed, with a deadline; never for an amount of time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


class NotYetError(Exception):
    """A condition does not hold yet; the message says what is the case instead."""


class NotKeptError(Exception):
    """A condition did not come to hold; the message says what was the case instead."""


async def until(
    condition: Callable[[], Awaitable[T]],
    *,
    within: float,
    hopeless: Callable[[], str | None],
    interval: float = 0.05,
) -> T:
    """Wait until a condition holds and give its result.

    Args:
        condition: Raises :class:`NotYetError` while it does not hold.
        within: The deadline in seconds.
        hopeless: Says why there is nothing to wait for any more, or None.
        interval: Seconds between two looks.

    Raises:
        NotKeptError: The deadline passed, or there was nothing to wait for.
    """
    deadline = time.monotonic() + within
    while True:
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + within):
                return await condition()
        except NotYetError as not_yet:
            last = str(not_yet)
        except TimeoutError:
            last = "no answer"
        if reason := hopeless():
            raise NotKeptError(reason)
        if time.monotonic() > deadline:
            raise NotKeptError(f"not within {within:g} s: {last}")
        await asyncio.sleep(interval)
