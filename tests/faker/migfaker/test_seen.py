from __future__ import annotations

from collections.abc import Mapping

import pytest

from nicrails_faker.mig import NodeTopology, OtherDevice, fingerprint
from nicrails_faker.migfaker.requests import goal
from nicrails_faker.migfaker.seen import SeenNode, difference
from tests.faker.played import mig_config


def _node(allocatable: Mapping[str, str]) -> SeenNode:
    return SeenNode.of(
        {
            "metadata": {"name": "n", "uid": "u", "resourceVersion": "1", "annotations": {"other": "x"}},
            "status": {"allocatable": dict(allocatable)},
        }
    )


_WHOLE = NodeTopology.create(
    "n",
    gpu_product="NVIDIA-A100-SXM4-40GB",
    gpu_count=2,
    gpu_memory=40960,
    mig_strategy="mixed",
    other_devices=(OtherDevice(name="nvidia.com/hca", count=2), OtherDevice(name="rdma/hca", count=2)),
)
_CUT = goal(_WHOLE, mig_config('{"2g.10gb": 3}'))


@pytest.mark.parametrize(
    ("allocatable", "says"),
    [
        ({"nvidia.com/gpu": "1", "nvidia.com/mig-2g.10gb": "3", "nvidia.com/hca": "2"}, ""),
        (
            {"nvidia.com/gpu": "1", "nvidia.com/mig-2g.10gb": "3", "nvidia.com/hca": "2", "nvidia.com/mig-1g.5gb": "0"},
            "",
        ),
        (
            {"nvidia.com/gpu": "1", "nvidia.com/mig-2g.10gb": "3", "nvidia.com/hca": "2", "nvidia.com/of-others": "9"},
            "",
        ),
        (
            {"nvidia.com/gpu": "2", "nvidia.com/hca": "2"},
            "nvidia.com/gpu is 2 and not 1, nvidia.com/mig-2g.10gb is 0 and not 3",
        ),
        (
            {"nvidia.com/gpu": "1", "nvidia.com/mig-2g.10gb": "3", "nvidia.com/hca": "2", "nvidia.com/mig-1g.5gb": "7"},
            "nvidia.com/mig-1g.5gb is 7 and not 0",
        ),
        (
            {"nvidia.com/gpu": "1", "nvidia.com/mig-2g.10gb": "3k", "nvidia.com/hca": "2"},
            "nvidia.com/mig-2g.10gb is 3000 and not 3",
        ),
    ],
)
def test_what_a_node_does_not_advertise_yet(allocatable: Mapping[str, str], says: str) -> None:
    """A Node has taken its topology when each resource has its number and those that went are 0 or gone."""
    assert difference(_node(allocatable), _CUT, strict=False) == says


def test_equal_numbers_of_other_slices_are_not_taken_yet() -> None:
    """Where the device plugin says what it has handed over, only that counts, however right the numbers are."""
    node = _node({"nvidia.com/gpu": "1", "nvidia.com/mig-2g.10gb": "3", "nvidia.com/hca": "2"})
    says = "the device plugin has not taken these devices over yet"
    assert difference(node, _CUT, strict=False, handed_over="0123456789abcdef") == says
    assert difference(node, _CUT, strict=False, handed_over=fingerprint(_CUT)) == ""
    assert difference(node, _CUT, strict=False, handed_over=None) == ""


def test_strict_asks_for_what_nvidia_would_advertise() -> None:
    """Where NVIDIA's plugin would not start, a strict Node has taken it when it advertises no GPUs."""
    single = NodeTopology.create(
        "n", gpu_product="NVIDIA-A100-SXM4-40GB", gpu_count=2, mig_strategy="single", gpu_memory=40960
    )
    cut = goal(single, mig_config('{"2g.10gb": 3}'))
    assert difference(_node({"nvidia.com/gpu": "4"}), cut, strict=False) == ""
    assert difference(_node({"nvidia.com/gpu": "0"}), cut, strict=True) == ""
    assert difference(_node({"nvidia.com/gpu": "4"}), cut, strict=True) == "nvidia.com/gpu is 4 and not 0"


def test_thousands_are_numbers() -> None:
    """What the API server shortens is a number again; what is no whole number stays as it stands there."""
    status = {"allocatable": {"nvidia.com/gpu": "1k", "a": "3M", "b": "1500m", "memory": "16Gi"}}
    node = SeenNode.of({"metadata": {"name": "n", "uid": "u", "resourceVersion": "1"}, "status": status})
    assert node.allocatable == {"nvidia.com/gpu": "1000", "a": "3000000", "b": "1500m", "memory": "16Gi"}


def test_of_a_node_only_what_counts_is_kept() -> None:
    """Annotations of others are not kept, and a Node without status advertises nothing."""
    node = SeenNode.of({"metadata": {"name": "n", "uid": "u", "resourceVersion": "1", "annotations": {"a": "b"}}})
    assert (node.annotations, node.allocatable, node.config, node.state, node.is_dynamic) == ({}, {}, None, None, False)
