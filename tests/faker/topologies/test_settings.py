from __future__ import annotations

import pytest

from nicrails_faker.mig import DocumentError, MigInstance, NodeTopology, read_cluster_topology, read_topology
from nicrails_faker.topologies.settings import ClusterSettings, settings_of

_CLUSTER = """\
nodePools:
  flat:
    gpuProduct: NVIDIA-A100-SXM4-40GB
    gpuCount: 2
    gpuMemory: 40960
    machine: h100-8gpu-dualport
    otherDevices: [{name: rdma/hca, count: 4}]
  profiled:
    gpu: {profile: a100}
    resources: [{rdma/hca: 2}]
  wrong:
    gpuCount: 1
    machine: [no]
migStrategy: single
"""
_PROFILES = {"a100": "device_count: 1"}


def _settings(pool: str) -> ClusterSettings:
    return settings_of(read_cluster_topology(_CLUSTER), pool, _PROFILES)


def test_both_formats_give_settings() -> None:
    """Strategy, other devices and machine are those of the cluster and of the pool, in either format."""
    flat, profiled = _settings("flat"), _settings("profiled")
    assert (flat.mig_strategy, flat.machine) == ("single", "h100-8gpu-dualport")
    assert [(device.name, device.count) for device in flat.other_devices] == [("rdma/hca", 4)]
    assert [(device.name, device.count) for device in profiled.other_devices] == [("rdma/hca", 2)]
    assert profiled.machine == ""


def test_a_machine_must_be_a_name() -> None:
    """A machine that is no text is refused with its path."""
    with pytest.raises(DocumentError, match=r"nodePools\.wrong\.machine"):
        _settings("wrong")


def test_a_profile_that_is_not_there_is_told() -> None:
    """A pool whose profile is missing is refused with the profiles that there are."""
    with pytest.raises(DocumentError, match="no GPU profile"):
        settings_of(read_cluster_topology(_CLUSTER), "profiled", {})


def test_settings_leave_everything_else_as_it_is() -> None:
    """GPUs, slices, holders and unknown keys survive new settings; the machine comes and goes with the pool's."""
    text = """\
gpuMemory: 40960
gpuProduct: X
gpus:
- id: GPU-1
  migEnabled: true
  migInstances:
  - {profile: 1g.5gb, index: 0, uuid: MIG-1, status: {allocatedBy: {namespace: a, pod: b, container: c}}}
migStrategy: mixed
on: kept
zone: {a: 1}
"""
    before = read_topology(text)
    after = _settings("flat").into(before)
    assert after.mig_strategy == "single"
    assert after.gpus == before.gpus
    assert isinstance(after.gpus[0].mig_instances[0], MigInstance)
    keys = [key.text for key, _ in after.extra.entries]
    assert keys == ["machine", "on", "zone"]
    again = _settings("profiled").into(after)
    assert again.extra == before.extra


def test_the_fingerprint_tells_settings_apart() -> None:
    """Equal settings have equal fingerprints, others have others."""
    assert _settings("flat").fingerprint == _settings("flat").fingerprint
    one = ClusterSettings(mig_strategy="none", other_devices=(), machine="")
    others = [
        ClusterSettings(mig_strategy="mixed", other_devices=(), machine=""),
        ClusterSettings(mig_strategy="none", other_devices=(), machine="m"),
        ClusterSettings(mig_strategy="none", other_devices=_settings("flat").other_devices, machine=""),
    ]
    assert len({one.fingerprint} | {other.fingerprint for other in others}) == 4


def test_settings_twice_are_settings_once() -> None:
    """Bringing the same settings again changes nothing."""
    new = NodeTopology.create("n", gpu_product="X", gpu_count=1)
    once = _settings("flat").into(new)
    assert _settings("flat").into(once) == once
