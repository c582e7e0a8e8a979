"""Metrics and the log: two sinks of the same events."""

from __future__ import annotations

import re

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from structlog.testing import capture_logs

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
from nicrails_broker.failures import Step
from nicrails_broker.logsink import log
from nicrails_broker.metrics import Metrics

EVENTS: list[Event] = [
    SourceLooked(kind="rails", source="host-lldp", found=Found.FOUND, seconds=0.25),
    SourceLooked(kind="gpus", source="gpu-operator", found=Found.NOTHING, seconds=0.5),
    WithoutNeighbor(interfaces=("eth1", "eth2")),
    CommandWarned(command="lldpctl", said="odd"),
    CommandHung(command="nvidia-smi topo -m"),
    Published(result=Publication.WRITTEN, size=4096, rails=8, nics=16, gpus=8),
    Done(duty="rails-record", recovered=True),
    Annotated(value="mac:x", changed=True),
    Failed(duty="rails-record", step=Step.PUBLISH, reason="full", pause=300.0),
]


def samples(*events: Event) -> dict[str, float]:
    """All samples after these events."""
    registry = CollectorRegistry(auto_describe=True)
    sink = Metrics(registry, ["rails-record"], now=lambda: 1234.0)
    for event in events:
        sink(event)
    return {
        f"{sample.name}{dict(sorted(sample.labels.items())) or ''}": sample.value
        for family in registry.collect()
        for sample in family.samples
    }


@pytest.mark.parametrize(
    ("found", "success", "last"), [(Found.FOUND, 1, 1234), (Found.NOTHING, 1, 1234), (Found.FAILED, 0, None)]
)
def test_found_nothing_and_failed_are_three_values(found: Found, success: float, last: float | None) -> None:
    """A source that has nothing is told from one that failed, in the state, the success and the time of it."""
    seen = samples(SourceLooked(kind="rails", source="x", found=found, seconds=0.25))
    source = "{'kind': 'rails', 'source': 'x'}"
    states = {
        state: seen[f"nicrails_broker_source_state{{'kind': 'rails', 'source': 'x', 'state': '{state}'}}"]
        for state in Found
    }
    assert states == {state: float(state is found) for state in Found}
    assert seen[f"nicrails_broker_source_success{source}"] == success
    assert seen[f"nicrails_broker_source_duration_seconds{source}"] == 0.25
    assert seen.get(f"nicrails_broker_source_last_success_timestamp_seconds{source}") == last


def test_a_publication_shows_in_size_and_counts() -> None:
    """What stands in the ConfigMap is measured, and a failed publication changes none of it."""
    written = Published(result=Publication.WRITTEN, size=4096, rails=8, nics=16, gpus=4)
    failed = Published(result=Publication.FAILED, size=0, rails=0, nics=0, gpus=0)
    seen = samples(written, failed)
    assert seen["nicrails_broker_record_size_bytes"] == 4096
    assert [seen[f"nicrails_broker_record_{what}"] for what in ("rails", "nics", "gpus")] == [8, 16, 4]
    assert seen["nicrails_broker_publications_total{'result': 'written'}"] == 1
    assert seen["nicrails_broker_publications_total{'result': 'failed'}"] == 1
    assert seen["nicrails_broker_publications_total{'result': 'unchanged'}"] == 0


def test_failures_and_recoveries_show_per_duty() -> None:
    """A duty is 0 until it was done once and while it fails; failures are counted by step."""
    failed = Failed(duty="rails-record", step=Step.JOIN, reason="x", pause=1.0)
    duty = "nicrails_broker_duty_done{'duty': 'rails-record'}"
    assert samples()[duty] == 0
    assert samples(Done(duty="rails-record", recovered=True))[duty] == 1
    seen = samples(Done(duty="rails-record", recovered=True), failed, failed)
    assert seen[duty] == 0
    assert seen["nicrails_broker_failures_total{'duty': 'rails-record', 'step': 'join'}"] == 2


def test_metric_names_follow_the_conventions() -> None:
    """Names end in their unit, counters and only counters in ``_total``, every metric has a help text that ends as one."""
    registry = CollectorRegistry(auto_describe=True)
    sink = Metrics(registry, ["rails-record"])
    for event in EVENTS:
        sink(event)
    text = generate_latest(registry).decode()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        if name.endswith("_created"):
            continue
        assert re.fullmatch(r"nicrails_broker_[a-z_]+", name)
        assert (kind == "counter") == name.endswith("_total"), name
        assert not re.search(r"milli|micro|_(ms|kb|mb|minutes|gauge|counter)$", name)
    for name, help_text in re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE):
        assert help_text.endswith("."), name


def test_each_fact_is_one_line() -> None:
    """Every event that an operator wants to know is one log line with its facts, and no other is written."""
    with capture_logs() as lines:
        for event in EVENTS:
            log(event)
        log(Published(result=Publication.UNCHANGED, size=1, rails=1, nics=1, gpus=1))
        log(Published(result=Publication.FAILED, size=0, rails=0, nics=0, gpus=0))
        log(Done(duty="rails-record", recovered=False))
        log(WithoutNeighbor(interfaces=()))
        log(Annotated(value="mac:x", changed=False))
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("source-looked", "debug"),
        ("source-looked", "debug"),
        ("interfaces-without-neighbor", "warning"),
        ("command-warned", "warning"),
        ("command-hung", "error"),
        ("record-published", "info"),
        ("duty-done", "info"),
        ("node-annotated", "info"),
        ("step-failed", "warning"),
    ]
    assert lines[-1] == {
        "event": "step-failed",
        "log_level": "warning",
        "duty": "rails-record",
        "step": "publish",
        "reason": "full",
        "retry_seconds": 300.0,
    }
