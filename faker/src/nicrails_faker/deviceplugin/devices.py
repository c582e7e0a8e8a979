"""What is offered to the kubelet: devices by resource, without those that it could not take."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from nicrails.text import excerpt
from nicrails_faker.kubelet.api import MAX_DEVICE_ID
from nicrails_faker.mig import GPU_RESOURCE, NodeTopology, advertised_resources
from nicrails_faker.mig.resource_names import is_extended_resource
from nicrails_faker.smi import Hardware

GPU_SOCKET = "fake-nvidia-gpu.sock"
STALE_SOCKETS = "fake-*.sock"
MAX_SOCKET_PATH = 107
"""Bytes of the path of a Unix socket."""

# The IDs of a container stand in one environment variable, with commas between them.
_DEVICE = re.compile(rf"[A-Za-z0-9._:/+=@-]{{1,{MAX_DEVICE_ID}}}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device.

    Attributes:
        id: The UUID of a GPU or slice, or a made-up one.
        numa_node: Where it is, None where that is not known.
    """

    id: str
    numa_node: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a Node offers.

    Attributes:
        resources: The devices by resource name.
        problems: What is not offered, in sentences.
    """

    resources: Mapping[str, tuple[Device, ...]]
    problems: tuple[str, ...] = ()


NOTHING = Offer(resources={})


def offer(topology: NodeTopology, hardware: Hardware, *, strict: bool) -> Offer:
    """The offer of a Node.

    Args:
        topology: What it has.
        hardware: What its GPUs are in.
        strict: Offer no GPUs where NVIDIA's plugin would not start.
    """
    numa_nodes = {
        device: node
        for gpu, node in zip(topology.gpus, hardware.numa_nodes, strict=True)
        for device in (gpu.id, *(one.uuid for one in gpu.mig_instances))
    }
    resources: dict[str, tuple[Device, ...]] = {}
    problems: list[str] = []
    for resource, ids in advertised_resources(topology, strict=strict).items():
        if not is_extended_resource(resource):
            problems.append(
                f'"{excerpt(resource, 120)}" is no name of an extended resource, so the kubelet would not take it;'
                " correct it in the topology"
            )
            continue
        known = [device for device in ids if _DEVICE.fullmatch(device)]
        if len(known) < len(ids):
            wrong = next(device for device in ids if _DEVICE.fullmatch(device) is None)
            problems.append(
                f'"{excerpt(wrong, 80)}" of {resource} can not be the ID of a device: that has 1 to {MAX_DEVICE_ID}'
                " letters, digits and . _ : / + = @ -; correct it in the topology"
            )
        resources[resource] = tuple(Device(id=device, numa_node=numa_nodes.get(device)) for device in known)
    return Offer(resources=resources, problems=tuple(problems))


def socket_name(resource: str, taken: Collection[str], *, longest: int) -> str:
    """The name of a plugin's socket.

    Args:
        resource: What the plugin is for.
        taken: Names that plugins of other resources have: ``a-b/c`` and ``a.b/c`` would get the same.
        longest: Characters that the name may have.
    """
    if resource == GPU_RESOURCE:
        return GPU_SOCKET
    name = f"fake-{re.sub(r'[/.-]', '_', resource)}.sock"
    if len(name) <= longest and name not in taken and name != GPU_SOCKET:
        return name
    return f"fake-{hashlib.sha256(resource.encode()).hexdigest()[:16]}.sock"
