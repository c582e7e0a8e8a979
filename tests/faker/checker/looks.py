"""A look at a system of one machine in which everything is right, to be damaged by tests."""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson

from nicrails import NodeRecord, NodeUid, decode, encode
from nicrails_faker.checker.model import Answer, Look, Service
from nicrails_faker.machines import shipped

MACHINE = "h100-8gpu-dualport"
UID = "11111111-2222-3333-4444-555555555555"
OWNER = "99999999-2222-3333-4444-555555555555"


def golden() -> NodeRecord:
    """The machine's golden record, of another UID than the Node's."""
    record = shipped(MACHINE).record
    assert record is not None
    return decode(record)


def document() -> str:
    """The record that must stand."""
    return encode(dataclasses.replace(golden(), node_uid=NodeUid.parse(UID))).decode()


def config_map() -> dict[str, Any]:
    """The ConfigMap as the observer and the broker make it."""
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "nicrails-observer",
        "uid": OWNER,
        "controller": True,
    }
    return {"metadata": {"ownerReferences": [owner]}, "data": {MACHINE: document()}}


def report(*duties: str) -> dict[str, Any]:
    """The answer of ``/healthz`` when these duties are done."""
    return {"status": "healthy", "duties": {duty: {"status": "done"} for duty in duties}}


def metrics(*samples: str) -> str:
    """The text of these samples, each with its type and help; ``_total`` is a counter's."""
    lines: list[str] = []
    seen: set[str] = set()
    for sample in samples:
        name = sample.split("{")[0].split(" ")[0]
        if name not in seen:
            seen.add(name)
            lines += [f"# HELP {name} Text.", f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}"]
        lines.append(sample)
    return "\n".join(lines) + "\n"


def broker_metrics() -> str:
    """Those of a broker that has published the record."""
    record = golden()
    rails = {rail for ids in record.nics.values() for rail in ids}
    return metrics(
        'nicrails_build_info{component="nicrails-broker",version="0"} 1',
        'nicrails_broker_duty_done{duty="rails-record"} 1',
        f"nicrails_broker_record_size_bytes {len(document())}",
        f"nicrails_broker_record_rails {len(rails)}",
        f"nicrails_broker_record_nics {len(record.nics)}",
        f"nicrails_broker_record_gpus {len(record.gpus)}",
        'nicrails_broker_publications_total{result="removed"} 0',
        'nicrails_broker_publications_total{result="written"} 1',
        "nicrails_broker_last_publication_timestamp_seconds 1700000000",
        'nicrails_broker_source_state{kind="rails",state="found"} 1',
        'nicrails_broker_source_state{kind="gpus",state="found"} 1',
    )


def observer_metrics() -> str:
    """Those of an observer that sees one Node and its record."""
    size = len(document())
    return metrics(
        'nicrails_build_info{component="nicrails-observer",version="0"} 1',
        "nicrails_observer_configmap_owned 1",
        "nicrails_observer_configmap_records 1",
        f"nicrails_observer_configmap_bytes {size}",
        f"nicrails_observer_configmap_headroom_bytes {1048576 - size}",
        "nicrails_observer_nodes 1",
        "nicrails_observer_unreadable_records 0",
        'nicrails_observer_removals_total{reason="gone"} 0',
        'nicrails_observer_removals_total{reason="replaced"} 0',
        "nicrails_observer_brake_engaged 0",
        'nicrails_observer_passes_total{outcome="done"} 2',
    )


def service(duties: dict[str, Any], text: str) -> Service:
    """A service that answers this on ``/healthz`` and ``/metrics``."""
    body = orjson.dumps(duties).decode()
    return Service(
        livez=Answer(status=200, body="ok"),
        readyz=Answer(status=200, body="ok"),
        healthz=Answer(status=200, content_type="application/json", body=body),
        report=duties,
        metrics=Answer(status=200, content_type="text/plain; version=0.0.4; charset=utf-8", body=text),
    )


def right() -> Look:
    """The look."""
    return Look(
        nodes={MACHINE: UID},
        deployment=OWNER,
        config_map=config_map(),
        observer=service(report("configmap", "nodes", "garbage-collection"), observer_metrics()),
        brokers={MACHINE: service(report("rails-record"), broker_metrics())},
    )
