from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
import yaml

from nicrails_faker.mig import (
    DocumentError,
    NodeTopology,
    OtherDevice,
    gpu_uuid,
    mig_uuid,
    read_topology,
    write_topology,
)

# As fake-gpu-operator writes it, with what other components add, in another order and with unknown keys at every depth.
THEIRS = """
migStrategy: mixed
gpus:
    - id: GPU-9c371748-0caa-5ed1-a957-7da694d693b6
      numa: {node: 1, cpus: "0-31"}
      status:
        allocatedBy:
            container: main
            namespace: team-a
            pod: train-0
            uid: 12e45678
        podGpuUsageStatus:
            4e5a9f6e-8f0c-4c5e-9a3b-0f1d2c3b4a59:
                utilization: {max: 30, min: 10}
                fbUsed: 1024
                useKnativeUtilization: false
        since: 2026-01-02T03:04:05Z
    - id: GPU-9ee8f7aa-107c-565b-905e-408e73d28755
      migEnabled: true
      migInstances:
        - uuid: MIG-298ef8da-e35f-5624-a935-1eb55fc58d0f
          profile: 2g.10gb
          index: 0
          status: {podGpuUsageStatus: {}}
          computeInstances: [{id: 0}]
        - {profile: 1g.5gb+me, index: 4, uuid: MIG-db7d5b53-1633-569e-a4ec-401c5d7e4a4d}
      status: {}
gpuProduct: NVIDIA-A100-SXM4-40GB
gpuMemory: 40960
cudaVersion: 12.4
driverVersion: "550.163.01"
otherDevices:
    - {count: 2, name: rdma/hca, vendor: "0x15b3"}
numa:
    zones: 2
    sleep: 010
    shift: 12:30
"""

CANONICAL = """\
gpuMemory: 40960
gpuProduct: NVIDIA-A100-SXM4-40GB
driverVersion: "550.163.01"
cudaVersion: "12.4"
gpus:
- id: GPU-9c371748-0caa-5ed1-a957-7da694d693b6
  status:
    allocatedBy:
      namespace: team-a
      pod: train-0
      container: main
      uid: 12e45678
    podGpuUsageStatus:
      4e5a9f6e-8f0c-4c5e-9a3b-0f1d2c3b4a59:
        fbUsed: 1024
        useKnativeUtilization: false
        utilization:
          max: 30
          min: 10
    since: 2026-01-02T03:04:05Z
  migEnabled: false
  numa:
    cpus: 0-31
    node: 1
- id: GPU-9ee8f7aa-107c-565b-905e-408e73d28755
  status:
    allocatedBy:
      namespace: ""
      pod: ""
      container: ""
    podGpuUsageStatus: {}
  migEnabled: true
  migInstances:
  - profile: 2g.10gb
    index: 0
    uuid: MIG-298ef8da-e35f-5624-a935-1eb55fc58d0f
    status:
      allocatedBy:
        namespace: ""
        pod: ""
        container: ""
      podGpuUsageStatus: {}
    computeInstances:
    - id: 0
  - profile: 1g.5gb+me
    index: 4
    uuid: MIG-db7d5b53-1633-569e-a4ec-401c5d7e4a4d
    status:
      allocatedBy:
        namespace: ""
        pod: ""
        container: ""
      podGpuUsageStatus: {}
migStrategy: mixed
otherDevices:
- name: rdma/hca
  count: 2
  vendor: "0x15b3"
numa:
  shift: 12:30
  sleep: 010
  zones: 2
"""


def test_a_topology_of_others_is_read() -> None:
    """All that fake-gpu-operator writes is there, typed."""
    topology = read_topology(THEIRS)
    assert (topology.gpu_memory, topology.gpu_product) == (40960, "NVIDIA-A100-SXM4-40GB")
    assert (topology.driver_version, topology.cuda_version) == ("550.163.01", "12.4")
    assert topology.mig_strategy == "mixed"
    whole, cut = topology.gpus
    assert (whole.mig_enabled, whole.mig_instances) == (False, ())
    assert str(whole.status.allocated_by) == "team-a/train-0/main"
    assert whole.status.in_use
    assert cut.mig_enabled
    assert not cut.status.in_use
    assert [(one.profile, one.index, one.uuid) for one in cut.mig_instances] == [
        ("2g.10gb", 0, "MIG-298ef8da-e35f-5624-a935-1eb55fc58d0f"),
        ("1g.5gb+me", 4, "MIG-db7d5b53-1633-569e-a4ec-401c5d7e4a4d"),
    ]
    assert [(one.name, one.count) for one in topology.other_devices] == [("rdma/hca", 2)]


