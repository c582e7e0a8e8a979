from __future__ import annotations

import datetime

from nicrails.service import Health

NOON = datetime.datetime(2026, 1, 2, 12, 0, 0, tzinfo=datetime.UTC)


class Clock:
    """Monotonic seconds and a time of day, moved by hand."""

    def __init__(self) -> None:
        self.monotonic = 1000.0
        self.day = NOON

    def __call__(self) -> float:
        return self.monotonic

    def now(self) -> datetime.datetime:
        return self.day

    def forward(self, seconds: float) -> None:
        self.monotonic += seconds
        self.day += datetime.timedelta(seconds=seconds)


def _health(clock: Clock) -> Health:
    return Health(["record", "annotations"], clock=clock, now=clock.now)


def test_unhealthy_until_everything_was_done_once() -> None:
    """A service that has not done all its duties yet is unhealthy."""
    health = _health(Clock())
    assert not health.healthy
    health["record"].succeeded()
    assert not health.healthy
    assert health.report()["duty"] == "annotations"
    health["annotations"].succeeded()
    assert health.report()["status"] == "healthy"


def test_a_failure_names_step_reason_and_since() -> None:
    """The report says which step fails, why, and since when the duty has been failing without a break."""
    clock = Clock()
    health = _health(clock)
    for duty in health.duties.values():
        duty.succeeded()
    clock.forward(60)
    health["record"].failed("discover-rails", "lldpd does not answer")
    clock.forward(30)
    health["record"].failed("publish", "the ConfigMap is missing")
    report = health.report()
    assert {key: report[key] for key in ("status", "duty", "step", "reason", "since")} == {
        "status": "unhealthy",
        "duty": "record",
        "step": "publish",
        "reason": "the ConfigMap is missing",
        "since": "2026-01-02T12:01:00Z",
    }
    assert report["duties"]["annotations"] == {"status": "done", "lastSuccess": "2026-01-02T12:00:00Z"}
    health["record"].succeeded()
    assert health.healthy


def test_setting_the_clock_changes_nothing() -> None:
    """F9: a jump of the time of day does not change the length of a failure."""
    clock = Clock()
    health = _health(clock)
    health["record"].failed("publish", "no")
    clock.monotonic += 10
    clock.day += datetime.timedelta(hours=5)
    assert health.report()["since"] == "2026-01-02T16:59:50Z"


def test_stopping_is_unhealthy() -> None:
    """F10: a service that has been told to end is not ready, whatever it has done."""
    health = _health(Clock())
    for duty in health.duties.values():
        duty.succeeded()
    health.stopping()
    assert not health.healthy
    assert health.report()["step"] == "stop"


def test_reasons_are_safe_to_print() -> None:
    """A reason that carries foreign text is cut and has no control characters."""
    health = _health(Clock())
    health["record"].failed("publish", "a\x1b[2Jb" + "x" * 5000)
    reason = health.report()["reason"]
    assert reason.startswith("a\\x1b[2Jb")
    assert len(reason) <= 1024
