"""The observer's settings: the file that it shares with the brokers, and what the Deployment's environment says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nicrails.settings import (
    Duration,
    Fault,
    KubernetesSettings,
    LoggingSettings,
    ServerSettings,
    dns_label,
    dns_name,
    setting,
)

MAX_BATCH = 1000
"""Removals in one patch; each costs two operations, and the API server takes 10,000 of them."""


def _fraction(value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"expected a number between 0 and 1, found {value}")


def _not_negative(value: int) -> None:
    if value < 0:
        raise ValueError(f"expected 0 or more, found {value}")


def _batch(value: int) -> None:
    if not 1 <= value <= MAX_BATCH:
        raise ValueError(f"expected 1 to {MAX_BATCH}, found {value}")


def _interval(value: Duration) -> None:
    if not 1 <= value <= 3600:
        raise ValueError(f"expected a duration between 1s and 1h, found {float(value):g} s")


def _check_interval(value: Duration) -> None:
    # A ConfigMap that was deleted by hand is to be there again within a minute.
    if not 0.1 <= value <= 45:
        raise ValueError(f"expected a duration between 100ms and 45s, found {float(value):g} s")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrakeSettings:
    """When a removal counts as a mass removal, which needs a second confirmation."""

    fraction: float = setting(0.5, check=_fraction)
    """More than this part of all records at once…"""
    minimum: int = setting(10, check=_not_negative)
    """…and more than this many of them."""
    delay: Duration = Duration(5)
    """Seconds between the first and the second confirmation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverSettings:
    """How the observer works; brokers ignore this section."""

    check_interval: Duration = setting(Duration(15), check=_check_interval)
    """Seconds between two looks at the Deployment and at the ConfigMap's metadata."""
    full_interval: Duration = setting(Duration(300), check=_interval)
    """Seconds after which all records are looked at again, also if nothing is known to have changed."""
    batch_size: int = setting(500, check=_batch)
    """The most records that one patch removes."""
    brake: BrakeSettings = field(default_factory=BrakeSettings)
    """The brake against mass removal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RailMappingSettings:
    """The plug-in's section; the observer uses two of its keys, the brokers check the others."""

    enabled: bool = True
    """Whether there are records at all; without them the observer idles."""
    config_map_name: str = setting("topograph-nic-rails", check=dns_name)
    """The ConfigMap that holds the records."""
    observer_deployment: str | None = setting(None, check=dns_name)
    """The Deployment that brokers expect to control the ConfigMap; if given, it must be this one."""
    rail_source: Any = None
    """A broker's."""
    gpu_source: Any = None
    """A broker's."""
    refresh_interval: Any = None
    """A broker's."""
    start_jitter: Any = None
    """A broker's."""
    verify_interval: Any = None
    """A broker's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginsSettings:
    """The plug-ins of Node metadata."""

    gpu_nic_rail_mapping: RailMappingSettings = field(default_factory=RailMappingSettings)
    """The records of GPUs and NICs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMetadataSettings:
    """What is published about Nodes."""

    plugins: PluginsSettings = field(default_factory=PluginsSettings)
    """By plug-in."""
    provider: Any = None
    """A broker's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The whole file."""

    node_metadata: NodeMetadataSettings = field(default_factory=NodeMetadataSettings)
    """What is published about Nodes."""
    observer: ObserverSettings = field(default_factory=ObserverSettings)
    """The observer's own section."""
    server: ServerSettings = field(default_factory=ServerSettings)
    """Where health and metrics are served."""
    logging: LoggingSettings = field(default_factory=LoggingSettings)
    """What is logged."""
    kubernetes: KubernetesSettings = field(default_factory=KubernetesSettings)
    """How the API server is reached."""
    host: Any = None
    """A broker's."""

    @property
    def mapping(self) -> RailMappingSettings:
        """The plug-in's section."""
        return self.node_metadata.plugins.gpu_nic_rail_mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who this observer is: the Deployment that it runs from."""

    namespace: str
    deployment: str


def identity(environ: Mapping[str, str], expected: str | None = None) -> Identity | tuple[Fault, ...]:
    """Read ``POD_NAMESPACE`` and ``DEPLOYMENT_NAME``; returns all faults if there are any.

    Args:
        environ: The process's environment.
        expected: The Deployment that brokers expect, if the settings file names it.
    """
    faults = []
    namespace = environ.get("POD_NAMESPACE", "")
    deployment = environ.get("DEPLOYMENT_NAME", "") or "nicrails-observer"
    if namespace:
        faults += _faults("POD_NAMESPACE", namespace, dns_label)
    else:
        problem = (
            "missing in the environment; set it from fieldRef metadata.namespace, or to the namespace of the ConfigMap"
        )
        faults.append(Fault(path="POD_NAMESPACE", problem=problem))
    faults += _faults("DEPLOYMENT_NAME", deployment, dns_name)
    if expected not in (None, deployment):
        problem = (
            f"this is Deployment {deployment}, but nodeMetadata.plugins.gpuNicRailMapping.observerDeployment is "
            f"{expected}; brokers would refuse its ConfigMap"
        )
        faults.append(Fault(path="DEPLOYMENT_NAME", problem=problem))
    return tuple(faults) or Identity(namespace=namespace, deployment=deployment)


def _faults(path: str, value: str, check: Callable[[str], object]) -> list[Fault]:
    try:
        check(value)
    except ValueError as error:
        return [Fault(path=path, problem=str(error))]
    return []
