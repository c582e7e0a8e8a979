"""What is right and what is not, without any system."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from nicrails_faker.checker.judging import WrongRecordError, judge
from nicrails_faker.checker.model import Answer, Look, Service
from tests.faker.checker.looks import MACHINE, UID, config_map, document, golden, report, right

GONE = Answer(status=0, body="Cannot connect")


def faults(look: Look) -> list[str]:
    """All that is not right, each with the promise that it breaks."""
    return [f"{promise.text}: {fault}" for promise in judge(look, {MACHINE: golden()}) for fault in promise.faults]


def records(data: Mapping[str, str]) -> Callable[[Look], Look]:
    """Other records in the ConfigMap."""
    return lambda look: dataclasses.replace(look, config_map=config_map() | {"data": dict(data)})


def owners(*references: dict[str, Any]) -> Callable[[Look], Look]:
    """Other owners of the ConfigMap."""
    metadata = {"ownerReferences": list(references)}
    return lambda look: dataclasses.replace(look, config_map=config_map() | {"metadata": metadata})


def broker(**changes: Any) -> Callable[[Look], Look]:
    """The broker answers something else."""
    return lambda look: dataclasses.replace(
        look, brokers={MACHINE: dataclasses.replace(look.brokers[MACHINE], **changes)}
    )


def observer(**changes: Any) -> Callable[[Look], Look]:
    """The observer answers something else."""
    return lambda look: dataclasses.replace(look, observer=dataclasses.replace(look.observer, **changes))


def said(service: Service, old: str, new: str) -> Answer:
    """The metrics with another text in them."""
    assert old in service.metrics.body
    return dataclasses.replace(service.metrics, body=service.metrics.body.replace(old, new))


def broker_metric(old: str, new: str) -> Callable[[Look], Look]:
    """One sample of the broker is another."""
    return lambda look: broker(metrics=said(look.brokers[MACHINE], old, new))(look)


def observer_metric(old: str, new: str) -> Callable[[Look], Look]:
    """One sample of the observer is another."""
    return lambda look: observer(metrics=said(look.observer, old, new))(look)


def test_what_is_right_has_no_fault() -> None:
    """A system whose records, health and metrics are right keeps every promise, and there are promises about each part."""
    promises = judge(right(), {MACHINE: golden()})
    assert [promise.faults for promise in promises] == [()] * 7
    assert len({promise.text for promise in promises}) == 7


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        pytest.param(lambda look: dataclasses.replace(look, config_map={}), "there is no ConfigMap", id="no ConfigMap"),
        pytest.param(owners(), "its controller is []", id="nobody's ConfigMap"),
        pytest.param(
            owners({"kind": "Deployment", "uid": "other", "controller": True}),
            "('Deployment', 'other')",
            id="another's",
        ),
        pytest.param(records({}), "golden one: there is none", id="no record"),
        pytest.param(records({MACHINE: document(), "foreign": "{}"}), "there is 'foreign'", id="a foreign record"),
        pytest.param(
            records({MACHINE: document().replace(UID, UID[::-1])}),
            "it is that of a former Node",
            id="a former Node's record",
        ),
        pytest.param(lambda look: dataclasses.replace(look, nodes={}), "there is no such Node", id="no Node"),
        pytest.param(broker(livez=GONE), "/livez answers nothing: Cannot connect", id="no broker"),
        pytest.param(broker(readyz=Answer(status=503, body="no")), "/readyz answers 503: no", id="not ready"),
        pytest.param(broker(healthz=Answer(status=503, body="{}")), "/healthz answers 503", id="unhealthy"),
        pytest.param(broker(report=report()), "/healthz says", id="a duty that is not there"),
        pytest.param(broker(report=report("rails-record") | {"status": "failing"}), "/healthz says", id="failing"),
        pytest.param(
            observer(report=report("configmap", "nodes", "garbage-collection", "more")),
            "/healthz says",
            id="a duty too many",
        ),
        pytest.param(broker(metrics=Answer(status=404)), "/metrics answers 404", id="no metrics"),
        pytest.param(
            broker(metrics=Answer(status=200, content_type="application/json", body="{}")),
            "of type",
            id="metrics as JSON",
        ),
        pytest.param(broker_metric("rails-record", 'rails-record"'), "no Prometheus text", id="no Prometheus text"),
        pytest.param(
            broker_metric("_gpus 8", "_gpus 7"), "nicrails_broker_record_gpus is 7, not 8", id="a wrong number"
        ),
        pytest.param(
            broker_metric('written"} 1', 'written"} 0'),
            'result="written"} is 0, not at least 1',
            id="nothing published",
        ),
        pytest.param(
            broker_metric("nicrails_broker_record_nics ", "x "), "no nicrails_broker_record_nics", id="missing"
        ),
        pytest.param(
            broker_metric("# HELP nicrails_broker_record_rails Text.\n", ""), "has no type or no help", id="no help"
        ),
        pytest.param(
            observer_metric('removals_total{reason="gone"} 0', 'removals_total{reason="gone"} 1'),
            "nicrails_observer_removals_total is 1, not 0",
            id="a removal",
        ),
        pytest.param(
            observer_metric("_nodes 1", "_nodes 2"), "nicrails_observer_nodes is 2, not 1", id="a Node too many"
        ),
    ],
)
def test_what_is_wrong_is_named(damage: Callable[[Look], Look], expected: str) -> None:
    """Whatever part of the system is wrong, a fault names it."""
    found = faults(damage(right()))
    assert any(expected in fault for fault in found), found


def test_a_wrong_record_ends_the_waiting() -> None:
    """A record of a present Node that is not its golden one is never a state on the way; what is shown of it is short."""
    wrong = document().replace("rail0", "rail9") + " " * 10_000
    with pytest.raises(WrongRecordError, match=f"the record of {MACHINE} is another") as caught:
        judge(records({MACHINE: wrong})(right()), {MACHINE: golden()})
    assert len(str(caught.value)) < 400
