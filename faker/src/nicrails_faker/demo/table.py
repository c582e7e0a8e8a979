"""A Node's record as a table for people: pure text."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from nicrails.record import Candidate, Gpu, GpuUuid, NodeRecord, PathClass, RailId

_HEAD = ("GPU", "UUID", "PCI address", "path", "rail → NICs")
_NUMBER = re.compile(r"(.*?)(\d+)", re.DOTALL)
_SHORT_UUID = 12


def table(record: NodeRecord, indices: Mapping[GpuUuid, int], width: int) -> list[str]:
    """Draw the table.

    Each GPU has a row for each path class, best first. The best row names every NIC; a worse row counts them where
    the names do not fit on one line.

    Args:
        record: The record.
        indices: The index of each GPU, which is not part of the record.
        width: Columns that a line may have.
    """
    if not record.gpus:
        return ["  no GPUs", *_wrap("  ", _rails(record), width)]
    gpus = sorted(record.gpus.items(), key=lambda item: indices.get(item[0], len(indices)))
    columns = [
        (str(indices.get(uuid, "?")), uuid[:_SHORT_UUID], str(gpu.pci_address), list(_by_class(gpu)))
        for uuid, gpu in gpus
    ]
    wide = [max(len(_HEAD[i]), *(len(str(row[i])) for row in columns)) for i in range(3)]
    lines = [f"  {_HEAD[0]:>{wide[0]}}  {_HEAD[1]:{wide[1]}}  {_HEAD[2]:{wide[2]}}  {_HEAD[3]}  {_HEAD[4]}"]
    for index, uuid, address, classes in columns:
        start = f"  {index:>{wide[0]}}  {uuid:{wide[1]}}  {address:{wide[2]}}  "
        for number, (path, rails) in enumerate(classes):
            at = f"{start if number == 0 else ' ' * len(start)}{path:4}  "
            parts = [f"{rail} → {' '.join(c.nic for c in candidates)}" for rail, candidates in rails]
            if number and len(at) + len("   ".join(parts)) > width:
                parts = list(_counted(rails))
            lines += _wrap(at, parts, width)
    return lines


def rail_order(rail: str) -> tuple[str, int, str]:
    """A key that sorts ``rail2`` before ``rail10``."""
    match = _NUMBER.fullmatch(rail)
    return (match[1], int(match[2]), rail) if match else (rail, -1, rail)


def _by_class(gpu: Gpu) -> Iterator[tuple[PathClass, list[tuple[RailId, tuple[Candidate, ...]]]]]:
    rails = sorted(gpu.rails.items(), key=lambda item: (item[1][0].path.rank, rail_order(item[0])))
    for path, group in itertools.groupby(rails, key=lambda item: item[1][0].path):
        yield path, list(group)


def _counted(rails: Sequence[tuple[RailId, tuple[Candidate, ...]]]) -> Iterator[str]:
    for count, group in itertools.groupby(rails, key=lambda item: len(item[1])):
        names = [rail for rail, _ in group]
        each = " each" if len(names) > 1 else ""
        yield f"{', '.join(_ranges(names))} → {count} NIC{'s' if count > 1 else ''}{each}"


def _ranges(names: Sequence[str]) -> Iterator[str]:
    """``rail1 rail2 rail3 rail5`` as ``rail1…rail3``, ``rail5``."""
    for _, run in itertools.groupby(enumerate(names), key=lambda item: (rail_order(item[1])[0], _offset(*item))):
        members = [name for _, name in run]
        yield f"{members[0]}…{members[-1]}" if len(members) > 2 else ", ".join(members)


def _offset(position: int, name: str) -> int:
    return rail_order(name)[1] - position


def _rails(record: NodeRecord) -> list[str]:
    rails = sorted(record.rails, key=rail_order)
    return [f"{rail} → {' '.join(nic for nic in sorted(record.nics) if rail in record.nics[nic])}" for rail in rails]


def _wrap(start: str, parts: Sequence[str], width: int) -> list[str]:
    """Parts beside each other as far as they fit, below each other where not."""
    lines = [start]
    for number, part in enumerate(parts):
        gap = "" if number == 0 or lines[-1].isspace() else "   "
        if number and len(lines[-1]) + len(gap) + len(part) > width:
            lines.append(" " * len(start) + part)
        else:
            lines[-1] += gap + part
    return lines
