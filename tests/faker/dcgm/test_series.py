from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from nicrails_faker.dcgm.collector import DcgmCollector
from nicrails_faker.dcgm.holders import with_holders
from nicrails_faker.dcgm.series import Series, series_of
from nicrails_faker.kubelet import Held
from nicrails_faker.mig import NodeTopology, read_topology
from tests.faker.smi.topologies import cut, whole

USAGE = """\
gpuMemory: 1000
gpuProduct: NVIDIA-A100-SXM4-40GB
gpus:
- id: GPU-a
  status:
    allocatedBy: {namespace: ns, pod: p, container: c}
    podGpuUsageStatus: %s
"""


def _held(device: str) -> Held:
    return Held(resource="nvidia.com/gpu", device=device, namespace="ns", pod="p", container="c")


def _one(topology: NodeTopology) -> Series:
    (found,) = series_of(topology, "node1")
    return found


def test_a_whole_gpu_has_the_labels_of_dcgms_exporter() -> None:
    """A GPU that nobody holds is idle, and has empty labels for the container."""
    topology = whole(2)
    first, second = series_of(topology, "node1")
    assert first == Series(
        labels={
            "gpu": "0",
            "UUID": topology.gpus[0].id,
            "device": "nvidia0",
            "modelName": "NVIDIA-A100-SXM4-40GB",
            "Hostname": "node1",
            "DCGM_FI_DRIVER_VERSION": "550.54.15",
            "container": "",
            "namespace": "",
            "pod": "",
        },
        utilization=0,
        memory_used=0,
        memory_free=40960,
    )
    assert (second.labels["gpu"], second.labels["device"]) == ("1", "nvidia1")


def test_slices_have_profile_instance_and_memory_of_their_own() -> None:
    """A GPU in MIG mode has a series for each slice and none of its own; the one that is held is busy."""
    topology = cut()
    uuid = next(one.uuid for one in topology.gpus[0].mig_instances if one.profile == "2g.10gb")
    *slices, last = series_of(with_holders(topology, [_held(uuid)]), "node1")
    assert "GPU_I_PROFILE" not in last.labels
    shown = {(one.labels["GPU_I_PROFILE"], one.labels["GPU_I_ID"]): one for one in slices}
    assert list(shown) == [("2g.10gb", "3"), ("1g.5gb+me", "9"), ("1g.5gb", "10"), ("3g.20gb", "2")]
    busy = shown["2g.10gb", "3"]
    assert (busy.utilization, busy.memory_used, busy.memory_free) == (100, 9856, 0)
    assert (busy.labels["namespace"], busy.labels["pod"], busy.labels["container"]) == ("ns", "p", "c")
    assert {one.labels["UUID"] for one in slices} == {topology.gpus[0].id}
    assert {one.utilization for key, one in shown.items() if key[0] != "2g.10gb"} == {0}


def test_slices_that_are_not_advertised_are_not_measured() -> None:
    """With the strategy none the GPU counts as a whole; in MIG mode without slices there is nothing to measure."""
    topology = cut()
    assert len(series_of(replace(topology, mig_strategy="none"), "node1")) == 2
    empty = replace(topology, gpus=(replace(topology.gpus[0], mig_instances=()),))
    assert series_of(empty, "node1") == ()


@pytest.mark.parametrize(
    ("usage", "utilization", "used"),
    [
        ("{}", 100, 1000),
        ("{u1: {utilization: {min: 20, max: 40}, fbUsed: 100}}", 30, 100),
        ("{u1: {utilization: {min: 80, max: 90}, fbUsed: 700}, u2: {utilization: {min: 50, max: 50}, fbUsed: 700}}", 100,
         1000),
        ("{u1: {utilization: {min: 70, max: 10}, fbUsed: -5}}", 70, 0),
        ("{u1: {utilization: none, fbUsed: much}}", 0, 0),
        ("{u1: text}", 100, 1000),
        ("{u1: {utilization: {min: 999999999999, max: 999999999999}, fbUsed: 999999999999}}", 100, 1000),
    ],
)  # fmt: skip
def test_usage_comes_from_the_document(usage: str, utilization: int, used: int) -> None:
    """The pods' own usage is added up within the bounds of the GPU; without any, a GPU that is held is busy."""
    found = _one(read_topology(USAGE % usage))
    assert (found.utilization, found.memory_used, found.memory_free) == (utilization, used, 1000 - used)


def test_what_is_not_known_is_not_made_up() -> None:
    """Without memory there is no series of it, without driver no label; an unknown profile has no instance."""
    topology = replace(cut(), gpu_product="Acme", gpu_memory=0, driver_version="")
    first, *_ = series_of(topology, "node1")
    assert (first.memory_used, first.memory_free) == (None, None)
    assert "DCGM_FI_DRIVER_VERSION" not in first.labels
    assert "GPU_I_ID" not in first.labels
    text = _page(topology)
    assert "DCGM_FI_DEV_GPU_UTIL{" in text
    assert "DCGM_FI_DEV_FB_USED{" not in text


def test_hostile_names_are_labels_of_bounded_length() -> None:
    """What the document says becomes one printable label, never another line of the page."""
    topology = replace(whole(1), gpu_product='x"} 1\nDCGM_FI_DEV_GPU_UTIL{gpu="0"} 5\x1b[2J' + "y" * 1000)
    assert len(_one(topology).labels["modelName"]) == 128
    page = _page(topology)
    assert page.isascii() or "…" in page
    assert "\x1b" not in page
    assert len([line for line in page.splitlines() if line.startswith("DCGM_FI_DEV_GPU_UTIL{")]) == 1


def _page(topology: NodeTopology) -> str:
    registry = CollectorRegistry(auto_describe=True)
    registry.register(DcgmCollector(lambda: series_of(topology, "node1")))
    return generate_latest(registry).decode()


def test_the_page_has_dcgms_names() -> None:
    """Each family is a gauge, also before there is any series; each sample has the labels of its device alone."""
    topology = cut()
    page = _page(with_holders(topology, [_held(topology.gpus[1].id)]))
    labels = (
        f'DCGM_FI_DRIVER_VERSION="550.54.15",Hostname="node1",UUID="{topology.gpus[1].id}",container="c",device="nvidia1",'
        'gpu="1",modelName="NVIDIA-A100-SXM4-40GB",namespace="ns",pod="p"'
    )
    lines = {"".join(sorted(line)) for line in page.splitlines()}
    for sample in (
        f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} 100.0",
        f"DCGM_FI_DEV_FB_USED{{{labels}}} 40960.0",
        f"DCGM_FI_DEV_FB_FREE{{{labels}}} 0.0",
        f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels}}} 1.0",
    ):
        assert "".join(sorted(sample)) in lines, sample
    assert page.count("# TYPE DCGM_FI_") == 4
    assert _page(whole(0)).count("gauge") == 4
