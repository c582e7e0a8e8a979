from __future__ import annotations

from dataclasses import replace

import pytest

from nicrails_faker.mig import Holder, MigError, NodeTopology, Status
from nicrails_faker.migfaker.requests import goal, restored, same_layout
from tests.faker.played import mig_config

_NODE = NodeTopology.create("n", gpu_product="NVIDIA-A100-SXM4-40GB", gpu_count=2, gpu_memory=40960)
_CUT = goal(_NODE, mig_config('{"1g.5gb": 7}'))
_HELD = Status(allocated_by=Holder(namespace="a", pod="b", container="c"))


def test_a_request_is_met_and_taken_back() -> None:
    """The annotation decides the topology, the same one changes nothing, and without one MIG is off."""
    assert len(_CUT.gpus[0].mig_instances) == 7
    assert goal(_CUT, mig_config('{"1g.5gb": 7}')) is _CUT
    assert goal(_CUT, None) == _NODE


def test_what_can_not_be_read_is_refused_each_time() -> None:
    """A text that is no request is refused, also when it comes again."""
    for _ in range(2):
        with pytest.raises(MigError, match="version"):
            goal(_NODE, "{}")


def test_a_write_is_taken_back() -> None:
    """What was written goes back to what was before, and what others have changed besides stays."""
    now = replace(_CUT, driver_version="550", gpus=(_CUT.gpus[0], replace(_CUT.gpus[1], status=_HELD)))
    back = restored(now, before=_NODE, written=_CUT)
    assert back.gpus == (_NODE.gpus[0], replace(_NODE.gpus[1], status=_HELD))
    assert back.driver_version == "550"
    assert same_layout(back, _NODE)
    assert restored(back, before=_NODE, written=_CUT) is back


def test_what_somebody_has_by_now_is_not_taken_back() -> None:
    """A slice that a pod got in the meantime keeps its GPU as it is."""
    gpu = _CUT.gpus[0]
    held = replace(gpu, mig_instances=(replace(gpu.mig_instances[0], status=_HELD), *gpu.mig_instances[1:]))
    now = replace(_CUT, gpus=(held, _CUT.gpus[1]))
    assert restored(now, before=_NODE, written=_CUT) is now
    assert not same_layout(now, _NODE)


def test_what_somebody_else_has_written_is_not_taken_back() -> None:
    """A GPU that is not as it was written any more is another one's."""
    other = goal(_NODE, mig_config('{"2g.10gb": 3}'))
    assert restored(other, before=_NODE, written=_CUT) is other
    fewer = replace(_CUT, gpus=_CUT.gpus[:1])
    assert restored(fewer, before=_NODE, written=_CUT) is fewer
