from __future__ import annotations

from dataclasses import replace

import pytest

from nicrails_faker.dcgm.holders import with_holders
from nicrails_faker.kubelet import Held
from nicrails_faker.mig import Holder, NodeTopology, PlanError, parse_request, plan, read_topology, write_topology
from nicrails_faker.mig.document import YamlMapping, string
from tests.faker.smi.topologies import MIG, cut, whole


def _held(device: str, pod: str = "pod-1") -> Held:
    return Held(resource="nvidia.com/gpu", device=device, namespace="ns", pod=pod, container="c")


def _holders(topology: NodeTopology) -> dict[str, str]:
    devices = [(gpu.id, gpu.status) for gpu in topology.gpus]
    devices += [(one.uuid, one.status) for gpu in topology.gpus for one in gpu.mig_instances]
    return {device: str(status.allocated_by) for device, status in devices if status.allocated_by}


def test_gpus_and_slices_have_the_holders_that_the_kubelet_says() -> None:
    """Each device has its container, the others nobody, and a device that is not there has no place."""
    topology = cut()
    slice_id = topology.gpus[0].mig_instances[1].uuid
    found = with_holders(topology, [_held(topology.gpus[1].id), _held(slice_id, "pod-2"), _held("GPU-gone")])
    assert _holders(found) == {topology.gpus[1].id: "ns/pod-1/c", slice_id: "ns/pod-2/c"}
    assert with_holders(found, []) == topology


def test_the_same_holders_are_no_change() -> None:
    """Nothing changes where nothing is to change, so nothing is written."""
    topology = cut()
    held = [_held(topology.gpus[1].id)]
    once = with_holders(topology, held)
    assert with_holders(once, held) == once
    assert write_topology(with_holders(once, held)) == write_topology(once)
    assert read_topology(write_topology(once)) == once


def test_keys_of_others_stay() -> None:
    """What somebody else has put into the status stays there."""
    topology = whole(1)
    extra = YamlMapping(((string("since"), string("noon")),))
    status = replace(topology.gpus[0].status, allocated_by=Holder(extra=extra), pod_usage=extra, extra=extra)
    topology = replace(topology, gpus=(replace(topology.gpus[0], status=status),))
    found = with_holders(topology, [_held(topology.gpus[0].id)]).gpus[0].status
    assert (found.allocated_by.extra, found.pod_usage, found.extra) == (extra, extra, extra)


def test_what_is_held_is_not_cut() -> None:
    """A request for a GPU that a container holds is refused with the container's name, and taken when it has gone."""
    topology = whole()
    held = with_holders(topology, [_held(topology.gpus[0].id)])
    with pytest.raises(PlanError, match="ns/pod-1/c"):
        plan(held, parse_request(MIG))
    assert plan(with_holders(held, []), parse_request(MIG)).gpus[0].mig_enabled
