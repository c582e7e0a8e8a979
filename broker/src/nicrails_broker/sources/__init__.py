"""Where rails and GPUs come from; the registries that a further source is entered in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nicrails.kube import KubeClient
from nicrails_broker.events import Emit
from nicrails_broker.host import Lldpctl, Sysfs
from nicrails_broker.naming import RailNaming
from nicrails_broker.settings import GpuSourceSettings, HostSettings, RailSourceSettings
from nicrails_broker.sources import gpu_operator, host_lldp
from nicrails_broker.sources.files import FileSmi, ask_file
from nicrails_broker.sources.gpus import GpuSource, OnGpuNodes
from nicrails_broker.sources.host_lldp import Ask, HostLldp
from nicrails_broker.sources.nvidia_smi import Command, NvidiaSmi, Smi
from nicrails_broker.sources.operator_pod import Workload
from nicrails_broker.sources.rails import Rails, RailSource

__all__ = [
    "GPU_SOURCES",
    "RAIL_SOURCES",
    "Captures",
    "Command",
    "GpuSource",
    "RailSource",
    "Rails",
    "Surroundings",
    "gpu_source",
    "lldpd",
    "rail_source",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Captures:
    """Captured output to use instead of asking.

    Attributes:
        lldp: lldpctl's, or None.
        smi: nvidia-smi's, per command.
    """

    lldp: Path | None
    smi: Mapping[Command, Path]


CONFIRM_LOSS = 1.0
"""Seconds between two looks at lldpd before a lost neighbour is believed."""
NO_CAPTURES = Captures(lldp=None, smi={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a source may use.

    Attributes:
        host: Where the host's things are.
        sysfs: The host's sysfs.
        client: The API server, or None if there is none.
        node: This Node's name, or None if it is not known.
        captures: What is read from files instead.
        emit: Is told what happens.
    """

    host: HostSettings
    sysfs: Sysfs
    client: KubeClient | None
    node: str | None
    emit: Emit
    captures: Captures = NO_CAPTURES


def lldpd(around: Surroundings, time_limit: float) -> Ask:
    """The host's lldpd, or the captured answer of one."""
    if around.captures.lldp is not None:
        return ask_file(around.captures.lldp)
    return Lldpctl(program=around.host.lldpctl, socket=around.host.lldpd_socket, time_limit=time_limit).neighbors


def _host_lldp(settings: RailSourceSettings, around: Surroundings) -> RailSource:
    lldp = settings.host_lldp
    return HostLldp(
        ask=lldpd(around, lldp.timeout),
        naming=RailNaming(lldp.interface_regex, lldp.rail_id),
        sysfs=around.sysfs,
        emit=around.emit,
        confirm=0.0 if around.captures.lldp is not None else CONFIRM_LOSS,
    )


def _gpu_operator(settings: GpuSourceSettings, around: Surroundings) -> GpuSource:
    smi: Smi | None = None
    if around.client is not None and around.node is not None:
        smi = gpu_operator.OperatorSmi(
            client=around.client,
            workload=Workload(
                namespace=settings.gpu_operator_namespace,
                daemon_set=settings.daemon_set,
                container=settings.container,
            ),
            node=around.node,
            time_limit=settings.timeout,
            sysfs=around.sysfs,
            emit=around.emit,
        )
    if around.captures.smi or smi is None:
        smi = FileSmi(around.captures.smi, smi)
    return NvidiaSmi(name=gpu_operator.NAME, smi=smi, sysfs=around.sysfs)


RAIL_SOURCES: Mapping[str, Callable[[RailSourceSettings, Surroundings], RailSource]] = {host_lldp.NAME: _host_lldp}
"""Rail sources by their name in the settings."""

GPU_SOURCES: Mapping[str, Callable[[GpuSourceSettings, Surroundings], GpuSource]] = {gpu_operator.NAME: _gpu_operator}
"""GPU sources by name; the settings will name one as soon as there are two."""


def rail_source(settings: RailSourceSettings, around: Surroundings) -> RailSource:
    """The rail source of the settings."""
    return RAIL_SOURCES[settings.name](settings, around)


def gpu_source(settings: GpuSourceSettings, around: Surroundings) -> GpuSource | None:
    """The GPU source of the settings; None if GPUs are not to be recorded."""
    if settings.gpu_node == "never":
        return None
    source = GPU_SOURCES[gpu_operator.NAME](settings, around)
    if settings.gpu_node == "always":
        return OnGpuNodes(source, around.sysfs, ask_unseen=True)
    # Whoever gives both captures says that the machine has these GPUs.
    return OnGpuNodes(source, around.sysfs, ask_unseen=len(around.captures.smi) == len(Command))
