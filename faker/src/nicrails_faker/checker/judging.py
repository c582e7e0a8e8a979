"""What must hold of a system, judged from one look at it; no input or output."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from nicrails import NodeRecord, NodeUid, encode
from nicrails.text import excerpt
from nicrails_faker.checker.model import Answer, Look, Service

CONFIG_MAP_LIMIT = 1_048_576
"""Bytes of all values of a ConfigMap that an API server takes."""
_PROMETHEUS = "text/plain; version=0.0.4"
_DUTIES = {"broker": {"rails-record"}, "observer": {"configmap", "nodes", "garbage-collection"}}


class WrongRecordError(Exception):
    """A record of a present Node is not the golden one; it must not be published even for a moment, so waiting is no use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """Something that must hold.

    Attributes:
        text: What.
        faults: What is the case instead; empty if it holds.
    """

    text: str
    faults: tuple[str, ...]


def judge(look: Look, golden: Mapping[str, NodeRecord]) -> tuple[Promise, ...]:
    """Judge a look.

    Args:
        look: What was seen.
        golden: The golden record of each machine by its Node's name, of any UID.

    Raises:
        WrongRecordError: There is a record of a present Node, and it is not its golden one.
    """
    promises = [Promise(text="the ConfigMap is controlled by the observer's Deployment", faults=tuple(_owner(look)))]
    for name, record in golden.items():
        promises.append(
            Promise(text=f"the record of {name} is the golden one", faults=tuple(_record(look, name, record)))
        )
    foreign = tuple(f"there is {name!r}" for name in sorted(look.records.keys() - golden.keys()))
    promises.append(Promise(text="there is no other record", faults=foreign))
    services = [("the observer", "observer", look.observer, _observer_metrics(look))]
    for name, record in golden.items():
        services.append((f"the broker of {name}", "broker", look.brokers[name], _broker_metrics(look, name, record)))
    for who, kind, service, wanted in services:
        promises.append(Promise(text=f"{who} is healthy", faults=tuple(_health(service, _DUTIES[kind]))))
        promises.append(Promise(text=f"the metrics of {who} tell this", faults=tuple(_metrics(service, kind, wanted))))
    return tuple(promises)


def _owner(look: Look) -> Iterator[str]:
    if not look.config_map:
        yield "there is no ConfigMap"
        return
    owners = look.config_map["metadata"].get("ownerReferences") or []
    controllers = [(owner["kind"], owner["uid"]) for owner in owners if owner.get("controller")]
    if controllers != [("Deployment", look.deployment)]:
        yield f"its controller is {controllers}, the Deployment is {look.deployment!r}"


def _record(look: Look, name: str, golden: NodeRecord) -> Iterator[str]:
    document, uid = look.records.get(name), look.nodes.get(name)
    if uid is None:
        yield "there is no such Node"
    elif document is None:
        yield "there is none"
    elif document.encode() != encode(dataclasses.replace(golden, node_uid=NodeUid.parse(uid))):
        if f'"nodeUID":"{uid}"' in document:
            raise WrongRecordError(f"the record of {name} is another than the golden one: {excerpt(document)}")
        yield "it is that of a former Node"


def _health(service: Service, duties: set[str]) -> Iterator[str]:
    for path, answer in (("/livez", service.livez), ("/readyz", service.readyz), ("/healthz", service.healthz)):
        if answer.status != 200:
            yield f"{path} answers {_shown(answer)}"
    if service.healthz.status != 200:
        return
    shown = service.report.get("duties")
    states = {name: duty.get("status") for name, duty in shown.items()} if isinstance(shown, dict) else {}
    if service.report.get("status") != "healthy" or states != dict.fromkeys(duties, "done"):
        yield f"/healthz says {excerpt(service.healthz.body)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the samples of a metric that have these labels must sum up to: a value, or at least that."""

    name: str
    value: float
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    at_least: bool = False


def _broker_metrics(look: Look, name: str, golden: NodeRecord) -> tuple[Wanted, ...]:
    def found(kind: str, number: int) -> Wanted:
        state = "found" if number else "nothing"
        return Wanted(name="nicrails_broker_source_state", labels={"kind": kind, "state": state}, value=1)

    return (
        Wanted(name="nicrails_build_info", labels={"component": "nicrails-broker"}, value=1),
        Wanted(name="nicrails_broker_duty_done", labels={"duty": "rails-record"}, value=1),
        Wanted(name="nicrails_broker_record_size_bytes", value=len(look.records.get(name, "").encode())),
        Wanted(name="nicrails_broker_record_rails", value=len({rail for ids in golden.nics.values() for rail in ids})),
        Wanted(name="nicrails_broker_record_nics", value=len(golden.nics)),
        Wanted(name="nicrails_broker_record_gpus", value=len(golden.gpus)),
        Wanted(name="nicrails_broker_publications_total", labels={"result": "removed"}, value=0),
        Wanted(name="nicrails_broker_publications_total", labels={"result": "written"}, value=1, at_least=True),
        Wanted(name="nicrails_broker_last_publication_timestamp_seconds", value=1, at_least=True),
        found("rails", len(golden.nics)),
        found("gpus", len(golden.gpus)),
    )


def _observer_metrics(look: Look) -> tuple[Wanted, ...]:
    size = sum(len(document.encode()) for document in look.records.values())
    return (
        Wanted(name="nicrails_build_info", labels={"component": "nicrails-observer"}, value=1),
        Wanted(name="nicrails_observer_configmap_owned", value=1),
        Wanted(name="nicrails_observer_configmap_records", value=len(look.records)),
        Wanted(name="nicrails_observer_configmap_bytes", value=size),
        Wanted(name="nicrails_observer_configmap_headroom_bytes", value=CONFIG_MAP_LIMIT - size),
        Wanted(name="nicrails_observer_nodes", value=len(look.nodes)),
        Wanted(name="nicrails_observer_unreadable_records", value=0),
        Wanted(name="nicrails_observer_removals_total", value=0),
        Wanted(name="nicrails_observer_brake_engaged", value=0),
        Wanted(name="nicrails_observer_passes_total", labels={"outcome": "done"}, value=1, at_least=True),
    )


def _metrics(service: Service, kind: str, wanted: Iterable[Wanted]) -> Iterator[str]:
    answer = service.metrics
    if answer.status != 200 or not answer.content_type.startswith(_PROMETHEUS):
        yield f"/metrics answers {_shown(answer)} of type {answer.content_type!r}"
        return
    try:
        families = list(text_string_to_metric_families(answer.body))
    except ValueError as error:
        yield f"/metrics is no Prometheus text: {excerpt(str(error))}"
        return
    for family in families:
        if family.name.startswith(f"nicrails_{kind}_") and (family.type == "unknown" or not family.documentation):
            yield f"{family.name} has no type or no help"
    for want in wanted:
        found = _sum(families, want)
        if found is None:
            yield f"there is no {_named(want)}"
        elif found < want.value or (found != want.value and not want.at_least):
            yield f"{_named(want)} is {found:g}, not {'at least ' if want.at_least else ''}{want.value:g}"


def _sum(families: Iterable[Metric], want: Wanted) -> float | None:
    values = [
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == want.name and want.labels.items() <= sample.labels.items()
    ]
    return sum(values) if values else None


def _named(want: Wanted) -> str:
    labels = ",".join(f'{name}="{value}"' for name, value in want.labels.items())
    return f"{want.name}{{{labels}}}" if labels else want.name


def _shown(answer: Answer) -> str:
    return f"{answer.status or 'nothing'}: {excerpt(answer.body)}"
