"""The Node annotation ``run.ai/mig-mapping``: which slice lies where, for schedulers."""

from __future__ import annotations

import base64
import json

from nicrails_faker.mig.geometry import gpu_instance_id
from nicrails_faker.mig.products import find_product
from nicrails_faker.mig.topology import NodeTopology

ANNOTATION = "run.ai/mig-mapping"


def mig_mapping(topology: NodeTopology) -> str | None:
    """The annotation's value; None if no GPU is in MIG mode.

    It is base64 of ``{"<GPU index>": [{"position": 0, "device_uuid": "MIG-…", "gpu_instance_id": 7}]}`` with the GPUs in
    MIG mode, and equal topologies give equal text.

    Raises:
        ProductError: A GPU has a slice that its product does not have.
    """
    enabled = {index: gpu for index, gpu in enumerate(topology.gpus) if gpu.mig_enabled}
    if not enabled:
        return None
    mapping: dict[str, list[dict[str, int | str]]] = {}
    for index, gpu in enabled.items():
        mapping[str(index)] = []
        for one in sorted(gpu.mig_instances, key=lambda one: one.index):
            product = find_product(topology.gpu_product, topology.gpu_memory)
            size = product.profile(one.profile).shape.memory
            instance = gpu_instance_id(product.layout.memory, size, one.index)
            mapping[str(index)].append({"position": one.index, "device_uuid": one.uuid, "gpu_instance_id": instance})
    return base64.b64encode(json.dumps(mapping, separators=(",", ":")).encode()).decode()
