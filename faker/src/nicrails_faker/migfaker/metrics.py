"""What the MIG faker counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

OUTCOMES = ("applied", "refused", "not-taken")


class Metrics:
    """Counters; every series is there from the start.

    Args:
        registry: Where they are registered.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "nicrails_faker_mig_requests",
            "MIG requests that came to an end, by outcome.",
            ("outcome",),
            registry=registry,
        )
        self.duration = Histogram(
            "nicrails_faker_mig_taken_seconds",
            "Seconds from the write of a topology until the Node advertised it.",
            registry=registry,
            buckets=(0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0),
        )
        for outcome in OUTCOMES:
            self.requests.labels(outcome)
