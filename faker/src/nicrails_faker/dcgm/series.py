"""The series of a Node: one for each GPU or slice, with the container that holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nicrails.text import excerpt
from nicrails_faker.mig import (
    Gpu,
    MigInstance,
    NodeTopology,
    ProductError,
    Status,
    Strategy,
    find_product,
    gpu_instance_id,
    strategy_of,
)
from nicrails_faker.mig.attributes import slice_attributes
from nicrails_faker.mig.document import YamlMapping, YamlValue, as_whole

FULL = 100
MAX_LABEL = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A GPU or a slice at work.

    Attributes:
        labels: Those of DCGM's exporter; ``GPU_I_PROFILE`` and ``GPU_I_ID`` on slices alone.
        utilization: Percent.
        memory_used: MiB; None where the memory is not known.
        memory_free: MiB; None where the memory is not known.
    """

    labels: Mapping[str, str]
    utilization: int
    memory_used: int | None
    memory_free: int | None


def series_of(topology: NodeTopology, node: str) -> tuple[Series, ...]:
    """The series of a Node, by GPU and slice.

    A GPU in MIG mode has one for each slice and none of its own, as DCGM has it, unless its slices are not advertised.

    Args:
        topology: What it has, and who holds that.
        node: Its name.
    """
    found: list[Series] = []
    for index, gpu in enumerate(topology.gpus):
        labels = _labels(topology, node, index, gpu)
        if gpu.mig_enabled and strategy_of(topology) is not Strategy.NONE:
            found += [_slice(topology, labels, one) for one in gpu.mig_instances]
        else:
            found.append(_series(labels, gpu.status, topology.gpu_memory or None))
    return tuple(found)


def _labels(topology: NodeTopology, node: str, index: int, gpu: Gpu) -> dict[str, str]:
    labels = {
        "gpu": str(index),
        "UUID": _text(gpu.id),
        "device": f"nvidia{index}",
        "modelName": _text(topology.gpu_product),
        "Hostname": node,
    }
    if topology.driver_version:
        labels["DCGM_FI_DRIVER_VERSION"] = _text(topology.driver_version)
    return labels


def _slice(topology: NodeTopology, labels: Mapping[str, str], one: MigInstance) -> Series:
    attributes = slice_attributes(topology, one.profile)
    more = {"GPU_I_PROFILE": _text(one.profile)}
    if (instance := _instance(topology, one)) is not None:
        more["GPU_I_ID"] = str(instance)
    return _series({**labels, **more}, one.status, None if attributes is None else attributes.memory)


def _instance(topology: NodeTopology, one: MigInstance) -> int | None:
    try:
        product = find_product(topology.gpu_product, topology.gpu_memory)
        size = product.profile(one.profile).shape.memory
    except ProductError:
        return None
    return gpu_instance_id(product.layout.memory, size, one.index)


def _series(labels: Mapping[str, str], status: Status, memory: int | None) -> Series:
    utilization, used = _usage(status, memory)
    holder = status.allocated_by
    return Series(
        labels={
            **labels,
            "container": _text(holder.container),
            "namespace": _text(holder.namespace),
            "pod": _text(holder.pod),
        },
        utilization=utilization,
        memory_used=None if memory is None else used,
        memory_free=None if memory is None else memory - used,
    )


def _usage(status: Status, memory: int | None) -> tuple[int, int]:
    """Percent and MiB: what the document says of the pods' usage, else all or nothing by whether somebody holds it."""
    room = memory or 0
    pods = [value for _, value in status.pod_usage.entries if isinstance(value, YamlMapping)]
    if not pods:
        return (FULL, room) if status.allocated_by else (0, 0)
    percent = used = 0
    for pod in pods:
        between = _entry(pod, "utilization")
        low, high = (_number(between, key) for key in ("min", "max"))
        percent += (low + max(low, high)) // 2
        used += _number(pod, "fbUsed")
    return min(percent, FULL), min(used, room)


def _number(values: YamlValue | None, key: str) -> int:
    value = _entry(values, key)
    return max(0, (None if value is None else as_whole(value)) or 0)


def _entry(values: YamlValue | None, key: str) -> YamlValue | None:
    if not isinstance(values, YamlMapping):
        return None
    return next((value for name, value in values.entries if name.text == key), None)


def _text(text: str) -> str:
    return excerpt(text, MAX_LABEL)
