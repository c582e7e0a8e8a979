from __future__ import annotations

import pytest
import yaml

from nicrails_faker.mig import (
    ClusterTopology,
    DocumentError,
    FlatPool,
    OtherDevice,
    PoolSpec,
    ProfilePool,
    gpu_uuid,
    read_cluster_topology,
    spec_of,
    write_cluster_topology,
)

FLAT = """
nodePoolLabelKey: run.ai/simulated-gpu-node-pool
migStrategy: mixed
nodePools:
  default:
    gpuProduct: Tesla-K80
    gpuCount: 2
    gpuMemory: 11441
  rdma:
    gpuProduct: NVIDIA-A100-SXM4-40GB
    gpuCount: 4
    gpuMemory: 40960
    otherDevices:
    - {name: rdma/rdma_shared_device_a, count: 1}
    - {name: vpc.amazonaws.com/efa, count: 4, note: kept}
    numa: {zones: 2}
"""
NEW = """
nodePoolLabelKey: run.ai/simulated-gpu-node-pool
migStrategy: none
gpuOperator: {version: v24.9.0}
nodePools:
  default:
    gpu:
      backend: fake
      profile: a100
      overrides:
        device_count: 2
        device_defaults:
          memory: {total_bytes: 85899345920}
          name: NVIDIA A100-SXM4-80GB
      mock: {image: x}
    numa: {zones: 2, gpusPerZone: 4}
    resources:
    - nvidia.com/gpu: 8
    - rdma/hca: 3
  legacy:
    gpuProduct: Tesla-K80
    gpuCount: 2
    gpuMemory: 11441
  plain:
    gpu:
      overrides: {device_defaults: {name: NVIDIA H200, memory: {total_bytes: 150754820096}}, devices: [{}, {}, {}]}
"""
A100 = """
version: "1.0"
system: {driver_version: "550.163.01", cuda_version: 12.4}
device_defaults:
  name: "NVIDIA A100-SXM4-40GB"
  memory: {total_bytes: 42949672960, reserved_bytes: 611319808}
  pci: {device_id: 0x20B010DE}
devices: [{index: 0}, {index: 1}, {index: 2}]
"""


def test_the_old_format_is_read() -> None:
    """Flat keys say all about the Nodes of a pool."""
    topology = read_cluster_topology(FLAT)
    assert (topology.pool_label, topology.mig_strategy) == ("run.ai/simulated-gpu-node-pool", "mixed")
    assert spec_of(topology.pools["default"], {}) == PoolSpec(gpu_product="Tesla-K80", gpu_count=2, gpu_memory=11441)
    rdma = spec_of(topology.pools["rdma"], {})
    assert [(one.name, one.count) for one in rdma.other_devices] == [
        ("rdma/rdma_shared_device_a", 1),
        ("vpc.amazonaws.com/efa", 4),
    ]


def test_the_new_format_is_read() -> None:
    """A pool with a block ``gpu`` has the GPUs of its profile with the overrides merged in, at every depth."""
    topology = read_cluster_topology(NEW)
    pool = topology.pools["default"]
    assert isinstance(pool, ProfilePool)
    assert (pool.backend, pool.profile) == ("fake", "a100")
    assert spec_of(pool, {"a100": A100}) == PoolSpec(
        gpu_product="NVIDIA A100-SXM4-80GB",
        gpu_count=2,
        gpu_memory=81920,
        driver_version="550.163.01",
        cuda_version="12.4",
        other_devices=(OtherDevice(name="rdma/hca", count=3),),
    )


def test_formats_may_be_mixed_and_a_profile_may_be_missing() -> None:
    """Each pool is read in its own format; overrides alone can say everything."""
    pools = read_cluster_topology(NEW).pools
    assert isinstance(pools["legacy"], FlatPool)
    assert spec_of(pools["legacy"], {}).gpu_count == 2
    assert spec_of(pools["plain"], {}) == PoolSpec(gpu_product="NVIDIA H200", gpu_count=3, gpu_memory=143771)


def test_the_devices_of_a_profile_are_counted() -> None:
    """Without a count, a profile has as many GPUs as it lists."""
    pool = ProfilePool(backend="fake", profile="a100")
    assert spec_of(pool, {"a100": A100}).gpu_count == 3
    assert spec_of(pool, {"a100": A100 + "device_count: 0\n"}).gpu_count == 3
    assert spec_of(pool, {"a100": A100 + "device_count: 8\n"}).gpu_count == 8


