"""The observer's metrics."""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Summary

from nicrails_observer.survey import CONFIG_MAP_LIMIT, Problem
from nicrails_observer.verdicts import Verdict


class Metrics:
    """What the observer counts and shows; every series is there from the start, so that a rate can be taken of it.

    Args:
        registry: Where they are registered.
        duties: The duties whose successes are timed.
        now: The time of day in seconds since 1970.
    """

    def __init__(
        self, registry: CollectorRegistry, *, duties: tuple[str, ...] = (), now: Callable[[], float] = time.time
    ) -> None:
        self._now = now

        def gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
            return Gauge(f"nicrails_observer_{name}", text, labels, registry=registry)

        def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(f"nicrails_observer_{name}", text, labels, registry=registry)

        self.records = gauge("configmap_records", "Records in the ConfigMap.")
        self.size = gauge("configmap_bytes", "Bytes of all values of the ConfigMap.")
        self.headroom = gauge("configmap_headroom_bytes", "Bytes left until the API server refuses a larger ConfigMap.")
        self.headroom.set(CONFIG_MAP_LIMIT)
        self.owned = gauge("configmap_owned", "1 while the ConfigMap is there and is this observer's, else 0.")
        self.creations = counter("configmap_creations", "ConfigMaps created by this process.")
        self.unreadable = gauge(
            "unreadable_records", "Records that are kept although they can not be read, by problem.", ("problem",)
        )
        self.nodes = gauge("nodes", "Nodes that the watch shows.")
        self.lists = counter("node_lists", "Complete lists of the Nodes.")
        self.list_time = Summary(
            "nicrails_observer_node_list_duration_seconds",
            "Duration of complete lists of the Nodes.",
            registry=registry,
        )
        self.watch_restarts = counter("watch_restarts", "Watches of the Nodes that ended, by reason.", ("reason",))
        self.passes = counter("passes", "Looks at all records, by outcome.", ("outcome",))
        self.pass_time = Summary(
            "nicrails_observer_pass_duration_seconds", "Duration of looks at all records.", registry=registry
        )
        self.removals = counter("removals", "Records removed, by reason.", ("reason",))
        self.refused = counter(
            "refused_removals", "Records that changed before they could be removed, so they were looked at again."
        )
        self.contradictions = counter(
            "contradictions", "Records kept because a live read contradicted the watch or a list of the Nodes."
        )
        self.patches = counter("patches", "Patches of the ConfigMap, by outcome.", ("outcome",))
        self.brake_engaged = gauge("brake_engaged", "1 while the brake against mass removal is engaged, else 0.")
        self.brake_engagements = counter("brake_engagements", "Mass removals that were stopped for a confirmation.")
        self.brake_refusals = counter("brake_refusals", "Mass removals that the confirmation contradicted.")
        self.failures = counter("failures", "Failures, by duty.", ("duty",))
        self.last_success = gauge(
            "last_success_timestamp_seconds", "Time of the last success, by duty; 0 before the first.", ("duty",)
        )
        for reason in ("timeout", "gone", "cut", "silent", "refused"):
            self.watch_restarts.labels(reason)
        for verdict in (verdict for verdict in Verdict if verdict.removes):
            self.removals.labels(verdict.value)
        for outcome in ("done", "refused", "unknown", "failed"):
            self.patches.labels(outcome)
        for outcome in ("done", "failed"):
            self.passes.labels(outcome)
        for problem in Problem:
            self.unreadable.labels(problem.value)
        for duty in duties:
            self.failures.labels(duty)
            self.last_success.labels(duty)

    def succeeded(self, duty: str) -> None:
        """A duty was done just now."""
        self.last_success.labels(duty).set(self._now())
