from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from nicrails_observer.duties import DUTIES
from nicrails_observer.metrics import Metrics


def test_names_follow_the_conventions() -> None:
    """Counters end in ``_total``, nothing else does, every family has a help text and starts with the service's name."""
    registry = CollectorRegistry()
    Metrics(registry, duties=DUTIES)
    families = list(text_string_to_metric_families(generate_latest(registry).decode()))
    assert len(families) > 15
    for family in families:
        assert family.name.startswith("nicrails_observer_")
        assert family.documentation.endswith(".")
        assert any(sample.name.endswith("_total") for sample in family.samples) == (family.type == "counter")


def test_every_series_is_there_from_the_start() -> None:
    """A counter that appears with its first event hides that event from a rate, so all labels are there at zero."""
    registry = CollectorRegistry()
    Metrics(registry, duties=DUTIES)
    for name, label, value in (
        ("removals_total", "reason", "node-gone"),
        ("removals_total", "reason", "node-replaced"),
        ("watch_restarts_total", "reason", "silent"),
        ("patches_total", "outcome", "refused"),
        ("unreadable_records", "problem", "malformed"),
        ("failures_total", "duty", "configmap"),
        ("last_success_timestamp_seconds", "duty", "nodes"),
    ):
        assert registry.get_sample_value(f"nicrails_observer_{name}", {label: value}) == 0


def test_successes_are_timed() -> None:
    """The time of the last success of a duty is seconds since 1970."""
    registry = CollectorRegistry()
    Metrics(registry, duties=DUTIES, now=lambda: 1234.5).succeeded("nodes")
    assert registry.get_sample_value("nicrails_observer_last_success_timestamp_seconds", {"duty": "nodes"}) == 1234.5
