"""Waiting for an observable condition, with a deadline and a sentence that says what was seen last."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

_T = TypeVar("_T")


class NotInTimeError(AssertionError):
    """The condition did not come true before the deadline."""


@overload
async def eventually(
    condition: Callable[[], Awaitable[_T]], *, within: float, what: str, interval: float = 0.02
) -> _T: ...


@overload
async def eventually(condition: Callable[[], _T], *, within: float, what: str, interval: float = 0.02) -> _T: ...


async def eventually(
    condition: Callable[[], object | Awaitable[object]], *, within: float, what: str, interval: float = 0.02
) -> object:
    """Wait until ``condition`` returns something true, and return that.

    An ``AssertionError`` in the condition counts as "not yet", so a condition can be a few asserts that end in
    ``return True``. Any other exception ends the wait at once.

    Args:
        condition: A function or coroutine function without arguments.
        within: The deadline in seconds; a condition that hangs is cancelled then.
        what: What is waited for, for the failure's sentence: "the record of node-3 is gone".
        interval: Seconds between two looks.

    Raises:
        NotInTimeError: The deadline passed; the sentence says what the last look returned.
    """
    last: object = "nothing, it has not returned once"
    looks = 0
    limit = asyncio.timeout(within)
    try:
        async with limit:
            while True:
                looks += 1
                try:
                    answer = condition()
                    value = await answer if inspect.isawaitable(answer) else answer
                except AssertionError as error:
                    last = f"a failed assertion: {error}"
                else:
                    if value:
                        return value
                    last = repr(value)
                await asyncio.sleep(interval)
    except TimeoutError as error:
        if not limit.expired():  # the condition's own time-out is the caller's business
            raise
        raise NotInTimeError(_sentence(what, within, looks, last)) from error


def eventually_sync(condition: Callable[[], _T], *, within: float, what: str, interval: float = 0.02) -> _T:
    """The same for code without an event loop; the condition must not hang."""
    deadline = time.monotonic() + within
    looks = 0
    while True:
        looks += 1
        try:
            value = condition()
        except AssertionError as error:
            last = f"a failed assertion: {error}"
        else:
            if value:
                return value
            last = repr(value)
        if time.monotonic() > deadline:
            raise NotInTimeError(_sentence(what, within, looks, last))
        time.sleep(interval)


def _sentence(what: str, within: float, looks: int, last: object) -> str:
    return f"not within {within:g} s: {what} (looked {looks} times, the last look gave {str(last)[:1000]})"
