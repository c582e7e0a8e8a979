"""What is seen of a system in one look at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An HTTP answer, or why there was none.

    Attributes:
        status: 0 without an answer.
        content_type: Of the body.
        body: Text; without an answer the reason.
    """

    status: int
    content_type: str = ""
    body: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What a service answers.

    Attributes:
        livez: ``/livez``.
        readyz: ``/readyz``.
        healthz: ``/healthz``.
        report: The JSON of ``/healthz``; empty if it is none.
        metrics: ``/metrics``.
    """

    livez: Answer
    readyz: Answer
    healthz: Answer
    report: Mapping[str, Any]
    metrics: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at a system.

    Attributes:
        nodes: The UID of each Node by its name.
        deployment: The UID of the observer's Deployment; "" if there is none.
        config_map: The ConfigMap; empty if there is none.
        observer: The observer.
        brokers: The brokers by the names of their Nodes.
    """

    nodes: Mapping[str, str]
    deployment: str
    config_map: Mapping[str, Any]
    observer: Service
    brokers: Mapping[str, Service]

    @property
    def records(self) -> Mapping[str, str]:
        """The documents by Node name."""
        return self.config_map.get("data") or {}
