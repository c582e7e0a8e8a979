from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from nicrails_faker.mig import (
    GPU_RESOURCE,
    Holder,
    NodeTopology,
    PlanError,
    Status,
    advertised_resources,
    gpu_uuid,
    mig_uuid,
    parse_request,
    plan,
    read_topology,
    write_topology,
)

A100 = NodeTopology.create("node1", gpu_product="NVIDIA-A100-SXM4-40GB", gpu_count=2, mig_strategy="mixed")
K80 = NodeTopology.create("node1", gpu_product="Tesla-K80", gpu_count=2)
BUSY = Status(allocated_by=Holder(namespace="team-a", pod="train-0", container="main"))


def entries(*texts: str) -> str:
    """A request with these entries."""
    return f"{{version: v1, mig-configs: {{selected: [{', '.join(f'{{{text}}}' for text in texts)}]}}}}"


def on(slices: str, devices: str = "[0]") -> str:
    """An entry that cuts GPUs."""
    return f"devices: {devices}, mig-enabled: true, mig-devices: {slices}"


SEVEN = entries(on("{1g.5gb: 7}"))
THREE = entries(on("[{name: 2g.10gb, position: 0}, {name: 2g.10gb, position: 2}, {name: 2g.10gb, position: 4}]"))


def applied(topology: NodeTopology, *requests: str | None) -> NodeTopology:
    """The topology after requests, one after the other."""
    for text in requests:
        topology = plan(topology, None if text is None else parse_request(text))
    return topology


def cut(topology: NodeTopology) -> list[list[tuple[str, int]] | None]:
    """The slices of each GPU; None is a whole one."""
    return [
        [(one.profile, one.index) for one in gpu.mig_instances] if gpu.mig_enabled else None for gpu in topology.gpus
    ]


def test_seven_slices_of_one_gpu() -> None:
    """The request of the demonstration: seven slices on one GPU, the other stays whole."""
    after = applied(A100, SEVEN)
    assert cut(after) == [[("1g.5gb", start) for start in range(7)], None]
    assert [one.uuid for one in after.gpus[0].mig_instances] == [
        mig_uuid(gpu_uuid("node1", 0), "1g.5gb", start) for start in range(7)
    ]
    assert {name: len(ids) for name, ids in advertised_resources(after).items()} == {
        GPU_RESOURCE: 1,
        "nvidia.com/mig-1g.5gb": 7,
    }


@pytest.mark.parametrize(
    ("request_", "slices"),
    [
        (SEVEN, [[("1g.5gb", 0), ("1g.5gb", 1), ("1g.5gb", 2), ("1g.5gb", 3), ("1g.5gb", 4), ("1g.5gb", 5), ("1g.5gb", 6)], None]),
        (THREE, [[("2g.10gb", 0), ("2g.10gb", 2), ("2g.10gb", 4)], None]),
        (entries(on("{0: 2g.10gb, 4: 1g.5gb}", "['1']")), [None, [("2g.10gb", 0), ("1g.5gb", 4)]]),
        (entries(on("{3g.20gb: 2}", "all")), [[("3g.20gb", 0), ("3g.20gb", 4)]] * 2),
        (entries(on("[{name: 3g.20gb, size: 4}, {name: 1g.5gb+me, size: 1}]")), [[("3g.20gb", 0), ("1g.5gb+me", 4)], None]),
        (entries(on("[{name: 3g.20gb, size: 3}, {name: 4g.20gb, size: 4}]")), [[("4g.20gb", 0), ("3g.20gb", 4)], None]),
        (entries(on("[{name: 7g.40gb, position: 0, size: 8}]", "all")), [[("7g.40gb", 0)]] * 2),
        (entries(on("{}", "all")), [[], []]),
        (entries(on("[]"), "devices: [1], mig-enabled: false"), [[], None]),
        (entries(on("[{name: 1g.5gb, position: 5}]"), on("[{name: 1g.5gb, position: 1}]")), [[("1g.5gb", 1), ("1g.5gb", 5)], None]),
        (entries(on("[{name: 1g.5gb}]", "[1]"), on("{2: 2g.10gb}", "all")), [[("2g.10gb", 2)], [("1g.5gb", 0), ("2g.10gb", 2)]]),
        (entries(), [None, None]),
        (entries("devices: all, mig-enabled: false"), [None, None]),
        (entries("device-filter: '0x20B010DE', " + on("{1g.10gb: 4}")), [[("1g.10gb", 0), ("1g.10gb", 2), ("1g.10gb", 4), ("1g.10gb", 6)], None]),
        (
            entries("device-filter: ['0x233010DE'], " + on("{1g.10gb: 7}", "all"), on("{2g.10gb: 1}", "[1]")),
            [None, [("2g.10gb", 0)]],
        ),
    ],
)  # fmt: skip
def test_each_form_of_a_request_is_met(request_: str, slices: list[list[tuple[str, int]] | None]) -> None:
    """Every form becomes slices at legal places; a GPU that is not selected is whole."""
    assert cut(applied(A100, request_)) == slices


