from __future__ import annotations

from dataclasses import replace

import pytest

from nicrails_faker.deviceplugin.devices import Device, offer, socket_name
from nicrails_faker.mig import MigInstance, NodeTopology, OtherDevice
from nicrails_faker.smi import hardware_of
from tests.faker.smi.topologies import MIG, cut, whole


def _offer(topology: NodeTopology, *, strict: bool = False) -> tuple[dict[str, tuple[Device, ...]], tuple[str, ...]]:
    found = offer(topology, hardware_of(topology), strict=strict)
    return dict(found.resources), found.problems


def test_devices_are_uuids() -> None:
    """GPUs and slices are offered under their UUIDs."""
    topology = cut()
    resources, problems = _offer(topology)
    assert problems == ()
    assert resources["nvidia.com/gpu"] == (Device(id=topology.gpus[1].id),)
    slices = {f"nvidia.com/mig-{one.profile.replace('+', '.')}": one.uuid for one in topology.gpus[0].mig_instances}
    assert {name: [one.id for one in devices] for name, devices in resources.items() if "mig" in name} == {
        name: [uuid] for name, uuid in slices.items()
    }


def test_slices_are_at_the_numa_node_of_their_gpu() -> None:
    """The NUMA nodes of the machine are those of GPUs and of their slices; made-up devices have none."""
    topology = cut(whole(8, machine="h100-8gpu-dualport"), MIG.replace('["0"]', '["7"]'))
    topology = replace(topology, other_devices=(OtherDevice(name="rdma/hca", count=1),))
    resources, _ = _offer(topology)
    assert [one.numa_node for one in resources["nvidia.com/gpu"]] == [0, 0, 0, 0, 1, 1, 1]
    assert [one.numa_node for one in resources["nvidia.com/mig-1g.5gb"]] == [1]
    assert [one.numa_node for one in resources["rdma/hca"]] == [None]


def test_strict_offers_no_gpu_where_nvidias_plugin_would_not_start() -> None:
    """With the strategy single and GPUs that differ, strict leaves nothing and otherwise slices and GPUs count alike."""
    topology = replace(cut(), mig_strategy="single")
    assert len(_offer(topology)[0]["nvidia.com/gpu"]) == 5
    assert _offer(topology, strict=True)[0] == {"nvidia.com/gpu": ()}


@pytest.mark.parametrize(
    "name", ["hca", "rdma/", "/hca", "rdma/a/b", "rdma/ä", "rdma/a b", "-rdma/a", "rdma/a\n", "kubernetes.io/x",
             "a.kubernetes.io/x", f"rdma/{'x' * 64}", f"{'x' * 250}/a", "../a", "RDMA/hca"],
)  # fmt: skip
def test_names_that_the_kubelet_refuses_are_left_out_with_a_sentence(name: str) -> None:
    """One wrong name takes nothing from the others."""
    resources, (problem,) = _offer(replace(whole(), other_devices=(OtherDevice(name=name, count=1),)))
    assert list(resources) == ["nvidia.com/gpu"]
    assert "is no name of an extended resource" in problem
    assert problem.isprintable()


@pytest.mark.parametrize("device", ["GPU,1", "GPU 1", "GPU-\n", "ä", "x" * 64, "$(id)"])
def test_ids_that_no_device_can_have_are_left_out_with_a_sentence(device: str) -> None:
    """The other devices of the resource stay."""
    topology = whole()
    resources, (problem,) = _offer(replace(topology, gpus=(replace(topology.gpus[0], id=device), topology.gpus[1])))
    assert resources == {"nvidia.com/gpu": (Device(id=topology.gpus[1].id),)}
    assert "can not be the ID of a device" in problem


def test_a_profile_that_somebody_made_up_is_left_out() -> None:
    """A slice whose profile gives no resource name is told."""
    topology = cut()
    odd = replace(topology.gpus[0], mig_instances=(MigInstance(profile="1g/5gb", index=0, uuid="MIG-1"),))
    resources, (problem,) = _offer(replace(topology, gpus=(odd, topology.gpus[1])))
    assert list(resources) == ["nvidia.com/gpu"]
    assert 'nvidia.com/mig-1g/5gb" is no name' in problem


def test_sockets_have_the_names_of_the_peer() -> None:
    """Names are those of fake-gpu-operator."""
    assert socket_name("nvidia.com/gpu", set(), longest=70) == "fake-nvidia-gpu.sock"
    assert socket_name("nvidia.com/mig-1g.5gb.me", set(), longest=70) == "fake-nvidia_com_mig_1g_5gb_me.sock"
    assert socket_name("rdma/hca", set(), longest=70) == "fake-rdma_hca.sock"


def test_two_resources_never_share_a_socket() -> None:
    """Where the names of two resources come out alike, or too long for a path, the name is a digest."""
    first = socket_name("a-b/c", set(), longest=70)
    second = socket_name("a.b/c", {first}, longest=70)
    assert first == "fake-a_b_c.sock" != second
    assert second == socket_name("a.b/c", {first}, longest=70)
    long = socket_name("x.example.com/" + "y" * 60, set(), longest=70)
    assert len(long) <= 70
    assert all(name.startswith("fake-") and name.endswith(".sock") for name in (first, second, long))
