from __future__ import annotations

import uuid

import pytest

from nicrails_faker.mig import (
    Gpu,
    MigInstance,
    NodeTopology,
    OtherDevice,
    Reason,
    advertised_resources,
    conditions,
    gpu_uuid,
    refusals,
    strategy_of,
)

GPU = "nvidia.com/gpu"
ONE, TWO, MEDIA = "nvidia.com/mig-1g.5gb", "nvidia.com/mig-2g.10gb", "nvidia.com/mig-1g.5gb.me"


def node(gpus: str, strategy: str, others: dict[str, int] | None = None) -> NodeTopology:
    """A Node with GPUs such as ``whole, 1g.5gb 2g.10gb, empty``: one without MIG, one with two slices, one with none.

    Devices are called by what they are: ``g0`` is the first GPU, ``g1s0`` the first slice of the second one.
    """
    made = []
    for index, text in enumerate(filter(None, gpus.split(", "))):
        profiles = [] if text in ("whole", "empty") else text.split()
        instances = tuple(
            MigInstance(profile=profile, index=at, uuid=f"g{index}s{at}") for at, profile in enumerate(profiles)
        )
        made.append(Gpu(id=f"g{index}", mig_enabled=text != "whole", mig_instances=instances))
    devices = tuple(OtherDevice(name=name, count=count) for name, count in (others or {}).items())
    return NodeTopology(
        gpu_memory=40960, gpu_product="A100-40", gpus=tuple(made), mig_strategy=strategy, other_devices=devices
    )


MIXED_MODES = Reason.MIXED_MIG_MODES
EMPTY = Reason.MIG_GPU_WITHOUT_SLICES
SEVERAL = Reason.SEVERAL_MIG_PROFILES

# GPUs, strategy, what is advertised, what deserves a look. A strict Node has no nvidia.com/gpu where SINGLE has reasons.
MATRIX: list[tuple[str, str, dict[str, str], set[Reason]]] = [
    ("", "none", {GPU: ""}, set()),
    ("", "single", {GPU: ""}, set()),
    ("", "mixed", {}, set()),
    ("whole, whole", "none", {GPU: "g0 g1"}, set()),
    ("whole, whole", "single", {GPU: "g0 g1"}, set()),
    ("whole, whole", "mixed", {GPU: "g0 g1"}, set()),
    ("1g.5gb 1g.5gb, whole", "none", {GPU: "g0 g1"}, set()),
    ("1g.5gb 1g.5gb, whole", "single", {GPU: "g0s0 g0s1 g1"}, {MIXED_MODES}),
    ("1g.5gb 1g.5gb, whole", "mixed", {GPU: "g1", ONE: "g0s0 g0s1"}, set()),
    ("1g.5gb 1g.5gb, 1g.5gb", "none", {GPU: "g0 g1"}, set()),
    ("1g.5gb 1g.5gb, 1g.5gb", "single", {GPU: "g0s0 g0s1 g1s0"}, set()),
    ("1g.5gb 1g.5gb, 1g.5gb", "mixed", {ONE: "g0s0 g0s1 g1s0"}, set()),
    ("1g.5gb 2g.10gb 1g.5gb", "none", {GPU: "g0"}, set()),
    ("1g.5gb 2g.10gb 1g.5gb", "single", {GPU: "g0s0 g0s1 g0s2"}, {SEVERAL}),
    ("1g.5gb 2g.10gb 1g.5gb", "mixed", {ONE: "g0s0 g0s2", TWO: "g0s1"}, set()),
    ("1g.5gb 2g.10gb, whole", "single", {GPU: "g0s0 g0s1 g1"}, {MIXED_MODES, SEVERAL}),
    ("1g.5gb 2g.10gb, whole", "mixed", {GPU: "g1", ONE: "g0s0", TWO: "g0s1"}, set()),
    ("1g.5gb, 2g.10gb", "single", {GPU: "g0s0 g1s0"}, {SEVERAL}),
    ("1g.5gb, 2g.10gb", "mixed", {ONE: "g0s0", TWO: "g1s0"}, set()),
    ("1g.5gb+me 1g.5gb", "none", {GPU: "g0"}, set()),
    ("1g.5gb+me 1g.5gb", "single", {GPU: "g0s0 g0s1"}, {SEVERAL}),
    ("1g.5gb+me 1g.5gb", "mixed", {ONE: "g0s1", MEDIA: "g0s0"}, set()),
    ("empty", "none", {GPU: "g0"}, set()),
    ("empty", "single", {GPU: ""}, {EMPTY}),
    ("empty", "mixed", {}, {EMPTY}),
    ("empty, whole", "none", {GPU: "g0 g1"}, set()),
    ("empty, whole", "single", {GPU: "g1"}, {MIXED_MODES, EMPTY}),
    ("empty, whole", "mixed", {GPU: "g1"}, {EMPTY}),
    ("empty, 1g.5gb", "single", {GPU: "g1s0"}, {EMPTY}),
    ("empty, 1g.5gb", "mixed", {ONE: "g1s0"}, {EMPTY}),
    ("empty, whole, 1g.5gb 2g.10gb", "single", {GPU: "g1 g2s0 g2s1"}, {MIXED_MODES, EMPTY, SEVERAL}),
    ("empty, whole, 1g.5gb 2g.10gb", "mixed", {GPU: "g1", ONE: "g2s0", TWO: "g2s1"}, {EMPTY}),
    ("1g.5gb, whole", "", {GPU: "g0 g1"}, set()),
    ("1g.5gb, whole", "Mixed", {GPU: "g1", ONE: "g0s0"}, set()),
    ("1g.5gb, whole", "SINGLE", {GPU: "g0s0 g1"}, {MIXED_MODES}),
    ("1g.5gb, whole", "dual", {GPU: "g0 g1"}, {Reason.UNKNOWN_MIG_STRATEGY}),
]


