"""Waiting for conditions."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.support.waiting import NotInTimeError, eventually, eventually_sync


async def test_returns_what_the_condition_found() -> None:
    """The first true answer is the result, of functions and of coroutine functions."""
    answers = iter([None, 0, "found"])
    assert await eventually(lambda: next(answers), within=5, what="an answer", interval=0) == "found"

    async def ask() -> int:
        return 7

    assert await eventually(ask, within=5, what="an answer") == 7
    assert eventually_sync(lambda: 7, within=5, what="an answer") == 7


async def test_failed_assertions_are_not_yet() -> None:
    """A condition may be asserts; the last failure is in the sentence."""

    def condition() -> bool:
        assert 1 + 1 == 3, "one and one"
        return True

    with pytest.raises(NotInTimeError, match=r"not within 0.05 s: a miracle .*a failed assertion: one and one"):
        await eventually(condition, within=0.05, what="a miracle")
    with pytest.raises(NotInTimeError, match=r"not within 0.05 s: a miracle .*a failed assertion: one and one"):
        eventually_sync(condition, within=0.05, what="a miracle")


async def test_a_hanging_condition_is_cancelled() -> None:
    """The deadline holds although the condition does not return."""

    async def hang() -> bool:
        await asyncio.sleep(3600)
        return True

    start = time.monotonic()
    with pytest.raises(NotInTimeError, match="it has not returned once"):
        await eventually(hang, within=0.05, what="the end")
    assert time.monotonic() - start < 5


async def test_other_exceptions_end_the_wait() -> None:
    """A fault in the condition is not waited out, a time-out of its own included."""
    for fault in (KeyError("x"), TimeoutError("its own")):

        def condition(fault: Exception = fault) -> bool:
            raise fault

        with pytest.raises(type(fault)) as raised:
            await eventually(condition, within=5, what="never")
        assert raised.value is fault
