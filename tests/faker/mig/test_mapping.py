from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest

from nicrails_faker.mig import MigInstance, NodeTopology, ProductError, mig_uuid, parse_request, plan
from nicrails_faker.mig.mapping import mig_mapping

_NODE = NodeTopology.create("n", gpu_product="NVIDIA-A100-SXM4-40GB", gpu_count=3, gpu_memory=40960)
_REQUEST = """\
version: v1
mig-configs:
  selected:
  - {devices: [0], mig-enabled: true, mig-devices: [{name: 3g.20gb, position: 4}, {name: 1g.5gb, position: 0}]}
  - {devices: [2], mig-enabled: true, mig-devices: []}
"""


def test_it_is_base64_of_json() -> None:
    """The annotation has each GPU in MIG mode with its slices by position; padded base64 of JSON, as schedulers read it."""
    cut = plan(_NODE, parse_request(_REQUEST))
    text = mig_mapping(cut)
    assert text is not None
    assert len(text) % 4 == 0
    gpu = cut.gpus[0].id
    assert json.loads(base64.b64decode(text, validate=True)) == {
        "0": [
            {"position": 0, "device_uuid": mig_uuid(gpu, "1g.5gb", 0), "gpu_instance_id": 7},
            {"position": 4, "device_uuid": mig_uuid(gpu, "3g.20gb", 4), "gpu_instance_id": 2},
        ],
        "2": [],
    }


def test_without_mig_there_is_none() -> None:
    """Whole GPUs have no mapping."""
    assert mig_mapping(_NODE) is None


def test_a_slice_that_the_product_does_not_have_is_refused() -> None:
    """A slice that somebody made up has no place, and is not given one."""
    made_up = MigInstance(profile="9g.90gb", index=0, uuid="MIG-x")
    node = replace(_NODE, gpus=(replace(_NODE.gpus[0], mig_enabled=True, mig_instances=(made_up,)),))
    with pytest.raises(ProductError, match=r"no profile \"9g\.90gb\""):
        mig_mapping(node)
