"""How a service of the faker goes, told in three places: the health report, the metrics and the log."""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from nicrails.kube import ApiError, ForbiddenError, UnauthorizedError, UnreachableError
from nicrails.service import Health

RESTARTS = ("timeout", "gone", "cut", "silent", "refused")


def explain(error: ApiError) -> str:
    """One sentence: what failed, with what, and what to do."""
    if isinstance(error, ForbiddenError):
        return f"the service account may not do this; give its Role the permission: {error}"
    if isinstance(error, UnauthorizedError):
        return f"the API server does not accept the credentials, also after they were read again; renew them: {error}"
    if isinstance(error, UnreachableError):
        return f"no usable answer from the API server; check that it runs and can be reached from this pod: {error}"
    if error.causes:
        return f"the API server will not take this: {'; '.join(error.causes)}: {error}"
    return f"the API server failed; it is tried again by itself: {error}"


class Metrics:
    """What every service counts; every series is there from the start, so that a rate can be taken of it.

    Args:
        registry: Where they are registered.
        now: The time of day in seconds since 1970.
    """

    def __init__(self, registry: CollectorRegistry, *, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self.failures = Counter("nicrails_faker_failures", "Failures, by duty.", ("duty",), registry=registry)
        self.last_success = Gauge(
            "nicrails_faker_last_success_timestamp_seconds",
            "Time of the last success, by duty; 0 before the first.",
            ("duty",),
            registry=registry,
        )
        self.lists = Counter(
            "nicrails_faker_lists", "Complete lists, by collection.", ("collection",), registry=registry
        )
        self.restarts = Counter(
            "nicrails_faker_watch_restarts",
            "Watches that ended, by collection and reason.",
            ("collection", "reason"),
            registry=registry,
        )

    def succeeded(self, duty: str) -> None:
        """A duty was done just now."""
        self.last_success.labels(duty).set(self._now())


class Report:
    """Tells how a duty goes.

    Args:
        name: The duty's name.
        health: Has a duty of this name.
        metrics: The service's metrics.
    """

    def __init__(self, name: str, health: Health, metrics: Metrics) -> None:
        self._name = name
        self._duty = health[name]
        self._metrics = metrics
        metrics.failures.labels(name)
        metrics.last_success.labels(name)

    @property
    def reason(self) -> str:
        """Why the duty is not done, or ""."""
        return self._duty.failure.reason if self._duty.failure else ""

    def succeeded(self) -> None:
        """The duty was done."""
        if self._duty.failure is not None:
            structlog.get_logger().info("duty-done", duty=self._name)
        self._duty.succeeded()
        self._metrics.succeeded(self._name)

    def failed(self, step: str, reason: str) -> None:
        """A step failed; the log holds back what it has said within the last minute."""
        structlog.get_logger().warning("duty-failed", duty=self._name, step=step, reason=reason)
        self._duty.failed(step, reason)
        self._metrics.failures.labels(self._name).inc()

    def api_failed(self, step: str, error: ApiError) -> None:
        """A request failed."""
        self.failed(step, explain(error))

    def waits(self, step: str, reason: str) -> None:
        """The duty can not be done yet, which is no fault: told, but logged only when it changes."""
        failure = self._duty.failure
        if failure is None or (failure.step, failure.reason) != (step, reason):
            structlog.get_logger().info("duty-waits", duty=self._name, step=step, reason=reason)
        self._duty.failed(step, reason)


class WatchReport:
    """What a reflector tells, as health, metrics and log.

    Args:
        collection: What is followed, such as ``nodes``.
        report: The duty that is done while the collection is followed.
        metrics: The service's metrics.
    """

    def __init__(self, collection: str, report: Report, metrics: Metrics) -> None:
        self._collection = collection
        self._report = report
        self._metrics = metrics
        metrics.lists.labels(collection)
        for reason in RESTARTS:
            metrics.restarts.labels(collection, reason)

    def listed(self, count: int, seconds: float) -> None:
        """A complete list was read."""
        structlog.get_logger().info("listed", collection=self._collection, count=count, seconds=round(seconds, 3))
        self._metrics.lists.labels(self._collection).inc()
        self._report.succeeded()

    def restarted(self, reason: str) -> None:
        """The watch ended."""
        self._metrics.restarts.labels(self._collection, reason).inc()
        structlog.get_logger().info("watch-ended", collection=self._collection, reason=reason)

    def failed(self, error: ApiError) -> None:
        """A list or a watch failed."""
        self._report.api_failed(f"follow-{self._collection}", error)
