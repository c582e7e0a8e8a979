"""What a container gets with its devices, and which of them suit each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nicrails.text import excerpt
from nicrails_faker.deviceplugin.devices import Device
from nicrails_faker.kubelet.generated import deviceplugin_pb2 as messages
from nicrails_faker.smi import CONTAINER_DATA, CONTAINER_PROGRAM, DATA, PROGRAM

_NVIDIA = "nvidia.com/"


class AllocationError(ValueError):
    """The request does not fit the devices; the message is one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What containers get.

    Attributes:
        node: The Node's name.
        host_folder: Has the fake nvidia-smi on the host; None if there is none.
    """

    node: str
    host_folder: Path | None

    def allocate(
        self, resource: str, devices: Mapping[str, Device], request: messages.AllocateRequest
    ) -> messages.AllocateResponse:
        """What the containers of a request get.

        Args:
            resource: Whose devices are asked for.
            devices: Those that there are, by ID.
            request: The kubelet's.

        Raises:
            AllocationError: A device is not there.
        """
        for container in request.container_requests:
            _check(resource, devices, container.devices_ids)
        return messages.AllocateResponse(
            container_responses=[
                self._container(resource, container.devices_ids) for container in request.container_requests
            ]
        )

    def _container(self, resource: str, ids: Sequence[str]) -> messages.ContainerAllocateResponse:
        answer = messages.ContainerAllocateResponse(envs={"NODE_NAME": self.node})
        # Other resources, such as NICs, say nothing about the GPUs of the container that has them besides.
        if resource.startswith(_NVIDIA):
            visible = ",".join(ids)
            answer.envs["MOCK_NVIDIA_VISIBLE_DEVICES"] = visible
            answer.envs["NVIDIA_VISIBLE_DEVICES"] = visible
            if self.host_folder is not None:
                for inside, name in ((CONTAINER_PROGRAM, PROGRAM), (CONTAINER_DATA, DATA)):
                    answer.mounts.add(container_path=inside, host_path=str(self.host_folder / name), read_only=True)
        return answer


def preferred(
    resource: str, devices: Mapping[str, Device], request: messages.ContainerPreferredAllocationRequest
) -> list[str]:
    """The devices that a container should get: those that it must have, then those of the fewest NUMA nodes.

    Among equals the order of the topology decides, which fills one GPU with slices before the next.

    Args:
        resource: Whose devices are asked for.
        devices: Those that there are, by ID, in the order of the topology.
        request: The kubelet's.

    Raises:
        AllocationError: A device is not there, or there are too few.
    """
    must, available = list(request.must_include_deviceIDs), set(request.available_deviceIDs)
    _check(resource, devices, must)
    missing = request.allocation_size - len(must)
    free = [device for device in devices.values() if device.id in available and device.id not in must]
    if missing > len(free):
        raise AllocationError(
            f"{request.allocation_size} devices of {resource} are asked for, {len(must) + len(free)} are available"
        )
    if missing <= 0:
        return must
    rooms: dict[int | None, int] = {}
    for device in free:
        rooms[device.numa_node] = rooms.get(device.numa_node, 0) + 1
    near = {devices[one].numa_node for one in must}

    def rank(device: Device) -> tuple[bool, bool, int]:
        room = rooms[device.numa_node]
        # The smallest node that has room for all leaves the larger ones to others; else the largest comes first.
        return device.numa_node not in near, room < missing, room if room >= missing else -room

    return must + [device.id for device in sorted(free, key=rank)[:missing]]


def _check(resource: str, devices: Mapping[str, Device], ids: Sequence[str]) -> None:
    for device in ids:
        if device not in devices:
            raise AllocationError(
                f'"{excerpt(device, 80)}" is no device of {resource} on this Node; it has changed since, or never was one'
            )
