"""Reports on a duty go to three places: the health report, the metrics and the log."""

from __future__ import annotations

import structlog

from nicrails.kube import ApiError
from nicrails.service import Duty
from nicrails_observer.metrics import Metrics
from nicrails_observer.reasons import explain

CONFIG_MAP = "configmap"
NODES = "nodes"
GARBAGE_COLLECTION = "garbage-collection"
DUTIES = (CONFIG_MAP, NODES, GARBAGE_COLLECTION)


class Report:
    """Tells how a duty goes.

    Args:
        duty: Its state in the health report.
        metrics: The observer's metrics.
    """

    def __init__(self, duty: Duty, metrics: Metrics) -> None:
        self._duty = duty
        self._metrics = metrics

    @property
    def reason(self) -> str:
        """Why the duty is not done, or ""."""
        return self._duty.failure.reason if self._duty.failure else ""

    def succeeded(self) -> None:
        """The duty was done."""
        if self._duty.failure is not None:
            structlog.get_logger().info("duty-done", duty=self._duty.name)
        self._duty.succeeded()
        self._metrics.succeeded(self._duty.name)

    def failed(self, step: str, reason: str, *, level: str = "warning") -> None:
        """A step failed; the log holds back what it has said within the last minute."""
        getattr(structlog.get_logger(), level)("duty-failed", duty=self._duty.name, step=step, reason=reason)
        self._duty.failed(step, reason)
        self._metrics.failures.labels(self._duty.name).inc()

    def waits(self, step: str, reason: str) -> None:
        """The duty can not be done yet, which is no fault of its own: told, but logged only when it changes."""
        failure = self._duty.failure
        if failure is None or (failure.step, failure.reason) != (step, reason):
            structlog.get_logger().info("duty-waits", duty=self._duty.name, step=step, reason=reason)
        self._duty.failed(step, reason)

    def api_failed(self, step: str, error: ApiError) -> None:
        """A request failed."""
        self.failed(step, explain(error))