def test_unknown_keys_at_every_depth_are_written_back() -> None:
    """Another component's data survives reading and writing, value by value; the text is the canonical one."""
    written = write_topology(read_topology(THEIRS))
    assert written == CANONICAL
    assert contains(yaml.safe_load(written), yaml.safe_load(THEIRS.replace("cudaVersion: 12.4", 'cudaVersion: "12.4"')))


def contains(larger: Any, smaller: Any) -> bool:
    """Whether all that stands in the one document stands in the other."""
    if isinstance(smaller, dict):
        return all(key in larger and contains(larger[key], value) for key, value in smaller.items())
    if isinstance(smaller, list):
        return len(larger) == len(smaller) and all(map(contains, larger, smaller))
    return type(larger) is type(smaller) and bool(larger == smaller)


def test_writing_is_canonical() -> None:
    """Reading what was written changes nothing, and equal topologies have equal text whatever their source looked like."""
    assert write_topology(read_topology(CANONICAL)) == CANONICAL
    assert read_topology(CANONICAL) == read_topology(THEIRS)
    unambiguous = re.sub(r" +(?:since|shift|sleep|uid): .*\n", "", CANONICAL)
    turned = json.dumps(turn(yaml.safe_load(unambiguous)))
    assert write_topology(read_topology(turned)) == unambiguous


def turn(data: Any) -> Any:
    """The same document with its keys in the opposite order."""
    if isinstance(data, dict):
        return {key: turn(value) for key, value in reversed(data.items())}
    return list(map(turn, data)) if isinstance(data, list) else data


@pytest.mark.parametrize("key", ["gpus", "otherDevices", "migStrategy", "gpuMemory", "gpuProduct", "driverVersion"])
def test_null_is_absent(key: str) -> None:
    """A known key without a value counts as absent, as it does for others."""
    assert read_topology(f"{key}:\n") == read_topology("{}")


def test_a_change_leaves_the_rest_as_it_was() -> None:
    """A topology that is changed in one place is written with everything else of the source."""
    topology = read_topology(THEIRS)
    changed = write_topology(replace(topology, mig_strategy="single"))
    assert changed == CANONICAL.replace("migStrategy: mixed", "migStrategy: single")


def test_gpu_ids_are_those_of_fake_gpu_operator() -> None:
    """A GPU's UUID follows from the Node's name and its index."""
    assert gpu_uuid("node1", 0) == "GPU-9c371748-0caa-5ed1-a957-7da694d693b6"
    topology = NodeTopology.create("node1", gpu_product="NVIDIA-A100-SXM4-40GB", gpu_count=3, gpu_memory=40960)
    assert [gpu.id for gpu in topology.gpus] == [gpu_uuid("node1", index) for index in range(3)]
    assert len({gpu.id for gpu in topology.gpus}) == 3


def test_mig_uuids_are_stable_and_tell_slices_apart() -> None:
    """A slice's UUID follows from its GPU, profile and place, and looks like a real one."""
    gpu = gpu_uuid("node1", 0)
    assert mig_uuid(gpu, "1g.5gb", 0) == "MIG-9a8c5f10-2d5b-5a28-aa11-7f67f3e6d661"
    places = [
        (gpu_uuid("node1", i), profile, start) for i in (0, 1) for profile in ("1g.5gb", "2g.10gb") for start in (0, 2)
    ]
    assert len({mig_uuid(*place) for place in places}) == len(places)


def test_a_new_node_is_written_and_read() -> None:
    """The topology of a new Node has whole GPUs that nobody holds."""
    topology = NodeTopology.create(
        "node1",
        gpu_product="Tesla-K80",
        gpu_count=1,
        gpu_memory=11441,
        mig_strategy="mixed",
        other_devices=(OtherDevice(name="rdma/hca", count=2),),
    )
    written = write_topology(topology)
    assert read_topology(written) == topology
    assert yaml.safe_load(written) == {
        "gpuMemory": 11441,
        "gpuProduct": "Tesla-K80",
        "gpus": [
            {
                "id": "GPU-9c371748-0caa-5ed1-a957-7da694d693b6",
                "status": {
                    "allocatedBy": {"namespace": "", "pod": "", "container": ""},
                    "podGpuUsageStatus": {},
                },
                "migEnabled": False,
            }
        ],
        "migStrategy": "mixed",
        "otherDevices": [{"name": "rdma/hca", "count": 2}],
    }