def test_an_override_leaves_the_rest_of_the_profile() -> None:
    """Where an override changes one key of a mapping, the others keep their values of the profile."""
    topology = read_cluster_topology(
        "nodePools: {a: {gpu: {profile: a100, overrides: {device_defaults: {name: NVIDIA H20}}}}}"
    )
    assert spec_of(topology.pools["a"], {"a100": A100}) == PoolSpec(
        gpu_product="NVIDIA H20", gpu_count=3, gpu_memory=40960, driver_version="550.163.01", cuda_version="12.4"
    )


@pytest.mark.parametrize("text", [FLAT, NEW, "{}", "nodePools: {}", "nodePools: {a: {}}", "nodePools: {a: {gpu: {}}}"])
def test_unknown_keys_are_written_back_and_writing_is_canonical(text: str) -> None:
    """Both formats survive reading and writing with everything in them."""
    topology = read_cluster_topology(text)
    written = write_cluster_topology(topology)
    assert read_cluster_topology(written) == topology
    assert write_cluster_topology(read_cluster_topology(written)) == written
    before, after = yaml.safe_load(text), yaml.safe_load(written)
    for name, pool in (before.get("nodePools") or {}).items():
        assert after["nodePools"][name] | pool == after["nodePools"][name]
    assert after | {key: value for key, value in before.items() if key != "nodePools"} == after


def test_a_node_of_a_pool_gets_its_topology() -> None:
    """A new Node has the GPUs of its pool, the strategy of the cluster, and IDs of its own."""
    topology = read_cluster_topology(FLAT).node("worker1", "rdma", {})
    assert topology.gpu_product == "NVIDIA-A100-SXM4-40GB"
    assert [gpu.id for gpu in topology.gpus] == [gpu_uuid("worker1", index) for index in range(4)]
    assert topology.mig_strategy == "mixed"
    assert [one.name for one in topology.other_devices] == ["rdma/rdma_shared_device_a", "vpc.amazonaws.com/efa"]


def test_a_topology_without_a_label_has_the_usual_one() -> None:
    """The Node label of pools is that of fake-gpu-operator's chart unless another one is given."""
    assert read_cluster_topology("{}") == ClusterTopology(pools={})
    assert read_cluster_topology("{}").pool_label == "run.ai/simulated-gpu-node-pool"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nodePools: []", "^nodePools: expected a mapping, found a list$"),
        ("nodePools: {a: 1}", r"^nodePools\.a: expected a mapping, found 1$"),
        (
            "nodePools: {a.b: {gpuCount: -1}}",
            r'^nodePools\["a\.b"\]\.gpuCount: expected a whole number from 0 to 1024, found -1$',
        ),
        ("nodePools: {a: {gpuCount: 1000000}}", r"^nodePools\.a\.gpuCount: .* found 1000000$"),
        ("nodePools: {a: {gpu: fake}}", r"^nodePools\.a\.gpu: expected a mapping, found fake$"),
        ("nodePools: {a: {gpu: {overrides: []}}}", r"^nodePools\.a\.gpu\.overrides: expected a mapping, found a list$"),
        (
            "nodePools: {a: {gpu: {}, resources: [{x: 10000}, {y: 1}]}}",
            r"^nodePools\.a\.resources: 10001 devices; 10000 are the most of all resources together$",
        ),
        (
            "nodePools: {a: {otherDevices: [{name: x, count: 6000}, {name: x, count: 6000}]}}",
            r"^nodePools\.a\.otherDevices: 12000 devices",
        ),
        (
            "nodePools: {a: {gpu: {}, resources: {x: 1}}}",
            r"^nodePools\.a\.resources: expected a list, found a mapping$",
        ),
        (
            "nodePools: {a: {gpu: {}, resources: [{x: y}]}}",
            r"^nodePools\.a\.resources\[0\]\.x: expected a whole number",
        ),
    ],
)
def test_what_is_not_a_cluster_topology_is_refused_with_its_path(text: str, problem: str) -> None:
    """A wrong value is refused where it stands."""
    with pytest.raises(DocumentError, match=problem):
        read_cluster_topology(text)


@pytest.mark.parametrize(
    ("pool", "profiles", "problem"),
    [
        ("other", {}, '^nodePools: no pool "other"; known are default, legacy, plain$'),
        ("default", {}, '^gpu.profile: no GPU profile "a100"; known are none$'),
        ("default", {"a100": "[]"}, "^expected a mapping, found a list$"),
        ("default", {"a100": "system: 1"}, "^system: expected a mapping, found 1$"),
        ("default", {"a100": "x: &a 1"}, "^x: anchors and aliases"),
    ],
)
def test_a_node_of_no_pool_is_refused(pool: str, profiles: dict[str, str], problem: str) -> None:
    """A pool or a profile that is missing or wrong is refused with those there are."""
    with pytest.raises(DocumentError, match=problem):
        read_cluster_topology(NEW).node("worker1", pool, profiles)
