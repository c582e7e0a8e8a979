"""What ``mig-plan`` shows of a topology: as a table for people, as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nicrails.text import excerpt, printable
from nicrails_faker.mig.advertised import Condition, Strategy, advertised_resources, conditions, refusals
from nicrails_faker.mig.geometry import gpu_instance_id
from nicrails_faker.mig.products import find_product
from nicrails_faker.mig.topology import Gpu, NodeTopology


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A slice with all that is told of it."""

    profile: str
    start: int
    size: int
    uuid: str
    gpu_instance_id: int


def as_json(topology: NodeTopology) -> str:
    """One JSON document.

    Raises:
        ProductError: A GPU has a slice that its product does not have.
    """
    strategies = _strategies(topology)
    document = {
        "product": topology.gpu_product,
        "gpus": [
            {
                "index": index,
                "id": gpu.id,
                "migEnabled": gpu.mig_enabled,
                "slices": [
                    {
                        "profile": row.profile,
                        "start": row.start,
                        "size": row.size,
                        "uuid": row.uuid,
                        "gpuInstanceId": row.gpu_instance_id,
                    }
                    for row in _rows(topology, gpu)
                ],
            }
            for index, gpu in enumerate(topology.gpus)
        ],
        "advertised": {name: advertised_resources(one) for name, one in strategies.items()},
        "conditions": {name: _told(conditions(one)) for name, one in strategies.items()},
        "refusedByNvidia": {name: _told(refusals(one)) for name, one in strategies.items()},
    }
    return json.dumps(document, indent=2) + "\n"


def as_table(topology: NodeTopology) -> str:
    """Tables of the GPUs and of what is advertised, and notes.

    Raises:
        ProductError: A GPU has a slice that its product does not have.
    """
    slices = [("GPU", "PROFILE", "START", "SIZE", "INSTANCE", "UUID")]
    for index, gpu in enumerate(topology.gpus):
        rows = _rows(topology, gpu)
        slices += [
            (str(index), row.profile, str(row.start), str(row.size), str(row.gpu_instance_id), row.uuid) for row in rows
        ]
        if not rows:
            slices.append((str(index), "no slices" if gpu.mig_enabled else "whole", "-", "-", "-", gpu.id))
    return "\n".join([*_aligned(slices), "", *_aligned(_counts(topology)), *_notes(topology)]) + "\n"


def _strategies(topology: NodeTopology) -> Mapping[str, NodeTopology]:
    """The topology under each strategy."""
    return {strategy.value: replace(topology, mig_strategy=strategy.value) for strategy in Strategy}


def _rows(topology: NodeTopology, gpu: Gpu) -> list[_Row]:
    if not gpu.mig_enabled or not gpu.mig_instances:
        return []
    product = find_product(topology.gpu_product, topology.gpu_memory)
    rows = []
    for one in gpu.mig_instances:
        size = product.profile(one.profile).shape.memory
        instance = gpu_instance_id(product.layout.memory, size, one.index)
        rows.append(_Row(profile=one.profile, start=one.index, size=size, uuid=one.uuid, gpu_instance_id=instance))
    return rows


def _counts(topology: NodeTopology) -> list[tuple[str, ...]]:
    advertised = [advertised_resources(one) for one in _strategies(topology).values()]
    resources = dict.fromkeys(resource for one in advertised for resource in one)
    header = ("ADVERTISED", *(strategy.value for strategy in Strategy))
    rows = [
        (excerpt(resource, 80), *(str(len(one[resource])) if resource in one else "-" for one in advertised))
        for resource in resources
    ]
    return [header, *rows]


def _notes(topology: NodeTopology) -> Iterable[str]:
    notes = []
    for name, one in _strategies(topology).items():
        refused = set(refusals(one))
        for condition in conditions(one):
            also = "; NVIDIA's plugin refuses it, and so does the strict mode" if condition in refused else ""
            notes.append(f"{name}: {condition.message}{also}")
    return ["", *notes] if notes else []


def _told(found: Iterable[Condition]) -> list[dict[str, str]]:
    return [{"reason": one.reason.value, "message": one.message} for one in found]


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]
