"""The broker's settings: the keys of the Helm values, with all defaults and all rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import re2
import yaml

from nicrails.settings import (
    Duration,
    Fault,
    KubernetesSettings,
    LoggingSettings,
    ServerSettings,
    SettingsError,
    dns_label,
    dns_name,
    load,
    read_document,
    setting,
)
from nicrails.text import excerpt
from nicrails_broker.naming import RailNaming, expand

REFUSED_RAIL_SOURCES = {
    "xplane": "xplane is not supported yet: there is no supported API, transport, authentication or host PCI mapping for it; "
    "use host-lldp",
}
RAIL_SOURCES = ("host-lldp",)
MISSING_RAIL_SOURCE = Fault(
    path="nodeMetadata.plugins.gpuNicRailMapping.railSource",
    problem="missing; it has no default, since interfaceRegex and railID depend on the site",
)


def _rail_source(name: str) -> None:
    if name in REFUSED_RAIL_SOURCES:
        raise ValueError(REFUSED_RAIL_SOURCES[name])
    if name not in RAIL_SOURCES:
        raise ValueError(f"expected one of {', '.join(RAIL_SOURCES)}, found {excerpt(name, 80)!r}")


def _regex(value: str) -> None:
    RailNaming(value, "x")


def _rail_id(value: str) -> None:
    RailNaming("", value)


def _naming(settings: HostLldpSettings) -> None:
    try:
        pattern = re2.compile(settings.interface_regex)
        names = [str(number) for number in range(pattern.groups + 1)] + list(pattern.groupindex)
    except re2.error:
        return  # told of the expression itself
    if settings.rail_id and not expand(settings.rail_id, dict.fromkeys(names, "x")):
        raise ValueError(
            f"railID {excerpt(settings.rail_id, 80)!r} is always empty, for it names no group of interfaceRegex; "
            f"the groups are {', '.join(f'${{{name}}}' for name in names)}"
        )


def _time_limit(value: Duration) -> None:
    if not 0.1 <= value <= 600:
        raise ValueError(f"expected a time limit between 100ms and 10m, found {value:g} s")


def _interval(value: Duration) -> None:
    if 0 < value < 1:
        raise ValueError(f"expected 0 (at the start only) or at least 1s, found {value:g} s")


def _verify_interval(value: Duration) -> None:
    if value < 1:
        raise ValueError(f"expected at least 1s, found {value:g} s")


def _not_empty(value: str) -> None:
    if not value or "\0" in value:
        raise ValueError("expected a path or a name, found nothing")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLldpSettings:
    """``railSource.hostLLDP``: which interface is on which rail."""

    interface_regex: str = setting(check=_regex)
    """RE2 expression, searched in the names of interfaces that have an LLDP neighbour."""
    rail_id: str = setting(key="railID", check=_rail_id)
    """The rail's name, expanded like Go's ``Regexp.Expand``: ``$1``, ``${1}``, ``$name``, ``${name}``, ``$$``."""
    timeout: Duration = setting(Duration(10), check=_time_limit)
    """For one run of lldpctl."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RailSourceSettings:
    """``railSource``: where rails come from."""

    name: str = setting("host-lldp", check=_rail_source)
    """``host-lldp``."""
    host_lldp: HostLldpSettings = setting(key="hostLLDP", check=_naming)
    """Of that source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSourceSettings:
    """``gpuSource``: where the GPUs' places come from."""

    gpu_operator_namespace: str = setting("gpu-operator", check=dns_label)
    """The GPU Operator's namespace."""
    daemon_set: str = setting("nvidia-device-plugin-daemonset", check=dns_name)
    """The DaemonSet whose pods have nvidia-smi."""
    container: str | None = setting(None, check=dns_label)
    """The container with nvidia-smi; by default the only one, or else ``nvidia-device-plugin``."""
    gpu_node: Literal["auto", "always", "never"] = "auto"
    """Whether this Node has GPUs; ``auto`` asks sysfs for NVIDIA display controllers."""
    timeout: Duration = setting(Duration(30), check=_time_limit)
    """For one command; nvidia-smi takes long where no process keeps the driver loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RailMappingSettings:
    """``nodeMetadata.plugins.gpuNicRailMapping``: the record."""

    enabled: bool = True
    """Whether to discover and publish at all."""
    config_map_name: str = setting("topograph-nic-rails", check=dns_name)
    """The ConfigMap of all records, in the broker's own namespace."""
    observer_deployment: str = setting("nicrails-observer", check=dns_name)
    """The Deployment that must control the ConfigMap."""
    refresh_interval: Duration = setting(Duration(300), check=_interval)
    """Between two discoveries, ten percent more or less; 0: one at the start only."""
    start_jitter: Duration = Duration(10)
    """The first discovery comes at a random moment within this; about N/30 s for N Nodes near the size limit."""
    verify_interval: Duration = setting(Duration(60), check=_verify_interval)
    """Between two looks at whether the ConfigMap is still the one that was written."""
    rail_source: RailSourceSettings | None = None
    """Needed where the mapping is enabled."""
    gpu_source: GpuSourceSettings = field(default_factory=GpuSourceSettings)
    """Where the GPUs come from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginsSettings:
    """``nodeMetadata.plugins``."""

    gpu_nic_rail_mapping: RailMappingSettings = field(default_factory=RailMappingSettings)
    """The record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderLldpSettings:
    """``nodeMetadata.provider.lldp``."""

    interface_regex: str = setting(".*", check=_regex)
    """RE2 expression: the interfaces whose neighbour is the Node's chassis."""
    refresh_interval: Duration = setting(Duration(300), check=_interval)
    """Between two looks; 0: one at the start only."""
    timeout: Duration = setting(Duration(10), check=_time_limit)
    """For one run of lldpctl."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """``nodeMetadata.provider``: annotations of the Node, independent of rails."""

    name: Literal["none", "lldp"] = "none"
    """``lldp`` sets ``topograph.run/lldp-chassis-id``."""
    lldp: ProviderLldpSettings = field(default_factory=ProviderLldpSettings)
    """Of that provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMetadataSettings:
    """``nodeMetadata``."""

    plugins: PluginsSettings = field(default_factory=PluginsSettings)
    """What is recorded."""
    provider: ProviderSettings = field(default_factory=ProviderSettings)
    """What is annotated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """``host``: where things of the host are in the broker's container."""

    sysfs_root: str = setting("/sys", check=_not_empty)
    """The host's ``/sys``."""
    lldpctl: str = setting("lldpctl", check=_not_empty)
    """The program: a name on ``PATH`` or a path."""
    lldpd_socket: str | None = setting(None, check=_not_empty)
    """lldpd's control socket; by default the one that lldpctl was built with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """A settings file. The observer reads the same file, so its section is let through here and checked there."""

    node_metadata: NodeMetadataSettings = field(default_factory=NodeMetadataSettings)
    """What the broker does."""
    host: HostSettings = field(default_factory=HostSettings)
    """Where the host's things are."""
    server: ServerSettings = field(default_factory=ServerSettings)
    """Health and metrics."""
    logging: LoggingSettings = field(default_factory=LoggingSettings)
    """Logs."""
    kubernetes: KubernetesSettings = field(default_factory=KubernetesSettings)
    """The API server."""
    observer: Any = None
    """Not the broker's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Where this process runs, as the pod's environment tells it (the downward API).

    Attributes:
        node: ``NODE_NAME``, the pod's ``spec.nodeName``.
        namespace: ``POD_NAMESPACE``.
    """

    node: str
    namespace: str


