"""Reading and writing the topology of one Node.

It is the text under ``topology.yml`` in the ConfigMap ``<topology name>-<node>``, in the format of fake-gpu-operator.
Known keys come first and in a fixed order, the others follow by name: equal topologies give equal text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from nicrails_faker.mig.document import YamlList, YamlMapping, YamlValue, boolean, mapping, string, whole
from nicrails_faker.mig.errors import DocumentError
from nicrails_faker.mig.fields import Fields
from nicrails_faker.mig.topology import Gpu, Holder, MigInstance, NodeTopology, OtherDevice, Status
from nicrails_faker.mig.yaml_text import emit, parse

T = TypeVar("T")

MAX_GPUS = 1024
MAX_DEVICES = 10_000
"""Of a Node, besides its GPUs and slices."""
MAX_OTHERS = 64
"""Resources of a Node besides its GPUs; the device plugin has a server for each."""
MAX_MEMORY = 64 * 1024 * 1024
"""MiB."""
MAX_POSITION = 1023


def read_topology(text: str) -> NodeTopology:
    """Read ``topology.yml`` of a Node.

    Raises:
        DocumentError: It is not one; the message names the path.
    """
    fields = Fields("", parse(text))
    gpus = tuple(_gpu(path, value) for path, value in fields.items("gpus"))
    if len(gpus) > MAX_GPUS:
        raise DocumentError("gpus", f"{len(gpus)} GPUs; {MAX_GPUS} are the most")
    _check_unique(gpus)
    return NodeTopology(
        gpu_memory=fields.count("gpuMemory", most=MAX_MEMORY),
        gpu_product=fields.text("gpuProduct"),
        driver_version=fields.text("driverVersion", numbers=True),
        cuda_version=fields.text("cudaVersion", numbers=True),
        gpus=gpus,
        mig_strategy=fields.text("migStrategy"),
        other_devices=other_devices(fields),
        extra=fields.rest(),
    )


def write_topology(topology: NodeTopology) -> str:
    """The document of a topology; equal topologies give equal text."""
    return emit(
        mapping(
            (
                ("gpuMemory", whole(topology.gpu_memory)),
                ("gpuProduct", string(topology.gpu_product)),
                ("driverVersion", _unless_empty(topology.driver_version)),
                ("cudaVersion", _unless_empty(topology.cuda_version)),
                ("gpus", _list(_dump_gpu, topology.gpus)),
                ("migStrategy", string(topology.mig_strategy)),
                ("otherDevices", dump_other_devices(topology.other_devices)),
            ),
            topology.extra,
        )
    )


def other_devices(fields: Fields) -> tuple[OtherDevice, ...]:
    """The devices under ``otherDevices`` of a Node or a pool.

    Raises:
        DocumentError: Something there is wrong.
    """
    devices = tuple(_other_device(path, value) for path, value in fields.items("otherDevices"))
    check_others(fields.at("otherDevices"), [device.count for device in devices])
    return devices


def check_others(path: str, counts: Sequence[int]) -> None:
    """Refuse more resources, or more devices of all resources, than a Node can offer: a few lines would fill the memory.

    Args:
        path: Where they stand.
        counts: The devices of each resource.

    Raises:
        DocumentError: They are too many.
    """
    if len(counts) > MAX_OTHERS:
        raise DocumentError(path, f"{len(counts)} resources; {MAX_OTHERS} are the most")
    if sum(counts) > MAX_DEVICES:
        raise DocumentError(path, f"{sum(counts)} devices; {MAX_DEVICES} are the most of all resources together")


def dump_other_devices(devices: tuple[OtherDevice, ...]) -> YamlList | None:
    """The list under ``otherDevices``, None if there is none."""
    return _list(_dump_other_device, devices) if devices else None


def _other_device(path: str, value: YamlValue) -> OtherDevice:
    fields = Fields(path, value)
    return OtherDevice(
        name=fields.need_text("name"), count=fields.count("count", most=MAX_DEVICES), extra=fields.rest()
    )


def _dump_other_device(device: OtherDevice) -> YamlMapping:
    return mapping((("name", string(device.name)), ("count", whole(device.count))), device.extra)


def _gpu(path: str, value: YamlValue) -> Gpu:
    fields = Fields(path, value)
    return Gpu(
        id=fields.need_text("id"),
        status=_status(fields.fields("status")),
        mig_enabled=fields.flag("migEnabled"),
        mig_instances=tuple(_instance(at, item) for at, item in fields.items("migInstances")),
        extra=fields.rest(),
    )


def _dump_gpu(gpu: Gpu) -> YamlMapping:
    instances = _list(_dump_instance, gpu.mig_instances)
    return mapping(
        (
            ("id", string(gpu.id)),
            ("status", _dump_status(gpu.status)),
            ("migEnabled", boolean(value=gpu.mig_enabled)),
            ("migInstances", instances if gpu.mig_enabled or gpu.mig_instances else None),
        ),
        gpu.extra,
    )


def _instance(path: str, value: YamlValue) -> MigInstance:
    fields = Fields(path, value)
    return MigInstance(
        profile=fields.need_text("profile"),
        index=fields.count("index", most=MAX_POSITION),
        uuid=fields.need_text("uuid"),
        status=_status(fields.fields("status")),
        extra=fields.rest(),
    )


def _dump_instance(instance: MigInstance) -> YamlMapping:
    return mapping(
        (
            ("profile", string(instance.profile)),
            ("index", whole(instance.index)),
            ("uuid", string(instance.uuid)),
            ("status", _dump_status(instance.status)),
        ),
        instance.extra,
    )


def _status(fields: Fields) -> Status:
    holder = fields.fields("allocatedBy")
    return Status(
        allocated_by=Holder(
            namespace=holder.text("namespace", numbers=True),
            pod=holder.text("pod", numbers=True),
            container=holder.text("container", numbers=True),
            extra=holder.rest(),
        ),
        pod_usage=fields.fields("podGpuUsageStatus").rest(),
        extra=fields.rest(),
    )


def _dump_status(status: Status) -> YamlMapping:
    holder = status.allocated_by
    return mapping(
        (
            (
                "allocatedBy",
                mapping(
                    (
                        ("namespace", string(holder.namespace)),
                        ("pod", string(holder.pod)),
                        ("container", string(holder.container)),
                    ),
                    holder.extra,
                ),
            ),
            ("podGpuUsageStatus", status.pod_usage),
        ),
        status.extra,
    )


def _check_unique(gpus: tuple[Gpu, ...]) -> None:
    """A device ID names one device, or the kubelet would count two as one."""
    seen: dict[str, str] = {}
    for index, gpu in enumerate(gpus):
        devices = [(f"gpus[{index}].id", gpu.id)]
        devices += [(f"gpus[{index}].migInstances[{at}].uuid", one.uuid) for at, one in enumerate(gpu.mig_instances)]
        for path, device in devices:
            if device in seen:
                raise DocumentError(path, f"the same as {seen[device]}")
            seen[device] = path


def _unless_empty(text: str) -> YamlValue | None:
    return string(text) if text else None


def _list(dump: Callable[[T], YamlValue], items: Iterable[T]) -> YamlList:
    return YamlList(tuple(dump(item) for item in items))
