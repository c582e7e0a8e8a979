"""The loop around a duty, and its waits."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from nicrails.kube.errors import error_from_answer
from nicrails.service import Health
from nicrails_broker.events import Done, Event, Failed
from nicrails_broker.failures import BrokerError, Pace, Retry, Step, StepError, api_failure
from nicrails_broker.loop import FOREVER, DutyLoop, jittered
from tests.support.waiting import eventually

FAST = Pace(initial=0.001, cap=0.004, slowly=0.01, after_hang=0.01, rarely=0.01)


class Bench:
    """A duty's loop with scripted outcomes."""

    def __init__(self, *outcomes: float | StepError, start_jitter: float = 0.0) -> None:
        self.outcomes = list(outcomes)
        self.health = Health(["duty"])
        self.events: list[Event] = []
        self.loop = DutyLoop(
            duty=self.health["duty"],
            once=self._once,
            pace=FAST,
            rng=random.Random(1),
            emit=self.events.append,
            start_jitter=start_jitter,
        )

    async def _once(self) -> float:
        outcome = self.outcomes.pop(0) if self.outcomes else FOREVER
        if isinstance(outcome, StepError):
            raise outcome
        return outcome

    async def until(self, condition: Callable[[], bool | Awaitable[bool]]) -> None:
        """Run until a condition holds."""
        task = asyncio.create_task(self.loop.run())
        try:
            await eventually(condition, within=5, what="the condition holds", interval=0.001)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def failure(reason: str = "no", retry: Retry = Retry.SOON) -> StepError:
    """A step that failed."""
    return StepError(Step.PUBLISH, BrokerError(reason, retry=retry))


async def test_a_failure_shows_in_health_until_the_duty_is_done() -> None:
    """Health names the step and the reason of a failure, and is good again by itself after a success."""
    bench = Bench(failure("first"), failure("second"), 60.0)
    await bench.until(lambda: bench.health.healthy)
    failed = [event for event in bench.events if isinstance(event, Failed)]
    assert [(event.step, event.reason) for event in failed] == [(Step.PUBLISH, "first"), (Step.PUBLISH, "second")]
    assert bench.events[-1] == Done(duty="duty", recovered=True)


async def test_failures_wait_with_growing_jitter_and_successes_reset_it() -> None:
    """The waits after failures stay within the doubling bounds of full jitter; a success starts them over."""
    bench = Bench(failure(), failure(), failure(), failure(), 0.0, failure(), 60.0)
    await bench.until(lambda: not bench.outcomes)
    pauses = [event.pause for event in bench.events if isinstance(event, Failed)]
    bounds = [0.001, 0.002, 0.004, 0.004, 0.001]
    assert all(0 <= pause <= bound for pause, bound in zip(pauses, bounds, strict=True))


async def test_done_is_told_as_a_recovery_only_after_a_failure() -> None:
    """A sink can tell the first success and recoveries from mere repetition."""
    bench = Bench(0.0, 0.0, failure(), 0.0, 60.0)
    await bench.until(lambda: not bench.outcomes)
    assert [event.recovered for event in bench.events if isinstance(event, Done)] == [True, False, True, False]


@pytest.mark.fault("B13")
async def test_the_first_turn_waits_a_random_part_of_the_start_jitter() -> None:
    """B13: brokers that start together do not begin together."""
    firsts = [random.Random(seed).uniform(0, 10) for seed in range(200)]
    assert max(firsts) - min(firsts) > 9
    bench = Bench(60.0, start_jitter=3600)
    task = asyncio.create_task(bench.loop.run())
    await asyncio.sleep(0.02)
    assert bench.outcomes == [60.0]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_work_that_is_done_once_is_not_repeated() -> None:
    """A pause without end ends only with the task."""
    bench = Bench(FOREVER)
    await bench.until(lambda: bench.health.healthy)
    assert len(bench.events) == 1


async def test_a_fault_of_ours_is_told_and_outlived() -> None:
    """An error that nobody foresaw makes the duty unhealthy with its name, and the loop goes on."""
    calls = 0
    health = Health(["duty"])
    reasons: list[str] = []

    async def once() -> float:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise LookupError("bug")
        failure = health["duty"].failure
        reasons.append(f"{failure.step}: {failure.reason}" if failure else "")
        return FOREVER

    loop = DutyLoop(
        duty=health["duty"],
        once=once,
        pace=Pace(initial=0.0, cap=0.0, slowly=0.0),
        rng=random.Random(1),
        emit=lambda _: None,
        start_jitter=0,
    )
    task = asyncio.create_task(loop.run())
    await eventually(lambda: health.healthy, within=5, what="the next try")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert reasons == ["unexpected: a fault of the broker itself, please report it: LookupError: bug"]


@pytest.mark.parametrize(
    ("retry", "after", "expected"),
    [
        (Retry.SOON, None, None),
        (Retry.SOON, 7.0, 7.0),
        (Retry.SLOWLY, None, 20.0),
        (Retry.SLOWLY, 90.0, 90.0),
        (Retry.AFTER_HANG, None, 120.0),
        (Retry.RARELY, None, 300.0),
        (Retry.RARELY, 7.0, 300.0),
    ],
)
def test_waits_in_production(retry: Retry, after: float | None, expected: float | None) -> None:
    """The least waits are those of the documentation; a server's Retry-After is never cut short."""
    assert Pace().at_least(BrokerError("x", retry=retry, retry_after=after)) == expected
    assert (Pace().initial, Pace().cap) == (0.8, 30.0)


def test_intervals_vary_by_ten_percent() -> None:
    """What starts together drifts apart."""
    rng = random.Random(3)
    values = [jittered(100, rng) for _ in range(1000)]
    assert 90 <= min(values) < 91
    assert 109 < max(values) <= 110


def test_a_missing_permission_is_told_with_its_name() -> None:
    """A 403 is told with what to grant; any other error with the server's words alone."""
    forbidden = error_from_answer("GET /x", 403, {}, b'{"message": "forbidden"}')
    assert api_failure(forbidden, "can not read Node n", grant="get on nodes") == (
        "can not read Node n: GET /x: 403 Forbidden: forbidden; the broker's ServiceAccount needs get on nodes",
        Retry.SLOWLY,
        None,
    )
    busy = error_from_answer("GET /x", 429, {"Retry-After": "3"}, b"slow")
    assert api_failure(busy, "doing", grant="x")[1:] == (Retry.SOON, 3.0)