def load_settings(document: str) -> BrokerSettings:
    """Read a settings file's text.

    Raises:
        SettingsError: With all faults.
    """
    try:
        settings = load(document, BrokerSettings)
    except SettingsError as error:
        raise SettingsError(error.faults + _missing_rail_source(document, error.faults)) from error
    mapping = settings.node_metadata.plugins.gpu_nic_rail_mapping
    if mapping.enabled and mapping.rail_source is None:
        raise SettingsError((MISSING_RAIL_SOURCE,))
    return settings


def _missing_rail_source(document: str, faults: tuple[Fault, ...]) -> tuple[Fault, ...]:
    """The one rule between settings of different levels, for a file that has other faults, too."""
    if any(not fault.path for fault in faults):
        return ()
    section = yaml.safe_load(document)
    for key in ("nodeMetadata", "plugins", "gpuNicRailMapping"):
        section = section.get(key) if isinstance(section, dict) else None
    section = section if isinstance(section, dict) else {}
    missing = section.get("railSource") is None and section.get("enabled") is not False
    return (MISSING_RAIL_SOURCE,) if missing else ()


def read_settings(path: Path) -> BrokerSettings:
    """Read a settings file.

    Raises:
        SettingsError: With all faults.
    """
    return load_settings(read_document(path))


def read_identity(environ: Mapping[str, str]) -> Identity:
    """Read the environment.

    Raises:
        SettingsError: With all faults.
    """
    faults = []
    for name, check, source in (
        ("NODE_NAME", dns_name, "spec.nodeName"),
        ("POD_NAMESPACE", dns_label, "metadata.namespace"),
    ):
        value = environ.get(name, "")
        try:
            if not value:
                raise ValueError(f"not set; the pod gets it by the downward API from {source}")  # noqa: TRY301
            check(value)
        except ValueError as error:
            faults.append(Fault(path=f"environment variable {name}", problem=str(error)))
    if faults:
        raise SettingsError(tuple(faults))
    return Identity(node=environ["NODE_NAME"], namespace=environ["POD_NAMESPACE"])


def with_overrides(
    settings: BrokerSettings, *, kubeconfig: str | None = None, sysfs_root: str | None = None
) -> BrokerSettings:
    """The settings with what the command line says instead."""
    if kubeconfig is not None:
        settings = dataclasses.replace(settings, kubernetes=KubernetesSettings(kubeconfig=kubeconfig))
    if sysfs_root is not None:
        settings = dataclasses.replace(settings, host=dataclasses.replace(settings.host, sysfs_root=sysfs_root))
    return settings
