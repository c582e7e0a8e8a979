"""Topologies to show."""

from __future__ import annotations

from dataclasses import replace

from nicrails_faker.mig import NodeTopology, parse_request, plan
from nicrails_faker.mig.document import YamlMapping, string

MIG = """\
version: v1
mig-configs:
  selected:
  - devices: ["0"]
    mig-enabled: true
    mig-devices:
    - {name: 3g.20gb, position: 4, size: 4}
    - {name: 2g.10gb, position: 0, size: 2}
    - {name: 1g.5gb+me, position: 2, size: 1}
    - {name: 1g.5gb, position: 3, size: 1}
"""


def whole(
    gpus: int = 2,
    *,
    product: str = "NVIDIA-A100-SXM4-40GB",
    memory: int = 40960,
    machine: str = "",
    strategy: str = "mixed",
) -> NodeTopology:
    """A Node with whole GPUs."""
    topology = NodeTopology.create(
        "node1",
        gpu_product=product,
        gpu_count=gpus,
        gpu_memory=memory,
        mig_strategy=strategy,
        driver_version="550.54.15",
        cuda_version="12.4",
    )
    return replace(topology, extra=YamlMapping(((string("machine"), string(machine)),))) if machine else topology


def cut(topology: NodeTopology | None = None, request: str = MIG) -> NodeTopology:
    """The same Node after a MIG request, by default with the first GPU in four slices."""
    return plan(topology or whole(), parse_request(request))
