"""What a Node advertises: the one place where a topology becomes resources.

Device plugin, fake Nodes, labels and reports all ask here, so they cannot disagree.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from nicrails.text import excerpt
from nicrails_faker.mig.identity import other_device_id
from nicrails_faker.mig.profiles import resource_name
from nicrails_faker.mig.topology import NodeTopology

GPU_RESOURCE = "nvidia.com/gpu"


class Strategy(enum.StrEnum):
    """How a GPU in MIG mode is advertised; the names are those of NVIDIA's k8s-device-plugin."""

    NONE = "none"
    """As a GPU; its slices are ignored."""
    SINGLE = "single"
    """Each slice as a GPU."""
    MIXED = "mixed"
    """Each slice as a resource of its profile."""


class Reason(enum.StrEnum):
    """Why a Node's state deserves a look; also the reason of a condition of the Node."""

    MIXED_MIG_MODES = "MixedMigModes"
    """``single``, and some GPUs are in MIG mode while others are whole."""
    MIG_GPU_WITHOUT_SLICES = "MigGpuWithoutSlices"
    """``single`` or ``mixed``, and a GPU in MIG mode advertises nothing."""
    SEVERAL_MIG_PROFILES = "SeveralMigProfiles"
    """``single``, and slices that are not alike are advertised as if they were."""
    UNKNOWN_MIG_STRATEGY = "UnknownMigStrategy"
    """The strategy is not a known one; ``none`` is what happens."""
    RESOURCE_GIVEN_TWICE = "ResourceGivenTwice"
    """``otherDevices`` has a resource that GPUs or slices of this Node are advertised as."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Something about a Node that deserves a look.

    Attributes:
        reason: Of a fixed set.
        message: One sentence.
    """

    reason: Reason
    message: str


_REFUSED_BY_NVIDIA = frozenset({Reason.MIXED_MIG_MODES, Reason.MIG_GPU_WITHOUT_SLICES, Reason.SEVERAL_MIG_PROFILES})


def strategy_of(topology: NodeTopology) -> Strategy:
    """The strategy that holds: the one that stands there in any case of letters, ``none`` for anything else."""
    try:
        return Strategy(topology.mig_strategy.lower())
    except ValueError:
        return Strategy.NONE


def advertised_resources(topology: NodeTopology, *, strict: bool = False) -> Mapping[str, tuple[str, ...]]:
    """The resources of a Node and the IDs of their devices.

    ``nvidia.com/gpu`` comes first, the others follow by name. It is there, if need be without devices, in the strategies
    ``none`` and ``single``; in ``mixed`` only with whole GPUs. No other resource is without devices.

    Args:
        topology: What the Node has.
        strict: Refuse what NVIDIA's plugin refuses (see :func:`refusals`): the Node then has no ``nvidia.com/gpu``.

    Returns:
        By resource name: the UUIDs of GPUs and slices in the order of the topology, then made-up IDs of other devices.
    """
    devices: dict[str, list[str]] = {}
    for resource, device in () if strict and refusals(topology) else _gpu_devices(topology):
        devices.setdefault(resource, []).append(device)
    if strategy_of(topology) is not Strategy.MIXED:
        devices.setdefault(GPU_RESOURCE, [])
    counts: dict[str, int] = {}
    for other in topology.other_devices:
        counts[other.name] = counts.get(other.name, 0) + other.count
    for name, count in counts.items():
        if count:
            devices.setdefault(name, []).extend(other_device_id(name, index) for index in range(count))
    return {name: tuple(devices[name]) for name in sorted(devices, key=lambda name: (name != GPU_RESOURCE, name))}


def fingerprint(topology: NodeTopology, *, strict: bool = False) -> str:
    """A short text that is the same only while a Node advertises the same devices of the same resources.

    Args:
        topology: What the Node has.
        strict: As for :func:`advertised_resources`.
    """
    digest = hashlib.sha256()
    for resource, devices in advertised_resources(topology, strict=strict).items():
        digest.update("\0".join((resource, *devices, "\n")).encode())
    return digest.hexdigest()[:16]


def _gpu_devices(topology: NodeTopology) -> list[tuple[str, str]]:
    """Resource and ID of each GPU or slice that is advertised."""
    strategy = strategy_of(topology)
    devices: list[tuple[str, str]] = []
    for gpu in topology.gpus:
        if strategy is Strategy.NONE or not gpu.mig_enabled:
            devices.append((GPU_RESOURCE, gpu.id))
            continue
        for one in gpu.mig_instances:
            mixed = strategy is Strategy.MIXED
            devices.append((resource_name(one.profile) if mixed else GPU_RESOURCE, one.uuid))
    return devices


def conditions(topology: NodeTopology) -> tuple[Condition, ...]:
    """What about the Node deserves a look, in the order of :class:`Reason`."""
    strategy = strategy_of(topology)
    found: dict[Reason, str] = {}
    mig = [(index, gpu) for index, gpu in enumerate(topology.gpus) if gpu.mig_enabled]
    profiles = sorted({one.profile for _, gpu in mig for one in gpu.mig_instances})
    empty = [index for index, gpu in mig if not gpu.mig_instances]
    if strategy is Strategy.SINGLE:
        if mig and len(mig) < len(topology.gpus):
            found[Reason.MIXED_MIG_MODES] = (
                f"{_gpus([index for index, _ in mig])} in MIG mode, the other GPUs are whole;"
                " the strategy single is for Nodes where all GPUs are alike"
            )
        if len(profiles) > 1:
            names = ", ".join(excerpt(name, 40) for name in profiles)
            found[Reason.SEVERAL_MIG_PROFILES] = (
                f"slices of {names} are advertised as one resource; the strategy single is for slices that are alike"
            )
    if strategy is not Strategy.NONE and empty:
        found[Reason.MIG_GPU_WITHOUT_SLICES] = f"{_gpus(empty)} in MIG mode without slices, and not advertised"
    if topology.mig_strategy and topology.mig_strategy.lower() not in set(Strategy):
        shown = excerpt(topology.mig_strategy, 40)
        found[Reason.UNKNOWN_MIG_STRATEGY] = f'migStrategy "{shown}" is unknown and counts as none'
    own = {resource for resource, _ in _gpu_devices(topology)}
    twice = sorted({other.name for other in topology.other_devices if other.count and other.name in own})
    if twice:
        names = ", ".join(excerpt(name, 80) for name in twice)
        found[Reason.RESOURCE_GIVEN_TWICE] = (
            f"otherDevices has {names}, which GPUs or slices here are advertised as too"
        )
    return tuple(Condition(reason=reason, message=found[reason]) for reason in Reason if reason in found)


def refusals(topology: NodeTopology) -> tuple[Condition, ...]:
    """Why NVIDIA's plugin would not start on the Node; only the strategy ``single`` has such reasons.

    Source: NVIDIA's k8s-device-plugin, ``internal/rm/device_map.go``.
    """
    if strategy_of(topology) is not Strategy.SINGLE:
        return ()
    return tuple(condition for condition in conditions(topology) if condition.reason in _REFUSED_BY_NVIDIA)


def _gpus(indices: list[int]) -> str:
    names = ", ".join(map(str, indices[:16])) + (" …" if len(indices) > 16 else "")
    return f"GPUs {names} are" if len(indices) > 1 else f"GPU {names} is"
