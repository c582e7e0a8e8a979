"""The record of one Node: what a broker publishes and a consumer reads.

Every value is immutable. The types carry the rules that hold for a single value; :mod:`nicrails.codec` carries those
between values and the JSON form.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from nicrails.pci import PciAddress

SCHEMA_VERSION = "v1alpha1"
"""The one ``schemaVersion`` that this package writes and reads."""

MAX_RAIL_ID_LENGTH = 253


class PathClass(enum.StrEnum):
    """How far a NIC is from a GPU, best first; the names are those of ``nvidia-smi topo``.

    Classes compare by distance: ``PIX`` is less than ``SYS``, and ``min`` of some classes is the best of them.

    Source: the legend that ``nvidia-smi topo -m`` prints.
    """

    PIX = "PIX"
    """At most one PCIe bridge between them."""
    PXB = "PXB"
    """Several PCIe bridges, no host bridge."""
    PHB = "PHB"
    """A PCIe host bridge, typically the CPU."""
    NODE = "NODE"
    """Several host bridges within one NUMA node."""
    SYS = "SYS"
    """The interconnect between NUMA nodes."""

    @property
    def rank(self) -> int:
        """0 for the best class, 4 for the worst."""
        return _RANK[self]

    # As text the classes would sort NODE, PHB, PIX, PXB, SYS, and min() would give a wrong NIC without a word.

    def __lt__(self, other: str) -> bool:
        return self.rank < _rank_of(other)

    def __le__(self, other: str) -> bool:
        return self.rank <= _rank_of(other)

    def __gt__(self, other: str) -> bool:
        return self.rank > _rank_of(other)

    def __ge__(self, other: str) -> bool:
        return self.rank >= _rank_of(other)


_RANK = {path: rank for rank, path in enumerate(PathClass)}


def _rank_of(other: str) -> int:
    if not isinstance(other, PathClass):
        raise TypeError(f"a path class compares with path classes, not with {other!r}")
    return other.rank


class _Identity(str):
    """A string of a fixed form; ``parse`` is the only way in from outside."""

    __slots__ = ()
    form: re.Pattern[str]
    expected: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Check the form.

        Raises:
            ValueError: The text has another form.
        """
        if cls.form.fullmatch(text) is None:
            raise ValueError(f"not {cls.expected}: {text[:60]!r}")
        return cls(text)


class GpuUuid(_Identity):
    """A physical GPU's UUID as NVML prints it: ``GPU-8d1f…``."""

    __slots__ = ()
    form = re.compile(r"GPU-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
    expected = "a GPU UUID (GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx)"


class NodeUid(_Identity):
    """``metadata.uid`` of the Node; a re-created Node of the same name has another one."""

    __slots__ = ()
    form = re.compile(r"[!-~]{1,128}", re.ASCII)
    expected = "a Node UID (1 to 128 visible ASCII characters)"


class RailId(_Identity):
    """The name of a network rail, such as ``rail0``: 1 to 253 printable characters, no blanks at its ends."""

    __slots__ = ()
    expected = f"a rail ID (1 to {MAX_RAIL_ID_LENGTH} printable characters without blanks at the ends)"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Check the form.

        Raises:
            ValueError: The text has another form.
        """
        if not 0 < len(text) <= MAX_RAIL_ID_LENGTH or not text.isprintable() or text != text.strip():
            raise ValueError(f"not {cls.expected}: {text[:60]!r}")
        return cls(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One of the NICs that are closest to a GPU on a rail."""

    nic: PciAddress
    path: PathClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A physical GPU and, for each rail of its Node, all NICs tied at the best path class, sorted by PCI address."""

    pci_address: PciAddress
    rails: Mapping[RailId, tuple[Candidate, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """All that is published about one Node.

    Attributes:
        node_uid: The Node that was looked at; a record of another UID is stale.
        rail_source: The name of the source that found the rails, such as ``host-lldp``.
        nics: For every host NIC on a rail, its rail IDs: sorted, without duplicates, never empty.
        gpus: Physical GPUs by UUID; empty on a Node without GPUs.
    """

    node_uid: NodeUid
    rail_source: str
    nics: Mapping[PciAddress, tuple[RailId, ...]]
    gpus: Mapping[GpuUuid, Gpu]

    @property
    def rails(self) -> tuple[RailId, ...]:
        """All rails of the Node, sorted."""
        return tuple(sorted({rail for rails in self.nics.values() for rail in rails}))

    def candidates(self, gpu: GpuUuid | str, rail: RailId | str) -> tuple[Candidate, ...]:
        """The NICs closest to a GPU on a rail, all of them tied, sorted by PCI address.

        Raises:
            KeyError: The Node has no such GPU or no such rail; the message says which.
        """
        try:
            entry = self.gpus[GpuUuid(gpu)]
        except KeyError:
            raise KeyError(f"no GPU {gpu!s} in the record of this Node") from None
        try:
            return entry.rails[RailId(rail)]
        except KeyError:
            raise KeyError(
                f"no rail {rail!s} for GPU {gpu!s}; it has {', '.join(sorted(entry.rails)) or 'none'}"
            ) from None
