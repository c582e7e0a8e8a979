"""Reader of the GPU inventory, the CSV output of ``nvidia-smi --query-gpu=…``.

The query of the broker is ``index,uuid,pci.bus_id`` with ``noheader``; other column sets are read as far as they are
unambiguous, so that inventories from other tools can be looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from nicrails.pci import PciAddress
from nicrails.record import GpuUuid
from nicrails_broker.parsers.errors import ParseError
from nicrails_broker.parsers.nvidia_smi import Line, ended, read_lines

SOURCE = "nvidia-smi --query-gpu"

_QUERY_COLUMNS = 3
_INDEX = re.compile(r"0|[1-9][0-9]{0,3}")
# NVML prints the domain with eight digits; fewer are a cell that lost its start.
_BUS_ID = re.compile(r"[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")
_LIST_GPUS = re.compile(r"\s*GPU [0-9]+: ")
_HEADER_NAMES = {"index": "index", "uuid": "uuid", "gpu_uuid": "uuid", "pci.bus_id": "bus", "gpu_bus_id": "bus"}

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryGpu:
    """One physical GPU.

    Attributes:
        index: Its number in nvidia-smi, which is its row and column in the topology matrix.
        uuid: None where the text has no column of UUIDs; the broker's own query always has one.
        pci_address: Its host PCI address.
    """

    index: int
    uuid: GpuUuid | None
    pci_address: PciAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    line: Line
    cells: list[str]

    def error(self, cell: int, problem: str) -> ParseError:
        start = sum(len(part) + 1 for part in self.line.text.split(",")[:cell])
        blanks = len(self.line.text[start:]) - len(self.line.text[start:].lstrip())
        return ParseError(SOURCE, problem, line=self.line.number, column=start + blanks + 1, excerpt=self.cells[cell])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """Which cell of a row is what."""

    index: int
    uuid: int | None
    bus: int


def parse_inventory(text: str) -> tuple[InventoryGpu, ...]:
    """Read an inventory; the GPUs come in the order of their indices, which are 0 to n - 1.

    A first line of column names decides which column is which. Without one, three columns that end in a bus ID are those
    of the broker's query; any other set needs the index first, exactly one column of bus IDs, and at most one of UUIDs.

    Raises:
        ParseError: The text is not such a table, or something in a needed column is missing, cut or there twice.
    """
    rows = [_Row(line=line, cells=[cell.strip() for cell in line.text.split(",")]) for line in read_lines(SOURCE, text)]
    first = rows[0]
    if _LIST_GPUS.match(first.line.text):
        raise ParseError(
            SOURCE,
            "this is the list of nvidia-smi -L, which has no PCI addresses",
            line=first.line.number,
            column=1,
            excerpt=first.line.text,
        )
    if _INDEX.fullmatch(first.cells[0]):
        columns = _guess_columns(rows)
    else:
        columns = _named_columns(first)
        rows = rows[1:]
    if not rows:
        raise ended(SOURCE, "the first GPU", first.line)
    _check_shape(first, rows, columns)
    return _read(rows, columns)


def _named_columns(header: _Row) -> _Columns:
    found: dict[str, int] = {}
    for position, cell in enumerate(header.cells):
        role = _HEADER_NAMES.get(cell.partition("[")[0].rstrip())
        if role is not None:
            if role in found:
                raise header.error(position, f"a second column of {cell}")
            found[role] = position
    if "index" not in found or "bus" not in found:
        raise ParseError(
            SOURCE,
            "neither rows that begin with a GPU index nor a header with index and pci.bus_id",
            line=header.line.number,
            column=1,
            excerpt=header.line.text,
        )
    return _Columns(index=found["index"], uuid=found.get("uuid"), bus=found["bus"])


def _guess_columns(rows: Sequence[_Row]) -> _Columns:
    first = rows[0]
    width = len(first.cells)
    table = [row.cells for row in rows if len(row.cells) == width]
    buses = [column for column in range(width) if all(_BUS_ID.fullmatch(cells[column]) for cells in table)]
    if width == _QUERY_COLUMNS and buses == [_QUERY_COLUMNS - 1]:
        return _Columns(index=0, uuid=1, bus=2)
    if len(buses) != 1:
        for row in rows:
            for position, cell in enumerate(row.cells):
                if not buses and cell.startswith("["):
                    raise row.error(position, "nvidia-smi could not tell the PCI bus IDs, but says")
        raise ParseError(
            SOURCE,
            f"{len(buses) or 'no'} columns have a PCI bus ID (00000000:1B:00.0) in every row, expected one",
            line=first.line.number,
            column=1,
            excerpt=first.line.text,
        )
    uuids = [column for column in range(width) if any(_is_uuid_like(cells[column]) for cells in table)]
    return _Columns(index=0, uuid=uuids[0] if uuids else None, bus=buses[0])


def _is_uuid_like(cell: str) -> bool:
    return cell.upper().startswith(("GPU-", "MIG-"))


def _check_shape(first: _Row, rows: Sequence[_Row], columns: _Columns) -> None:
    """Every row is as wide as the first line, and nothing that looks like a key stands in another column."""
    for row in rows:
        if len(row.cells) != len(first.cells):
            raise ParseError(
                SOURCE,
                f"a row of {len(row.cells)} columns, expected {len(first.cells)}",
                line=row.line.number,
                column=1,
                excerpt=row.line.text,
            )
        for position, cell in enumerate(row.cells):
            if position != columns.uuid and _is_uuid_like(cell):
                raise row.error(position, "a UUID outside the column of UUIDs")
            if position != columns.bus and _BUS_ID.fullmatch(cell):
                raise row.error(position, "a PCI bus ID outside the column of bus IDs")


def _read(rows: Sequence[_Row], columns: _Columns) -> tuple[InventoryGpu, ...]:
    gpus = []
    uuids: set[str] = set()
    addresses: set[str] = set()
    for index, row in enumerate(rows):
        if row.cells[columns.index] != str(index):
            raise row.error(columns.index, f"expected GPU index {index}")
        uuid = None if columns.uuid is None else _cell(row, columns.uuid, uuids, GpuUuid.parse, "a GPU UUID")
        address = _cell(row, columns.bus, addresses, _bus_id, "a PCI bus ID (00000000:1B:00.0)")
        gpus.append(InventoryGpu(index=index, uuid=uuid, pci_address=address))
    return tuple(gpus)


def _cell(row: _Row, column: int, seen: set[str], parse: Callable[[str], _T], expected: str) -> _T:
    cell = row.cells[column]
    try:
        value = parse(cell)
    except ValueError as error:
        raise row.error(column, f"expected {expected}") from error
    if cell.lower() in seen:
        raise row.error(column, f"{expected} that another GPU has, too")
    seen.add(cell.lower())
    return value


def _bus_id(cell: str) -> PciAddress:
    if _BUS_ID.fullmatch(cell) is None:
        raise ValueError("not eight digits of domain")
    return PciAddress.parse(cell)