@pytest.mark.parametrize(
    ("status", "users"),
    [
        ("{}", ""),
        ("{allocatedBy: {namespace: '', pod: '', container: ''}, podGpuUsageStatus: {}}", ""),
        ("{allocatedBy: {namespace: a, pod: b, container: c}}", "a/b/c"),
        ("{allocatedBy: {pod: 123}}", "123"),
        ("{podGpuUsageStatus: {u-1: {}, u-2: {}}}", "pod with UID u-1, pod with UID u-2"),
    ],
)
def test_a_device_is_in_use_by_its_container_or_its_pods(status: str, users: str) -> None:
    """A device is held by the container it is allocated to, or by pods that share it."""
    (gpu,) = read_topology(f"gpus: [{{id: GPU-1, status: {status}}}]").gpus
    assert gpu.status.in_use == bool(users)
    assert not users or gpu.status.users == users


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "^empty$"),
        ("- a", "^expected a mapping, found a list$"),
        ("gpus: {}", "^gpus: expected a list, found a mapping$"),
        ("gpus: [1]", r"^gpus\[0\]: expected a mapping, found 1$"),
        ("gpus: [{}]", r"^gpus\[0\]\.id: missing$"),
        ("gpus: [{id: ''}]", r"^gpus\[0\]\.id: empty$"),
        ("gpus: [{id: [a]}]", r"^gpus\[0\]\.id: expected a string, found a list$"),
        ("gpus: [{id: a}, {id: a}]", r"^gpus\[1\]\.id: the same as gpus\[0\]\.id$"),
        ("gpus: [{id: a, migEnabled: 1}]", r"^gpus\[0\]\.migEnabled: expected true or false, found 1$"),
        ("gpus: [{id: a, status: []}]", r"^gpus\[0\]\.status: expected a mapping, found a list$"),
        ("gpus: [{id: a, status: {allocatedBy: x}}]", r"^gpus\[0\]\.status\.allocatedBy: expected a mapping, found x$"),
        ("gpus: [{id: a, migInstances: [{index: 0, uuid: b}]}]", r"^gpus\[0\]\.migInstances\[0\]\.profile: missing$"),
        ("gpus: [{id: a, migInstances: [{profile: 1g.5gb, index: 0}]}]", r"migInstances\[0\]\.uuid: missing$"),
        (
            "gpus: [{id: a, migInstances: [{profile: 1g.5gb, index: -1, uuid: b}]}]",
            r"^gpus\[0\]\.migInstances\[0\]\.index: expected a whole number from 0 to 1023, found -1$",
        ),
        (
            "gpus: [{id: a, migInstances: [{profile: x, index: 0, uuid: b}, {profile: x, index: 1, uuid: b}]}]",
            r"^gpus\[0\]\.migInstances\[1\]\.uuid: the same as gpus\[0\]\.migInstances\[0\]\.uuid$",
        ),
        ("gpuMemory: 40 GB", '^gpuMemory: expected a whole number from 0 to 67108864, found "40 GB"$'),
        ("gpuProduct: true", "^gpuProduct: expected a string, found true$"),
        ("otherDevices: [{count: 1}]", r"^otherDevices\[0\]\.name: missing$"),
        (
            "otherDevices: [{name: a, count: 1000000000}]",
            r"^otherDevices\[0\]\.count: .* from 0 to 10000, found 1000000000$",
        ),
        (
            "otherDevices:\n" + "".join(f"- {{name: a.b/c{number}, count: 200}}\n" for number in range(60)),
            "^otherDevices: 12000 devices; 10000 are the most of all resources together$",
        ),
        (
            "otherDevices:\n" + "".join(f"- {{name: a.b/c{number}, count: 1}}\n" for number in range(65)),
            "^otherDevices: 65 resources; 64 are the most$",
        ),
        ("x: &a [*a]", "^x: anchors and aliases are not supported$"),
        ("gpus:\n" + "- {id: x}\n" * 2000, "^gpus: 2000 GPUs; 1024 are the most$"),
    ],
)
def test_what_is_not_a_topology_is_refused_with_its_path(text: str, problem: str) -> None:
    """A wrong value is refused, not repaired: the message says where it stands."""
    with pytest.raises(DocumentError, match=problem):
        read_topology(text)
