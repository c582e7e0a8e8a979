"""GPU products: which one a name means, and what it can be cut into.

A profile's name says nothing without the product: ``1g.10gb`` is a seventh of an A100 with 80 GB, and a slice with double
memory on one with 40 GB.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from nicrails.text import excerpt
from nicrails_faker.mig.errors import ProductError
from nicrails_faker.mig.profiles import FOUR_SLICES, SEVEN_SLICES, Layout, Profile, profiles_of

MIB_PER_GIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A GPU product that can be cut.

    Attributes:
        name: Model and GB, such as ``A100-40``; models that are cut in the same way share it (A800 and A100).
        memory_gb: As in the names of its profiles.
        layout: Its slots, slices and shapes.
        profiles: The smallest first.
        pci_ids: The PCI device IDs of its boards (device in the upper half, vendor in the lower, as in mig-parted's
            ``device-filter``).
    """

    name: str
    memory_gb: int
    layout: Layout
    profiles: tuple[Profile, ...]
    pci_ids: frozenset[int]

    def profile(self, name: str) -> Profile:
        """The profile of a name.

        Raises:
            ProductError: The product has no such profile.
        """
        for profile in self.profiles:
            if profile.name == name:
                return profile
        known = ", ".join(profile.name for profile in self.profiles)
        raise ProductError(f'no profile "{excerpt(name, 60)}" on {self.name}; it has {known}')


def _product(model: str, memory_gb: int, *devices: int, layout: Layout = SEVEN_SLICES) -> Product:
    return Product(
        name=f"{model}-{memory_gb}",
        memory_gb=memory_gb,
        layout=layout,
        profiles=profiles_of(layout, memory_gb),
        pci_ids=frozenset(device << 16 | 0x10DE for device in devices),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """Boards that share the model in their names.

    Attributes:
        boards: By GB of GPU memory.
        numbers: Other numbers in product names, and the board that they mean (GH200 counts the CPU's memory).
        words: Words in product names that tell the boards apart.
    """

    boards: Mapping[int, Product]
    numbers: Mapping[int, int] = field(default_factory=dict)
    words: Mapping[str, int] = field(default_factory=dict)


def _boards(*products: Product) -> dict[int, Product]:
    return {product.memory_gb: product for product in products}


# The PCI device IDs are those of the default configuration of NVIDIA's mig-parted.
_A100 = _Model(
    boards=_boards(
        _product("A100", 40, 0x20B0, 0x20B1, 0x20F1, 0x20F6),
        _product("A100", 80, 0x20B2, 0x20B5, 0x20F3, 0x20F5),
    )
)
_H100 = _Model(
    boards=_boards(
        _product("H100", 80, 0x2330, 0x2331, 0x2322, 0x2324),
        _product("H100", 94, 0x2321, 0x233A),
        _product("H100", 96, 0x233D),
    ),
    words={"NVL": 94, "PCIE": 80},
)
_MODELS: dict[str, _Model] = {
    "A100": _A100,
    "A800": _A100,
    "A30": _Model(boards=_boards(_product("A30", 24, 0x20B7, layout=FOUR_SLICES))),
    "H100": _H100,
    "H800": _H100,
    "H20": _Model(boards=_boards(_product("H20", 96, 0x2329))),
    "GH200": _Model(
        boards=_boards(_product("GH200", 96, 0x2342), _product("GH200", 144, 0x2348)),
        numbers={120: 96, 480: 96},
    ),
    "H200": _Model(boards=_boards(_product("H200", 141, 0x2335, 0x233B))),
    "B200": _Model(boards=_boards(_product("B200", 180, 0x2901))),
    "GB200": _Model(boards=_boards(_product("GB200", 186, 0x2941))),
    "B300": _Model(boards=_boards(_product("B300", 269, 0x3182))),
    "GB300": _Model(boards=_boards(_product("GB300", 278, 0x31C2))),
}
_WITHOUT_MIG = frozenset({"T4", "L40S", "V100", "V100S", "K80"})

_MAKERS = frozenset({"NVIDIA", "TESLA"})
# Words of product names that change nothing about MIG. A word that is not here makes another product: GB300-WS, A100X.
_FORM = re.compile(r"SXM[2-6]?|PCIE|PCI|NVL(?:4|16|72)?|HBM[23]E?|HGX|AC|ACTIVE")
_SIZE = re.compile(r"([0-9]{1,4})(?:GB?)?", re.ASCII)
# GPU Feature Discovery appends these to the product where GPUs are shared or cut.
_SUFFIX = re.compile(r"(?:-SHARED|-MIG-[0-9A-Z.+]+)+", re.ASCII)

PRODUCTS: tuple[Product, ...] = tuple(
    dict.fromkeys(product for model in _MODELS.values() for product in model.boards.values())
)
"""All that can be cut."""


def find_product(name: str, memory_mib: int | None = None) -> Product:
    """The product of a name as NVML, GPU Feature Discovery or people write it.

    Args:
        name: Such as ``NVIDIA A100-SXM4-80GB``, ``NVIDIA-H100-80GB-HBM3`` or ``A100-40``; case does not matter.
        memory_mib: Memory of the GPU; it decides only where the name does not.

    Raises:
        ProductError: The product has no MIG, is not known, or is several.
    """
    shown = excerpt(name, 80)
    words = [word for word in re.split(r"[\s_-]+", _SUFFIX.sub("", name.upper(), count=1)) if word]
    model_name, *others = [word for word in words if word not in _MAKERS] or [""]
    if model_name in _WITHOUT_MIG:
        raise ProductError(f'"{shown}" is not MIG-capable')
    model = _MODELS.get(model_name)
    if model is None:
        raise ProductError(f'unknown GPU product "{shown}"; known are {", ".join(_MODELS)}')
    board: int | None = None
    for word in others:
        size = _SIZE.fullmatch(word)
        if size is not None:
            board = model.numbers.get(int(size[1]), int(size[1]))
        elif _FORM.fullmatch(word) is None:
            raise ProductError(f'unknown GPU product "{shown}": nothing is known of "{excerpt(word, 40)}"')
    if board is None:
        board = next((model.words[word] for word in others if word in model.words), None)
    if board is None:
        board = _by_memory(model, memory_mib)
    if board is None:
        sizes = " or ".join(str(gb) for gb in model.boards)
        raise ProductError(
            f'"{shown}" has {sizes} GB: name the size in the product, or set the GPU memory in MiB that decides it'
        )
    if board not in model.boards:
        sizes = " or ".join(str(gb) for gb in model.boards)
        raise ProductError(f'unknown GPU product "{shown}": {model_name} is known with {sizes} GB')
    return model.boards[board]


def _by_memory(model: _Model, memory_mib: int | None) -> int | None:
    """The board whose memory is nearest, at most 5 % away: drivers keep some of it, and people round."""
    if len(model.boards) == 1:
        return next(iter(model.boards))
    if not memory_mib:
        return None
    nearest = min(model.boards, key=lambda gb: abs(gb * MIB_PER_GIB - memory_mib))
    return nearest if abs(nearest * MIB_PER_GIB - memory_mib) * 20 <= nearest * MIB_PER_GIB else None