REFUSED = {
    "no such GPU": (A100, entries(on("{1g.5gb: 1}", "[0, 2]")), r"^mig-configs\.selected\[0\]\.devices\[1\]: the Node has no GPU 2; its GPUs are 0 to 1$"),
    "no such GPU, off": (A100, entries("devices: [7], mig-enabled: false"), r"devices\[0\]: the Node has no GPU 7"),
    "no GPUs": (replace(A100, gpus=()), SEVEN, r"devices\[0\]: the Node has no GPU 0; it has no GPUs$"),
    "one GPU": (replace(A100, gpus=A100.gpus[:1]), entries(on("{}", "[1]")), r"the Node has no GPU 1; it has only GPU 0$"),
    "no such profile": (A100, entries(on("{1g.10gb+me: 1}")), r'mig-devices\["1g\.10gb\+me"\]: no profile "1g\.10gb\+me" on A100-40; it has 1g\.5gb,'),
    "a compute instance": (A100, entries(on("[{name: 1c.2g.10gb}]")), r'mig-devices\[0\]\.name: no profile "1c\.2g\.10gb" on A100-40'),
    "a profile of the A30": (A100, entries(on("{2: 1g.6gb}")), r'mig-devices\.2: no profile "1g\.6gb" on A100-40'),
    "eight slices": (A100, entries(on("{1g.5gb: 8}")), r"^mig-configs\.selected\[0\]: GPU 0: 8 times 1g\.5gb on one A100-40: at most 7 of them fit$"),
    "many slices": (A100, entries(on("{1g.5gb: 64}", "all")), r"GPU 0: 64 times 1g\.5gb"),
    "an illegal place": (A100, entries(on("{1: 2g.10gb}", "[1]")), r"GPU 1: 2g\.10gb at position 1: on A100-40 it may start at 0, 2, 4$"),
    "an overlap": (A100, entries(on("{0: 4g.20gb, 3: 1g.5gb}")), r"GPU 0: 1g\.5gb at position 3 overlaps 4g\.20gb at position 0"),
    "no room": (A100, entries(on("{3g.20gb: 2, 1g.5gb: 1}")), r"GPU 0: 2 x 3g\.20gb \+ 1 x 1g\.5gb cannot be placed on A100-40"),
    "two with media engines": (A100, entries(on("{1g.5gb+me: 2}")), r"GPU 0: 2 times 1g\.5gb\+me"),
    "no room in two entries": (A100, entries(on("[{name: 4g.20gb}]"), on("[{name: 4g.20gb}]", "all")), r"^mig-configs\.selected\[1\]: GPU 0: 2 times 4g"),
    "a wrong size": (A100, entries(on("[{name: 2g.10gb, size: 1}]")), r"mig-devices\[0\]\.name: 2g\.10gb with size 1; on A100-40 it has size 2$"),
    "counts in two entries": (A100, entries(on("{1g.5gb: 1}"), on("{1g.5gb: 2}", "all")), r"^mig-configs\.selected\[1\]: GPU 0 is selected by mig-configs\.selected\[0\] already$"),
    "counts and a list": (A100, entries(on("[{name: 1g.5gb}]"), on("{1g.5gb: 2}", "all")), r"selected\[1\]: GPU 0 is selected by"),
    "on and off": (A100, entries(on("[]", "[1]"), "devices: all, mig-enabled: false"), r"selected\[1\]: GPU 1 is selected by"),
    "no MIG": (K80, SEVEN, r'^mig-configs\.selected\[0\]: GPU 0: "Tesla-K80" is not MIG-capable$'),
    "no MIG, no slices": (K80, entries(on("{}", "all")), r'GPU 0: "Tesla-K80" is not MIG-capable$'),
    "an unknown product": (replace(A100, gpu_product="Fancy-9000"), SEVEN, r'GPU 0: unknown GPU product "Fancy-9000"; known are A100'),
    "no product": (replace(A100, gpu_product=""), SEVEN, r'GPU 0: unknown GPU product ""'),
    "two products": (replace(A100, gpu_product="NVIDIA-A100-SXM4"), SEVEN, r'GPU 0: "NVIDIA-A100-SXM4" has 40 or 80 GB'),
    "only filters of others": (A100, entries("device-filter: '0x20B710DE', " + on("{1g.6gb: 4}")), r"^mig-configs\.selected: no entry's device-filter is for \"NVIDIA-A100-SXM4-40GB\"$"),
    "a filter and an unknown product": (replace(A100, gpu_product="Fancy-9000"), entries("device-filter: '0x20B010DE', " + on("{1g.5gb: 1}")), r"no entry's device-filter is for \"Fancy-9000\"$"),
    "a good GPU and a bad one": (A100, entries(on("{1g.5gb: 7}", "[0]"), on("{1g.5gb: 8}", "[1]")), r"selected\[1\]: GPU 1: 8 times"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("before", [None, THREE])
def test_what_cannot_be_is_refused_and_changes_nothing(case: str, before: str | None) -> None:
    """An impossible request is refused with its path, the GPU and the reason, and the old state is whole."""
    topology, request_, problem = REFUSED[case]
    if before and topology is A100:
        topology = applied(topology, before)
    text = write_topology(topology)
    with pytest.raises(PlanError, match=problem) as refusal:
        applied(topology, request_)
    assert write_topology(topology) == text
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize(
    "request_", [SEVEN, THREE, entries(on("{}", "all")), entries(on("{3g.20gb: 1, 1g.5gb: 2}", "all"))]
)
def test_the_same_request_again_changes_nothing(request_: str) -> None:
    """A request that is met already gives the same object and the same bytes, also after writing and reading."""
    once = applied(A100, request_)
    assert applied(once, request_) is once
    again = read_topology(write_topology(once))
    assert write_topology(applied(again, request_)) == write_topology(once)


def test_a_request_gives_the_same_slices_whatever_was_there_before() -> None:
    """The UUIDs of a request follow from the request alone, so it can be taken back and given again."""
    once = applied(A100, SEVEN)
    assert applied(A100, THREE, None, entries(on("{7g.40gb: 1}", "all")), SEVEN) == once


def test_removal_turns_mig_off() -> None:
    """Without a request all GPUs are whole, as they were."""
    assert applied(A100, SEVEN, None) == A100
    assert applied(A100, None) is A100
    assert applied(K80, None) is K80


def test_slices_that_stay_keep_everything() -> None:
    """A slice at the same place keeps its UUID, its holder and what others wrote to it; a slice in use on another GPU is no obstacle."""
    theirs = """
gpuProduct: NVIDIA-A100-SXM4-40GB
numa: {zones: 1}
gpus:
- id: GPU-a
  migEnabled: true
  note: kept
  migInstances:
  - {profile: 1g.5gb, index: 6, uuid: MIG-a6, status: {allocatedBy: {pod: p}}, mark: 1}
  - {profile: 2g.10gb, index: 0, uuid: MIG-a0}
- id: GPU-b
  migEnabled: true
  migInstances: [{profile: 7g.40gb, index: 0, uuid: MIG-b, status: {allocatedBy: {pod: q}}}]
"""
    both = on("{6: 1g.5gb, 4: 2g.10gb}"), on("{7g.40gb: 1}", "[1]")
    after = applied(read_topology(theirs), entries(*both))
    assert cut(after) == [[("2g.10gb", 4), ("1g.5gb", 6)], [("7g.40gb", 0)]]
    new, kept = after.gpus[0].mig_instances
    assert (new.uuid, kept.uuid) == (mig_uuid("GPU-a", "2g.10gb", 4), "MIG-a6")
    assert str(kept.status.allocated_by) == "p"
    written = yaml.safe_load(write_topology(after))
    assert (written["numa"], written["gpus"][0]["note"]) == ({"zones": 1}, "kept")
    assert written["gpus"][0]["migInstances"][1]["mark"] == 1


def test_slices_that_are_met_in_another_order_are_left_alone() -> None:
    """Slices that another component listed in another order are what the request asks for, and nothing is written."""
    topology = applied(A100, THREE)
    first, *others = topology.gpus
    turned = replace(topology, gpus=(replace(first, mig_instances=first.mig_instances[::-1], status=BUSY), *others))
    assert applied(turned, THREE) is turned


@pytest.mark.parametrize("request_", [THREE, None, entries(on("{1g.5gb: 3}")), entries(on("{}", "all"))])
def test_a_slice_in_use_is_not_taken(request_: str | None) -> None:
    """A request or removal that would take a slice from its pod is refused with the pod's name."""
    topology = applied(A100, SEVEN)
    first, *others = topology.gpus
    held = replace(first.mig_instances[5], status=BUSY)
    instances = (*first.mig_instances[:5], held, first.mig_instances[6])
    busy = replace(topology, gpus=(replace(first, mig_instances=instances), *others))
    with pytest.raises(
        PlanError, match=r"GPU 0: the slice 1g.5gb at position 5 is in use by team-a/train-0/main; it cannot"
    ):
        applied(busy, request_)
    assert cut(applied(busy, entries(on("{5: 1g.5gb}")))) == [[("1g.5gb", 5)], None]


@pytest.mark.parametrize(
    ("before", "request_"), [(None, SEVEN), (SEVEN, THREE), (SEVEN, None), (None, entries(on("{}")))]
)
def test_a_gpu_in_use_is_not_cut_anew(before: str | None, request_: str | None) -> None:
    """A GPU that a pod holds as a whole keeps its layout until the pod is gone; another GPU can change meanwhile."""
    topology = applied(A100, before)
    first, second = topology.gpus
    busy = replace(topology, gpus=(replace(first, status=BUSY), second))
    with pytest.raises(
        PlanError, match=r"GPU 0 is in use by team-a/train-0/main; it cannot be cut anew before that ends$"
    ):
        applied(busy, request_)
    if before is None:
        assert cut(applied(busy, entries(on("{7g.40gb: 1}", "[1]")))) == [None, [("7g.40gb", 0)]]


def test_all_slices_are_replaced_or_none() -> None:
    """If the second GPU cannot change, the first one does not change either."""
    first, second = A100.gpus
    busy = replace(A100, gpus=(first, replace(second, status=BUSY)))
    with pytest.raises(PlanError, match="GPU 1 is in use"):
        applied(busy, entries(on("{1g.5gb: 7}", "all")))
    assert cut(busy) == [None, None]


def test_other_keys_of_the_topology_are_kept() -> None:
    """A plan changes the GPUs it cuts and nothing else of the document."""
    text = write_topology(A100).replace("migStrategy: mixed", "migStrategy: mixed\nzz:\n  deep:\n  - a: 1\n    b: 010")
    topology = read_topology(text)
    after = write_topology(applied(topology, SEVEN))
    assert after.endswith("migStrategy: mixed\nzz:\n  deep:\n  - a: 1\n    b: 010\n")
    assert write_topology(applied(read_topology(after), None)) == text
