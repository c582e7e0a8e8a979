"""Whether a service does its job at this moment, and if not: which step fails, why and since when."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from nicrails.text import excerpt


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a duty is not done.

    Attributes:
        step: The step that failed, such as ``discover-rails``.
        reason: One sentence: what failed, with what, and what to do.
        since: Monotonic seconds at which the duty began to fail.
    """

    step: str
    reason: str
    since: float


class Duty:
    """One thing that a service is there for; it fails until it has succeeded once."""

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self.name = name
        self._clock = clock
        self.failure: Failure | None = Failure(step="start", reason="nothing has been done yet", since=clock())
        self.last_success: float | None = None

    def succeeded(self) -> None:
        """The duty was done."""
        self.failure = None
        self.last_success = self._clock()

    def failed(self, step: str, reason: str) -> None:
        """A step failed; the time of the first failure in a row is kept."""
        since = self.failure.since if self.failure is not None else self._clock()
        self.failure = Failure(step=step, reason=excerpt(reason, 1024), since=since)


class Health:
    """The health of a service: all of its duties are done, and it is not stopping.

    Args:
        duties: Their names.
        clock: Monotonic seconds; wall time is only used to show a time of day, so a clock that is set changes nothing.
        now: The time of day.
    """

    def __init__(
        self,
        duties: Iterable[str],
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._clock = clock
        self._now = now
        self._stopping: Failure | None = None
        self.duties = {name: Duty(name, clock) for name in duties}

    def __getitem__(self, duty: str) -> Duty:
        return self.duties[duty]

    def stopping(self) -> None:
        """The service has been told to end."""
        self._stopping = self._stopping or Failure(step="stop", reason="the service is stopping", since=self._clock())

    @property
    def healthy(self) -> bool:
        """Whether everything is done."""
        return self._stopping is None and all(duty.failure is None for duty in self.duties.values())

    def report(self) -> dict[str, Any]:
        """The JSON of ``/healthz``; the top level repeats the first failure, for people in a hurry."""
        failures = [("service", self._stopping)] if self._stopping else []
        failures += [(duty.name, duty.failure) for duty in self.duties.values() if duty.failure]
        report: dict[str, Any] = {"status": "unhealthy" if failures else "healthy"}
        for name, failure in failures[:1]:
            report |= {"duty": name} | self._shown(failure)
        report["duties"] = {
            duty.name: self._shown(duty.failure)
            if duty.failure
            else {"status": "done", "lastSuccess": self._time(duty)}
            for duty in self.duties.values()
        }
        return report

    def _shown(self, failure: Failure | None) -> dict[str, Any]:
        if failure is None:
            return {}
        return {
            "status": "unhealthy",
            "step": failure.step,
            "reason": failure.reason,
            "since": self._wall(failure.since),
        }

    def _time(self, duty: Duty) -> str | None:
        return None if duty.last_success is None else self._wall(duty.last_success)

    def _wall(self, monotonic: float) -> str:
        moment = self._now() - datetime.timedelta(seconds=self._clock() - monotonic)
        return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
