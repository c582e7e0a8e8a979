"""The loop around a duty: do it, say how it went, wait, do it again."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable

import structlog

from nicrails.kube.backoff import Backoff
from nicrails.service.health import Duty
from nicrails_broker.events import Done, Emit, Failed
from nicrails_broker.failures import Pace, Step, StepError

FOREVER = math.inf
"""The pause after work that is done once."""


class DutyLoop:
    """Does one duty for ever; no failure of the outside ends it.

    Args:
        duty: Is told of success and failure, for ``/healthz``.
        once: Does the duty and returns the seconds until the next time.
        pace: The waits after failures.
        rng: For jitter.
        emit: Is told of failures and recoveries.
        start_jitter: Seconds; the first time comes at a random moment within them, so that the brokers of a whole cluster
            that start together do not write together.
    """

    def __init__(
        self,
        *,
        duty: Duty,
        once: Callable[[], Awaitable[float]],
        pace: Pace,
        rng: random.Random,
        emit: Emit,
        start_jitter: float,
    ) -> None:
        self._duty = duty
        self._once = once
        self._pace = pace
        self._rng = rng
        self._emit = emit
        self._start_jitter = start_jitter

    async def run(self) -> None:
        """Work until cancelled."""
        await asyncio.sleep(self._rng.uniform(0.0, self._start_jitter))
        backoff = Backoff(initial=self._pace.initial, cap=self._pace.cap, rng=self._rng)
        while True:
            try:
                pause = await self._once()
            except StepError as error:
                pause = backoff.next(self._pace.at_least(error))
                self._duty.failed(error.step, str(error))
                self._emit(Failed(duty=self._duty.name, step=error.step, reason=str(error), pause=pause))
            except Exception as error:  # noqa: BLE001  (a fault of ours must not take /healthz and the record's care away)
                pause = backoff.next(self._pace.slowly)
                reason = f"a fault of the broker itself, please report it: {type(error).__name__}: {error}"
                structlog.get_logger().exception("unexpected", duty=self._duty.name)
                self._duty.failed(Step.UNEXPECTED, reason)
                self._emit(Failed(duty=self._duty.name, step=Step.UNEXPECTED, reason=reason, pause=pause))
            else:
                backoff.reset()
                self._emit(Done(duty=self._duty.name, recovered=self._duty.failure is not None))
                self._duty.succeeded()
            if pause == FOREVER:
                await asyncio.Event().wait()
            await asyncio.sleep(pause)


def jittered(interval: float, rng: random.Random) -> float:
    """The interval, ten percent more or less; what starts together drifts apart."""
    return interval * rng.uniform(0.9, 1.1)
