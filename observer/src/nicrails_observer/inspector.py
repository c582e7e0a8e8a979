"""Tells what stands in the ConfigMap: how many records, how large, and which can not be read."""

from __future__ import annotations

import structlog

from nicrails_observer.metrics import Metrics
from nicrails_observer.slices import MAX_NAMES, sliced
from nicrails_observer.store import Snapshot
from nicrails_observer.survey import CONFIG_MAP_LIMIT, Fullness, Problem, Survey, fullness


class Inspector:
    """Turns what a look has read into metrics, and into log lines where something has changed.

    Args:
        metrics: The observer's metrics.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._survey = Survey()
        self._unreadable: dict[str, tuple[Problem, str]] = {}
        self._fullness = Fullness.FINE

    async def inspect(self, snapshot: Snapshot, *, hurried: bool = False) -> None:
        """Look at all records that stand.

        Args:
            snapshot: What stands.
            hurried: Only count and measure, since something more urgent waits; decoding is for a later look.
        """
        size = snapshot.size()
        self._metrics.records.set(len(snapshot.records))
        self._metrics.size.set(size)
        self._metrics.headroom.set(CONFIG_MAP_LIMIT - size)
        self._tell_fullness(size, len(snapshot.records))
        if hurried:
            return
        unreadable: dict[str, tuple[Problem, str]] = {}
        self._survey.begin()
        async for part in sliced(snapshot.records):
            unreadable |= self._survey.problems(part)
        self._survey.end()
        self._tell_unreadable(unreadable)

    def _tell_fullness(self, size: int, records: int) -> None:
        level = fullness(size)
        if level > self._fullness:
            logger = structlog.get_logger()
            tell = logger.error if level is Fullness.CRITICAL else logger.warning
            tell(
                "configmap-nearly-full",
                bytes=size,
                limit=CONFIG_MAP_LIMIT,
                records=records,
                reason=f"the records take more than {level.value} % of what a ConfigMap may hold; "
                "brokers can not publish when it is full",
            )
        self._fullness = level

    def _tell_unreadable(self, unreadable: dict[str, tuple[Problem, str]]) -> None:
        for problem in Problem:
            names = sorted(key for key, (found, _) in unreadable.items() if found is problem)
            self._metrics.unreadable.labels(problem.value).set(len(names))
            news = [key for key in names if unreadable[key] != self._unreadable.get(key)]
            if news:
                structlog.get_logger().warning(
                    "records-unreadable",
                    problem=problem.value,
                    count=len(names),
                    records=news[:MAX_NAMES],
                    reason=f"{news[0]}: {unreadable[news[0]][1]}",
                )
        self._unreadable = unreadable