@pytest.mark.parametrize(("gpus", "strategy", "advertised", "reasons"), MATRIX)
def test_a_node_advertises(gpus: str, strategy: str, advertised: dict[str, str], reasons: set[Reason]) -> None:
    """Each strategy makes these resources of these GPUs, in this order, and tells what deserves a look."""
    topology = node(gpus, strategy)
    resources = advertised_resources(topology)
    assert list(resources.items()) == [(name, tuple(ids.split())) for name, ids in advertised.items()]
    assert {condition.reason for condition in conditions(topology)} == reasons


@pytest.mark.parametrize(("gpus", "strategy", "advertised", "reasons"), MATRIX)
def test_a_strict_node_refuses_what_nvidia_refuses(
    gpus: str, strategy: str, advertised: dict[str, str], reasons: set[Reason]
) -> None:
    """In strict mode a Node with the strategy ``single`` has no GPUs where NVIDIA's plugin would not start; all else is the same."""
    topology = node(gpus, strategy, {"rdma/hca": 1})
    refused = strategy.lower() == "single" and bool(reasons)
    assert {condition.reason for condition in refusals(topology)} == (reasons if refused else set())
    strict, plain = advertised_resources(topology, strict=True), advertised_resources(topology)
    assert strict == ({**plain, GPU: ()} if refused else plain)
    assert list(strict) == list(plain)
    assert len(plain["rdma/hca"]) == 1


@pytest.mark.parametrize("strategy", ["none", "single", "mixed"])
def test_other_devices_are_advertised_besides(strategy: str) -> None:
    """Other devices follow the GPUs by name, with IDs of their own that never change; a count of 0 is no resource."""
    others = {"vpc.amazonaws.com/efa": 4, "rdma/hca": 2, "none/at-all": 0, "habana.ai/gaudi": 1}
    topology = node("whole, whole", strategy, others)
    resources = advertised_resources(topology)
    assert list(resources) == [GPU, "habana.ai/gaudi", "rdma/hca", "vpc.amazonaws.com/efa"]
    assert [len(ids) for ids in resources.values()] == [2, 1, 2, 4]
    ids = [device for devices in resources.values() for device in devices]
    assert len(set(ids)) == len(ids)
    assert advertised_resources(topology) == resources
    assert resources["rdma/hca"][1] == str(uuid.uuid5(uuid.UUID(int=0), "rdma/hca-1"))
    assert conditions(topology) == ()


def test_other_devices_of_one_name_add_up() -> None:
    """A resource that is listed twice has the devices of both entries, each with its own ID."""
    topology = node("whole", "none")
    twice = (OtherDevice(name="a/b", count=2), OtherDevice(name="a/b", count=1))
    ids = advertised_resources(NodeTopology(gpu_memory=0, gpu_product="", gpus=topology.gpus, other_devices=twice))[
        "a/b"
    ]
    assert len(set(ids)) == 3


def test_other_devices_that_are_slices_too_are_told() -> None:
    """A resource of ``otherDevices`` that slices are advertised as has both, and a condition says so."""
    topology = node("1g.5gb 1g.5gb, whole", "mixed", {ONE: 7, GPU: 1})
    resources = advertised_resources(topology)
    assert {name: len(ids) for name, ids in resources.items()} == {GPU: 2, ONE: 9}
    assert resources[ONE][:2] == ("g0s0", "g0s1")
    (condition,) = conditions(topology)
    assert condition.reason is Reason.RESOURCE_GIVEN_TWICE
    assert condition.message == f"otherDevices has {GPU}, {ONE}, which GPUs or slices here are advertised as too"


def test_slices_of_a_gpu_without_mig_count_for_nothing() -> None:
    """What is left under ``migInstances`` of a GPU that is not in MIG mode is not advertised."""
    left = Gpu(id="g0", mig_enabled=False, mig_instances=(MigInstance(profile="1g.5gb", index=0, uuid="g0s0"),))
    for strategy in ("none", "single", "mixed"):
        topology = NodeTopology(gpu_memory=0, gpu_product="", gpus=(left,), mig_strategy=strategy)
        assert advertised_resources(topology) == {GPU: ("g0",)}
        assert conditions(topology) == ()


def test_the_message_of_a_condition_is_one_printable_sentence() -> None:
    """What is told names the GPUs and profiles, and stays short and printable whatever stands in the topology."""
    topology = node(", ".join(["whole"] + ["empty"] * 100 + ["\x1b[2J" + "x" * 500]), "single")
    told = {condition.reason: condition.message for condition in conditions(topology)}
    assert told[MIXED_MODES].startswith("GPUs 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 … are in MIG mode")
    assert all(message.isprintable() and len(message) < 300 for message in told.values())
    unknown = conditions(node("whole", "\x07" * 1000))
    assert all(one.message.isprintable() and len(one.message) < 200 for one in unknown)


def test_device_ids_are_the_uuids_of_gpus() -> None:
    """The devices of a Node are its GPUs under the UUIDs that they have everywhere."""
    topology = NodeTopology.create("node1", gpu_product="Tesla-K80", gpu_count=2, mig_strategy="mixed")
    assert advertised_resources(topology) == {GPU: (gpu_uuid("node1", 0), gpu_uuid("node1", 1))}
    assert strategy_of(topology) == "mixed"
