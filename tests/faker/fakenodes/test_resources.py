from __future__ import annotations

from collections.abc import Mapping

import pytest

from nicrails_faker.fakenodes.controller import FakeNodes
from nicrails_faker.fakenodes.resources import resource_changes
from nicrails_faker.mig import NodeTopology, OtherDevice
from nicrails_faker.migfaker.requests import goal
from nicrails_faker.migfaker.seen import SeenNode
from tests.faker.played import mig_config

_GIVEN = "nicrails.io/fake-resources"
_WHOLE = NodeTopology.create(
    "n",
    gpu_product="NVIDIA-A100-SXM4-40GB",
    gpu_count=2,
    gpu_memory=40960,
    mig_strategy="mixed",
    other_devices=(OtherDevice(name="rdma/hca", count=4),),
)
_CUT = goal(_WHOLE, mig_config('{"1g.5gb": 7}', gpus="all"))


def _node(resources: Mapping[str, str], annotations: Mapping[str, str] | None = None, **more: object) -> SeenNode:
    metadata = {"name": "n", "uid": "u", "resourceVersion": "1", "annotations": dict(annotations or {})} | more
    return SeenNode.of({"metadata": metadata, "status": {"capacity": resources, "allocatable": resources}})


def test_a_new_node_gets_what_its_topology_has() -> None:
    """All that is advertised is given, and remembered on the Node."""
    changes = resource_changes(_node({"cpu": "8", "example.com/x": "1"}), _WHOLE)
    assert changes.capacity == changes.allocatable == {"nvidia.com/gpu": "2", "rdma/hca": "4"}
    assert changes.annotations == {_GIVEN: "nvidia.com/gpu,rdma/hca"}


def test_what_is_right_is_not_written() -> None:
    """A Node that advertises what its topology has is left alone."""
    node = _node({"nvidia.com/gpu": "2", "rdma/hca": "4", "cpu": "8"}, {_GIVEN: "nvidia.com/gpu,rdma/hca"})
    assert not resource_changes(node, _WHOLE)


def test_what_is_no_longer_advertised_goes() -> None:
    """Resources that the topology no longer has are removed, also those of which only the GPU's name tells."""
    node = _node(
        {"nvidia.com/gpu": "2", "rdma/hca": "4", "rdma/old": "1", "nvidia.com/mig-2g.10gb": "3", "nvidia.com/x": "1"},
        {_GIVEN: "nvidia.com/gpu,rdma/hca,rdma/old"},
    )
    changes = resource_changes(node, _CUT)
    assert changes.allocatable == {
        "nvidia.com/gpu": None,
        "nvidia.com/mig-1g.5gb": "14",
        "nvidia.com/mig-2g.10gb": None,
        "rdma/old": None,
    }
    assert changes.annotations == {_GIVEN: "nvidia.com/mig-1g.5gb,rdma/hca"}


def test_without_a_topology_everything_that_was_given_goes() -> None:
    """When the topology is gone all that it gave goes with it, and the last trace too."""
    node = _node({"nvidia.com/gpu": "2", "rdma/hca": "4", "cpu": "8"}, {_GIVEN: "nvidia.com/gpu,rdma/hca"})
    changes = resource_changes(node, None)
    assert changes.capacity == changes.allocatable == {"nvidia.com/gpu": None, "rdma/hca": None}
    assert changes.annotations == {_GIVEN: None}


def test_a_node_that_was_given_nothing_is_left_alone() -> None:
    """A Node that never had a topology keeps what others have given it."""
    assert not resource_changes(_node({"nvidia.com/gpu": "8"}), None)


def test_half_written_resources_are_completed() -> None:
    """Capacity and allocatable are put right each by itself."""
    node = SeenNode.of(
        {
            "metadata": {
                "name": "n",
                "uid": "u",
                "resourceVersion": "1",
                "annotations": {_GIVEN: "nvidia.com/gpu,rdma/hca"},
            },
            "status": {"capacity": {"nvidia.com/gpu": "2"}, "allocatable": {"nvidia.com/gpu": "1", "rdma/hca": "4"}},
        }
    )
    changes = resource_changes(node, _WHOLE)
    assert changes.capacity == {"rdma/hca": "4"}
    assert changes.allocatable == {"nvidia.com/gpu": "2"}
    assert changes.annotations == {}


@pytest.mark.parametrize(
    ("annotations", "labels", "fake"),
    [
        ({"kwok.x-k8s.io/node": "fake"}, {}, True),
        ({"kwok.x-k8s.io/node": "other"}, {}, False),
        ({}, {"nicrails.io/fake-node": "true"}, True),
        ({}, {"nicrails.io/fake-node": "false"}, False),
        ({}, {}, False),
    ],
)
def test_which_nodes_are_meant(annotations: dict[str, str], labels: dict[str, str], fake: bool) -> None:
    """Only Nodes of KWOK and Nodes with the label have no kubelet."""
    assert (_node({}, annotations, labels=labels) in FakeNodes()) is fake
    assert _node({}, {}, labels={"a": "b"}) in FakeNodes(label="a", value="b")
