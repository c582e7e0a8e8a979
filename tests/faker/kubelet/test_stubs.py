from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nicrails_faker.kubelet import api, generated
from nicrails_faker.kubelet.generated import deviceplugin_pb2, podresources_pb2
from nicrails_faker.kubelet.rpc import Method

ROOT = Path(__file__).parents[3]
GENERATED = Path(generated.__file__).parent


def test_the_generated_code_is_that_of_the_protos(tmp_path: Path) -> None:
    """Making the stubs anew gives what is checked in."""
    subprocess.run(
        [ROOT / "scripts" / "kubelet-stubs", tmp_path], check=True, timeout=60, env={"PYTHON": sys.executable}
    )
    made = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert made == {file.name: file.read_bytes() for file in GENERATED.glob("*_pb2.py*")}
    assert len(made) == 4


@pytest.mark.parametrize("name", [name for name in vars(api) if isinstance(getattr(api, name), Method)])
def test_each_method_is_one_of_the_protos(name: str) -> None:
    """Path and messages of each method are those that the proto gives it."""
    method: Method[deviceplugin_pb2.Empty, deviceplugin_pb2.Empty] = getattr(api, name)
    services = {
        service.full_name: service
        for file in (deviceplugin_pb2, podresources_pb2)
        for service in file.DESCRIPTOR.services_by_name.values()
    }
    described = services[method.service].methods_by_name[method.name]
    assert described.input_type is method.request.DESCRIPTOR
    assert described.output_type is method.answer.DESCRIPTOR


def test_no_method_of_a_device_plugin_is_missing() -> None:
    """All five methods that the kubelet may call are there, with the paths that it calls."""
    described = deviceplugin_pb2.DESCRIPTOR.services_by_name["DevicePlugin"]
    ours = {one.name for one in vars(api).values() if isinstance(one, Method) and one.service == api.DEVICE_PLUGIN}
    assert ours == set(described.methods_by_name)
    assert described.full_name == "v1beta1.DevicePlugin"


def test_messages_have_the_numbers_of_the_public_api() -> None:
    """Bytes that a kubelet sends and takes are these, whatever the fields are called here."""
    request = deviceplugin_pb2.RegisterRequest(version="v1beta1", endpoint="e", resource_name="r")
    assert request.SerializeToString() == b"\x0a\x07v1beta1\x12\x01e\x1a\x01r"
    device = deviceplugin_pb2.Device(ID="a", health="Healthy")
    device.topology.nodes.add(ID=1)
    assert device.SerializeToString() == b"\x0a\x01a\x12\x07Healthy\x1a\x04\x0a\x02\x08\x01"
    answer = deviceplugin_pb2.ContainerAllocateResponse(envs={"K": "v"})
    answer.mounts.add(container_path="/c", host_path="/h", read_only=True)
    assert answer.SerializeToString() == b"\x0a\x06\x0a\x01K\x12\x01v\x12\x0a\x0a\x02/c\x12\x02/h\x18\x01"
    held = podresources_pb2.ContainerDevices(resource_name="r", device_ids=["d"])
    pod = podresources_pb2.PodResources(name="p", namespace="n")
    pod.containers.add(name="c", devices=[held])
    assert pod.SerializeToString() == b"\x0a\x01p\x12\x01n\x1a\x0b\x0a\x01c\x12\x06\x0a\x01r\x12\x01d"
