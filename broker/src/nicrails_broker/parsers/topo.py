"""Reader of the matrix that ``nvidia-smi topo -m`` prints, of drivers 390 to 610.

The layout, by driver (from captures of real machines): GPU columns, then NIC columns, then up to three affinity columns
that are ignored. Up to 470 the NIC columns carry device names (``mlx5_0``); from 525 they are ``NIC0``, ``NIC1`` … and a
``NIC Legend:`` below the matrix names the devices. ``topo -all -m`` of R610 adds Data Direct columns ``DD0`` … after them.

Every path stands twice in the matrix, in the row of either end. The reader uses one copy to check the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nicrails.record import PathClass
from nicrails_broker.parsers.errors import ParseError
from nicrails_broker.parsers.legend import is_device_name, read_legend
from nicrails_broker.parsers.nvidia_smi import Line, ended, read_lines

SOURCE = "nvidia-smi topo -m"

_SELF = "X"
_PATH_CLASSES = {path.value: path for path in PathClass}
# The ESC byte gets lost when the text is copied from a web page; a device name has no bracket.
_UNDERLINE = re.compile(r"\x1b\[[0-9;]*m|\[[04]m")
_AFFINITY_COLUMNS = ("GPU NUMA ID", "NUMA Affinity", "CPU Affinity")
_MAX_COLUMNS = 1024
_LINKS = re.compile(r"NV[1-9][0-9]?")
# Between two GPUs or two NICs newer and older drivers have words of their own (SOC, PSB); they decide nothing here.
_OTHER_CLASS = re.compile(r"(?!(?:GPU|NIC|DD)[0-9])[A-Z][A-Z0-9]{1,7}")
# A word that may stand in a cell must not stand behind the cells: then the row has one cell too many.
_CELL_LIKE = re.compile(r"PIX|PXB|PHB|NODE|SYS|SOC|NV[0-9]|GPU[0-9]|NIC[0-9]|DD[0-9]|X$|[A-Z][A-Z0-9]+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """How far every NIC is from every GPU, as the driver sees it.

    Attributes:
        gpu_count: The GPUs are 0 to ``gpu_count - 1``, in the order of the inventory.
        nics: Name of each NIC column → RDMA device name (``NIC0`` → ``mlx5_0``), in the order of the columns. A matrix
            whose columns are device names has these as keys too.
        paths: GPU index → RDMA device name → path class; complete. A device that has a Data Direct function has that
            function's class.
    """

    gpu_count: int
    nics: Mapping[str, str]
    paths: Mapping[int, Mapping[str, PathClass]]

    def closest(self, gpu: int) -> tuple[PathClass, tuple[str, ...]] | None:
        """The best path class of a GPU and all NIC columns at it, in column order; None without NIC columns.

        Raises:
            KeyError: There is no GPU of that index.
        """
        paths = self.paths[gpu]
        if not paths:
            return None
        best = min(paths.values(), key=lambda path: path.rank)
        return best, tuple(column for column, device in self.nics.items() if paths[device] is best)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """The header: ``gpus`` GPU columns, then ``nics`` NIC columns, then ``data_direct`` Data Direct columns."""

    labels: list[str]
    gpus: int
    nics: int
    data_direct: int
    named: bool
    """Whether the NIC columns carry device names."""


def parse_topology(text: str) -> Topology:
    """Read the output of ``nvidia-smi topo -m``.

    Raises:
        ParseError: The text is not a whole, undamaged matrix with its legend.
    """
    lines = read_lines(SOURCE, text, escapes_in_header=True)
    columns = _read_header(lines[0])
    end = 1 + len(columns.labels)
    matrix = _read_rows(columns, lines[0], lines[1:end])
    _check_symmetry(columns, matrix, lines[1:end])
    devices = _devices(columns, lines[end - 1], lines[end:])
    nics = devices[: columns.nics]
    first_direct = columns.gpus + columns.nics
    paths: dict[int, Mapping[str, PathClass]] = {}
    for gpu in range(columns.gpus):
        cells = matrix[gpu]
        try:
            classes = dict(zip(nics, [_PATH_CLASSES[cell] for cell in cells[columns.gpus : first_direct]], strict=True))
            for device, cell in zip(devices[columns.nics :], cells[first_direct:], strict=True):
                classes[device] = _PATH_CLASSES[cell]
        except KeyError as error:
            raise _unknown_class(columns, cells, lines[1 + gpu]) from error
        paths[gpu] = classes
    return Topology(
        gpu_count=columns.gpus,
        nics=dict(zip(columns.labels[columns.gpus : first_direct], nics, strict=True)),
        paths=paths,
    )


def _read_header(line: Line) -> _Columns:
    text = _UNDERLINE.sub(lambda match: " " * len(match.group()), line.text)
    head = text.rstrip()
    for name in _AFFINITY_COLUMNS:
        head = head.removesuffix(name).rstrip()
    start = len(head)
    labels = head.split()
    if not labels or labels[0] != "GPU0":
        raise ParseError(
            SOURCE,
            "the matrix must begin with a header whose first column is GPU0",
            line=line.number,
            column=1,
            excerpt=line.text,
        )
    if len(labels) > _MAX_COLUMNS:
        raise ParseError(SOURCE, f"more than {_MAX_COLUMNS} columns", line=line.number, column=1, excerpt=line.text)
    if start < len(text) and text[start] not in " \t":
        raise ParseError(
            SOURCE, "header words are glued together", line=line.number, column=start + 1, excerpt=text[start:]
        )
    gpus = _run(labels, 0, "GPU")
    nics = _run(labels, gpus, "NIC")
    data_direct = _run(labels, gpus + nics, "DD") if nics else 0
    known = gpus + nics + data_direct
    if known == len(labels):
        return _Columns(labels=labels, gpus=gpus, nics=nics, data_direct=data_direct, named=False)
    for index in range(known, len(labels)):
        if nics or not is_device_name(labels[index]) or labels[index] in labels[:index]:
            raise ParseError(
                SOURCE,
                "expected GPUn, NICn and DDn columns without a gap, or device names, each once",
                line=line.number,
                column=Line(line.number, text).column(index),
                excerpt=labels[index],
            )
    return _Columns(labels=labels, gpus=gpus, nics=len(labels) - gpus, data_direct=0, named=True)


def _run(labels: Sequence[str], start: int, prefix: str) -> int:
    """How many labels from ``start`` on are ``prefix0``, ``prefix1`` and so on."""
    count = 0
    while start + count < len(labels) and labels[start + count] == f"{prefix}{count}":
        count += 1
    return count


def _read_rows(columns: _Columns, header: Line, lines: Sequence[Line]) -> list[list[str]]:
    """The cells of every row, in the order of the columns."""
    count = len(columns.labels)
    matrix = []
    for index, (label, line) in enumerate(zip(columns.labels, lines, strict=False)):
        words = line.text.split()
        if words[0] != label:
            raise ParseError(SOURCE, f"expected the row of {label}", line=line.number, column=1, excerpt=line.text)
        cells = words[1 : count + 1]
        if len(cells) < count or cells[index] != _SELF or cells.count(_SELF) != 1:
            raise ParseError(
                SOURCE,
                f"the row of {label} must have {count} cells, of which only number {index + 1} is X",
                line=line.number,
                column=1,
                excerpt=line.text,
            )
        for position, word in enumerate(words[count + 1 :], count + 1):
            if index >= columns.gpus or _CELL_LIKE.match(word):
                raise ParseError(
                    SOURCE,
                    f"the row of {label} has more cells than the header has columns",
                    line=line.number,
                    column=line.column(position),
                    excerpt=word,
                )
        matrix.append(cells)
    if len(matrix) < count:
        raise ended(SOURCE, f"the row of {columns.labels[len(matrix)]}", lines[-1] if lines else header)
    return matrix


def _check_symmetry(columns: _Columns, matrix: list[list[str]], lines: Sequence[Line]) -> None:
    """Both copies of each path agree, and the cells between two GPUs or two NICs hold a class, too.

    Two GPUs may count their NVLinks differently: a link that is down at one end is only missing there.
    """
    mirrored = [list(column) for column in zip(*matrix, strict=True)]
    if mirrored != matrix:
        for row, (cells, mirror) in enumerate(zip(matrix, mirrored, strict=True)):
            for column in range(row):
                here, there = cells[column], mirror[column]
                if here != there and not (row < columns.gpus and _LINKS.fullmatch(here) and _LINKS.fullmatch(there)):
                    raise ParseError(
                        SOURCE,
                        f"{columns.labels[row]} to {columns.labels[column]} is {here[:20]}, but back it is {there[:20]}",
                        line=lines[row].number,
                        column=lines[row].column(column + 1),
                        excerpt=here,
                    )
    for cell in set().union(*matrix) - _PATH_CLASSES.keys() - {_SELF}:
        if not _OTHER_CLASS.fullmatch(cell):
            row = next(row for row, cells in enumerate(matrix) if cell in cells)
            raise ParseError(
                SOURCE,
                f"the row of {columns.labels[row]} has a cell that is no path class",
                line=lines[row].number,
                column=lines[row].column(matrix[row].index(cell) + 1),
                excerpt=cell,
            )


def _devices(columns: _Columns, last_row: Line, rest: Sequence[Line]) -> list[str]:
    """The device of each NIC column, then of each Data Direct column."""
    nics, direct = read_legend(
        SOURCE, last_row, rest, nics=0 if columns.named else columns.nics, data_direct=columns.data_direct
    )
    if columns.named:
        return columns.labels[columns.gpus :]
    return [*nics, *direct]


def _unknown_class(columns: _Columns, cells: Sequence[str], line: Line) -> ParseError:
    """The refusal of a path class between a GPU and a NIC that the record does not know."""
    index = next(index for index in range(columns.gpus, len(cells)) if cells[index] not in _PATH_CLASSES)
    remedy = None
    if cells[index] == "SOC":
        remedy = "SOC is the class of drivers before 390, which are not supported"
    return ParseError(
        SOURCE,
        f"unknown path class between {line.text.split(None, 1)[0]} and {columns.labels[index]}",
        line=line.number,
        column=line.column(index + 1),
        excerpt=cells[index],
        remedy=remedy,
    )
