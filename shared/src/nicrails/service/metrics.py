"""Metrics that every service has: its version, its process, and how well its event loop turns."""

from __future__ import annotations

import asyncio
import time
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Gauge, Info, ProcessCollector, disable_created_metrics

LAG_PERIOD = 0.5


def registry(distribution: str) -> CollectorRegistry:
    """A registry of its own, with the process and the version of a distribution.

    Args:
        distribution: Such as ``nicrails-broker``.
    """
    # One more series per counter that nothing reads.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    metrics = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=metrics)
    Info("nicrails_build", "The version that runs.", registry=metrics).info(
        {"component": distribution, "version": version(distribution)}
    )
    return metrics


class LoopMonitor:
    """Measures by how much a timer of the event loop is late, which is what everything else has to wait, too."""

    def __init__(self, metrics: CollectorRegistry) -> None:
        self._last = Gauge("nicrails_event_loop_lag_seconds", "Lateness of the last timer.", registry=metrics)
        self._worst = Gauge(
            "nicrails_event_loop_lag_max_seconds", "Worst lateness of a timer so far.", registry=metrics
        )
        self.worst = 0.0

    async def run(self) -> None:
        """Measure for ever."""
        while True:
            before = time.monotonic()
            await asyncio.sleep(LAG_PERIOD)
            lag = max(0.0, time.monotonic() - before - LAG_PERIOD)
            self.worst = max(self.worst, lag)
            self._last.set(lag)
            self._worst.set(self.worst)
