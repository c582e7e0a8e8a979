"""The broker's metrics: a sink of its events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge

from nicrails_broker.events import (
    Annotated,
    CommandHung,
    CommandWarned,
    Done,
    Event,
    Failed,
    Found,
    Publication,
    Published,
    SourceLooked,
    WithoutNeighbor,
)

PREFIX = "nicrails_broker"


class Metrics:
    """Counts and measures.

    Args:
        registry: Where the metrics are shown.
        duties: The names of the duties of this process.
        now: Unix seconds, for times that are shown; nothing is decided by them.
    """

    def __init__(
        self, registry: CollectorRegistry, duties: Iterable[str], now: Callable[[], float] = time.time
    ) -> None:
        self._now = now
        duty, source = ("duty",), ("kind", "source")
        self._done = Gauge(f"{PREFIX}_duty_done", "Whether a duty is done (1) or fails (0).", duty, registry=registry)
        self._failures = Counter(
            f"{PREFIX}_failures_total",
            "Failed tries by step; each is tried again.",
            ("duty", "step"),
            registry=registry,
        )
        self._state = Gauge(
            f"{PREFIX}_source_state",
            "1 for the state of a source's last look: found, nothing (it could look and there is none), failed, disabled.",
            (*source, "state"),
            registry=registry,
        )
        self._success = Gauge(
            f"{PREFIX}_source_success", "Whether the last look at a source succeeded.", source, registry=registry
        )
        self._duration = Gauge(
            f"{PREFIX}_source_duration_seconds", "How long the last look at a source took.", source, registry=registry
        )
        self._last_success = Gauge(
            f"{PREFIX}_source_last_success_timestamp_seconds",
            "When a source was last looked at with success, in Unix time.",
            source,
            registry=registry,
        )
        self._idle = Gauge(
            f"{PREFIX}_interfaces_without_neighbor",
            "Interfaces that interfaceRegex selects and that have no LLDP neighbour.",
            registry=registry,
        )
        self._publications = Counter(
            f"{PREFIX}_publications_total", "Publications of the record by result.", ("result",), registry=registry
        )
        self._last_publication = Gauge(
            f"{PREFIX}_last_publication_timestamp_seconds",
            "When the record was last known to be in its place, in Unix time.",
            registry=registry,
        )
        self._bytes = Gauge(f"{PREFIX}_record_size_bytes", "Size of the published record.", registry=registry)
        self._rails = Gauge(f"{PREFIX}_record_rails", "Rails in the published record.", registry=registry)
        self._nics = Gauge(f"{PREFIX}_record_nics", "NICs in the published record.", registry=registry)
        self._gpus = Gauge(f"{PREFIX}_record_gpus", "GPUs in the published record.", registry=registry)
        self._hung = Counter(
            f"{PREFIX}_exec_timeouts_total", "Commands in a container that did not end in time.", registry=registry
        )
        self._warned = Counter(
            f"{PREFIX}_command_warnings_total",
            "Commands that succeeded and wrote to standard error.",
            ("command",),
            registry=registry,
        )
        self._annotations = Counter(
            f"{PREFIX}_annotation_writes_total", "Writes of the provider annotation.", registry=registry
        )
        for name in duties:
            self._done.labels(name).set(0)
        for result in Publication:
            self._publications.labels(result.value)

    def __call__(self, event: Event) -> None:
        """Take an event."""
        match event:
            case SourceLooked():
                self._looked(event)
            case Published():
                self._published(event)
            case Failed(duty=duty, step=step):
                self._failures.labels(duty, step.value).inc()
                self._done.labels(duty).set(0)
            case Done(duty=duty):
                self._done.labels(duty).set(1)
            case WithoutNeighbor(interfaces=interfaces):
                self._idle.set(len(interfaces))
            case CommandHung():
                self._hung.inc()
            case CommandWarned(command=command):
                self._warned.labels(command).inc()
            case Annotated(changed=True):
                self._annotations.inc()
            case Annotated():
                pass

    def _looked(self, event: SourceLooked) -> None:
        for state in Found:
            self._state.labels(event.kind, event.source, state.value).set(state is event.found)
        source = (event.kind, event.source)
        self._success.labels(*source).set(event.found is not Found.FAILED)
        self._duration.labels(*source).set(event.seconds)
        if event.found is not Found.FAILED:
            self._last_success.labels(*source).set(self._now())

    def _published(self, event: Published) -> None:
        self._publications.labels(event.result.value).inc()
        if event.result is Publication.FAILED:
            return
        self._last_publication.set(self._now())
        self._bytes.set(event.size)
        self._rails.set(event.rails)
        self._nics.set(event.nics)
        self._gpus.set(event.gpus)
