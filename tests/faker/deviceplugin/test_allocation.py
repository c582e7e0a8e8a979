from __future__ import annotations

from pathlib import Path

import pytest

from nicrails_faker.deviceplugin.allocation import AllocationError, Given, preferred
from nicrails_faker.deviceplugin.devices import Device
from nicrails_faker.kubelet.generated import deviceplugin_pb2 as messages

GIVEN = Given(node="node1", host_folder=Path("/var/lib/nicrails-faker"))
DEVICES = {name: Device(id=name) for name in ("GPU-a", "GPU-b", "GPU-c")}


def _request(*containers: list[str]) -> messages.AllocateRequest:
    return messages.AllocateRequest(
        container_requests=[messages.ContainerAllocateRequest(devices_ids=ids) for ids in containers]
    )


def test_a_container_gets_its_devices_in_the_environment_and_nvidia_smi() -> None:
    """Both variables have the IDs, NODE_NAME the Node, and script and files are mounted to be read only."""
    answer = GIVEN.allocate("nvidia.com/gpu", DEVICES, _request(["GPU-b", "GPU-a"], ["GPU-c"]))
    first, second = answer.container_responses
    assert dict(first.envs) == {
        "MOCK_NVIDIA_VISIBLE_DEVICES": "GPU-b,GPU-a",
        "NVIDIA_VISIBLE_DEVICES": "GPU-b,GPU-a",
        "NODE_NAME": "node1",
    }
    assert second.envs["MOCK_NVIDIA_VISIBLE_DEVICES"] == "GPU-c"
    assert [(mount.host_path, mount.container_path, mount.read_only) for mount in first.mounts] == [
        ("/var/lib/nicrails-faker/nvidia-smi", "/bin/nvidia-smi", True),
        ("/var/lib/nicrails-faker/nvidia-smi.d", "/run/nicrails-faker/nvidia-smi", True),
    ]


def test_without_the_program_nothing_is_mounted() -> None:
    """A mount of a file that is not there would keep the container from starting."""
    answer = Given(node="n", host_folder=None).allocate("nvidia.com/gpu", DEVICES, _request(["GPU-a"]))
    assert not answer.container_responses[0].mounts


def test_other_devices_say_nothing_about_gpus() -> None:
    """A container that has a NIC besides keeps the variables of its GPU."""
    answer = GIVEN.allocate("rdma/hca", {"x": Device(id="x")}, _request(["x"]))
    assert dict(answer.container_responses[0].envs) == {"NODE_NAME": "node1"}
    assert not answer.container_responses[0].mounts


@pytest.mark.parametrize("ids", [["GPU-d"], ["GPU-a", "x\n"], [""]])
def test_unknown_devices_are_refused(ids: list[str]) -> None:
    """A device that is not there is told, and nothing is given."""
    with pytest.raises(AllocationError, match=r"is no device of nvidia\.com/gpu on this Node") as caught:
        GIVEN.allocate("nvidia.com/gpu", DEVICES, _request(["GPU-a"], ids))
    assert str(caught.value).isprintable()


def _preferred(available: str, must: str, size: int, numa: dict[str, int | None] | None = None) -> str:
    nodes = numa or {}
    devices = {name: Device(id=name, numa_node=nodes.get(name)) for name in "abcdef"}
    request = messages.ContainerPreferredAllocationRequest(
        available_deviceIDs=list(available), must_include_deviceIDs=list(must), allocation_size=size
    )
    return "".join(preferred("nvidia.com/gpu", devices, request))


def test_the_order_of_the_topology_is_preferred() -> None:
    """Devices are taken from the front, with those that must be among them first."""
    assert _preferred("fedcba", "", 3) == "abc"
    assert _preferred("fcd", "d", 2) == "dc"
    assert _preferred("abc", "ab", 2) == "ab"
    assert _preferred("abc", "ab", 1) == "ab"


def test_devices_of_one_numa_node_are_preferred() -> None:
    """All from one node if one has room, the smallest such; beside those that must be, and else from the largest first."""
    numa: dict[str, int | None] = {"a": 0, "b": 0, "c": 0, "d": 1, "e": 1, "f": 2}
    assert _preferred("abcdef", "", 2, numa) == "de"
    assert _preferred("abcdef", "", 1, numa) == "f"
    assert _preferred("abcdef", "", 3, numa) == "abc"
    assert _preferred("abcdef", "", 4, numa) == "abcd"
    assert _preferred("abcdef", "c", 2, numa) == "ca"


def test_too_few_devices_are_told() -> None:
    """More than there are can not be preferred, nor a device that is not there."""
    with pytest.raises(AllocationError, match=r"4 devices of nvidia\.com/gpu are asked for, 2 are available"):
        _preferred("ab", "", 4)
    with pytest.raises(AllocationError, match="is no device"):
        _preferred("ab", "z", 1)
