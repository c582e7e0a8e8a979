"""What the slices of a product have: memory, multiprocessors and engines, as NVML gives them.

Sources: NVIDIA's go-nvml and labels of real Nodes for A100, output of ``nvidia-smi mig -lgip`` for H100; the Multi-Instance
GPU User Guide says that the hardware units of an H200 are those of an H100. What is not known of a product is not made up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nicrails_faker.mig.errors import ProductError
from nicrails_faker.mig.products import Product, find_product
from nicrails_faker.mig.profiles import SEVEN_SLICES, Shape
from nicrails_faker.mig.topology import NodeTopology


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """One number for each shape of a seven-slice GPU, in their order; None is unknown."""

    memory: tuple[int, ...] | None = None
    multiprocessors: tuple[int, ...] | None = None
    copy: tuple[int, ...] | None = None
    decoder: tuple[int, ...] | None = None
    encoder: tuple[int, ...] | None = None
    jpeg: tuple[int, ...] | None = None
    ofa: tuple[int, ...] | None = None


_NO_ENGINES = (0, 0, 0, 0, 0, 0, 0)
_MEDIA_ONLY = (0, 1, 0, 0, 0, 0, 1)
_A100_UNITS = (14, 14, 14, 28, 42, 56, 98)
_A100_COPY = (1, 1, 1, 2, 3, 4, 7)
_H100_UNITS = (16, 16, 26, 32, 60, 64, 132)
_H100_COPY = (1, 1, 1, 2, 3, 4, 8)
_H100_DECODER = (1, 1, 1, 2, 3, 4, 7)

_TABLES: Mapping[str, _Table] = {
    "A100-40": _Table(
        memory=(4864, 4864, 9856, 9856, 19968, 19968, 40192),
        multiprocessors=_A100_UNITS,
        copy=_A100_COPY,
        decoder=(0, 1, 1, 1, 2, 2, 5),
        encoder=_NO_ENGINES,
        jpeg=_MEDIA_ONLY,
        ofa=_MEDIA_ONLY,
    ),
    "A100-80": _Table(
        memory=(9856, 9856, 19968, 19968, 40192, 40192, 80384),
        multiprocessors=_A100_UNITS,
        copy=_A100_COPY,
        decoder=(1, 1, 1, 1, 2, 2, 5),
        encoder=_NO_ENGINES,
        jpeg=_MEDIA_ONLY,
        ofa=_MEDIA_ONLY,
    ),
    "H100-80": _Table(
        memory=(9984, 9984, 20096, 20096, 40448, 40448, 81152),
        multiprocessors=_H100_UNITS,
        copy=_H100_COPY,
        decoder=_H100_DECODER,
        encoder=_NO_ENGINES,
        jpeg=_H100_DECODER,
        ofa=_MEDIA_ONLY,
    ),
    "H200-141": _Table(
        multiprocessors=_H100_UNITS,
        copy=_H100_COPY,
        decoder=_H100_DECODER,
        encoder=_NO_ENGINES,
        jpeg=_H100_DECODER,
        ofa=_MEDIA_ONLY,
    ),
    "B200-180": _Table(copy=(2, 2, 2, 3, 6, 8, 16)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceAttributes:
    """What a slice has; None is unknown.

    Attributes:
        memory: MiB; where the product's own numbers are not known, the share of the GPU's memory.
        multiprocessors: Streaming multiprocessors.
        compute: Compute slices, of the GPU instance and of its one compute instance.
        engines: Engines by name: ``copy``, ``decoder``, ``encoder``, ``jpeg``, ``ofa``.
    """

    memory: int | None
    multiprocessors: int | None
    compute: int
    engines: Mapping[str, int]


def slice_attributes(topology: NodeTopology, profile: str) -> SliceAttributes | None:
    """What a slice of this profile has on this Node; None if its product has no such profile."""
    try:
        product = find_product(topology.gpu_product, topology.gpu_memory)
        shape = product.profile(profile).shape
    except ProductError:
        return None
    table = _TABLES.get(product.name, _Table())
    index = _index(product, shape)

    def known(column: tuple[int, ...] | None) -> int | None:
        return None if column is None or index is None else column[index]

    memory = known(table.memory)
    if memory is None and topology.gpu_memory:
        memory = topology.gpu_memory * shape.memory // product.layout.memory
    engines = {name: known(getattr(table, name)) for name in ("copy", "decoder", "encoder", "jpeg", "ofa")}
    return SliceAttributes(
        memory=memory,
        multiprocessors=known(table.multiprocessors),
        compute=shape.compute,
        engines={name: number for name, number in engines.items() if number is not None},
    )


def _index(product: Product, shape: Shape) -> int | None:
    return product.layout.shapes.index(shape) if product.layout is SEVEN_SLICES else None
