"""Seeded damage to captured output, as cut transfers, lost tabs, wrapped terminals and careless copies make it.

A damage is a function of a random source and a text. What no reader could notice is left out here, and only that; the
list of it stands in ``docs/parsing.md``:

* a protected span (a device name in the NIC legend, a key in the inventory, an interface name) turned into another valid
  one, for the text around it is as before;
* two protected spans exchanged;
* both copies of a path changed alike, which takes two damages at once that fit together by chance.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

Damage = Callable[[Random, str], str]
Spans = Callable[[str], list[tuple[int, int]]]
"""Finds what is protected in a text: offsets of the first character and behind the last."""

_WORDS = (
    *(
        "PIX",
        "PXB",
        "PHB",
        "NODE",
        "SYS",
        "SOC",
        "X",
        " X ",
        "NV12",
        "NV1",
        "N/A",
        "ZZZ",
        "GPU0",
        "GPU1",
        "NIC0",
        "NIC1",
    ),
    *("NIC9", "NIC10", "DD0", "mlx5_0", "mlx5_99", "0", "1", "0-47,96-143", "CPU Affinity", "Legend:", "NIC Legend:"),
    *(
        "\x1b[4m",
        "\x1b[0m",
        "\x1b",
        "\t",
        "\t\t",
        " ",
        "    ",
        "\n",
        "\n\n",
        "\r",
        "\x00",
        "é",
        ",",
        '"',
        "{",
        "}",
        "]",
        "[N/A]",
    ),
    *("WARNING: infoROM is corrupted at gpu 0000:01:00.0", "[Unknown Error]", "Killed", "00000000:1B:00.0"),
)
_CELLS = (
    "PIX",
    "PXB",
    "PHB",
    "NODE",
    "SYS",
    "SOC",
    "X",
    "NV4",
    "NV18",
    "PI",
    "SY",
    "OTHER",
    "N/A",
    "0",
    "GPU0",
    "NIC1",
)


def device_names(text: str) -> list[tuple[int, int]]:
    """The device names in the NIC legend of a matrix."""
    return [match.span(1) for match in re.finditer(r"^ *NIC\d+: *(\S+)", text, re.MULTILINE)]


def inventory_keys(text: str) -> list[tuple[int, int]]:
    """The UUIDs and bus IDs of an inventory."""
    return [match.span() for match in re.finditer(r"GPU-[0-9a-f-]+|[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.\d", text)]


def interface_names(text: str) -> list[tuple[int, int]]:
    """The names of interfaces in a document of lldpctl."""
    return [match.span(1) for match in re.finditer(r'"((?:eth|eno|mgmt|Ethernet)[a-z0-9_]*)"', text)]


def damage(rng: Random, text: str, kinds: Sequence[Damage]) -> str:
    """One damage, or now and then two or three at once."""
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        if text:
            text = rng.choice(kinds)(rng, text)
    return text


# --- anywhere in the text ------------------------------------------------------------------------------------------


def truncate(rng: Random, text: str) -> str:
    """Cut the text at any character."""
    return text[: rng.randrange(len(text))]


def characters(spans: Spans) -> list[Damage]:
    """Damage to single characters and pieces, outside what is protected."""

    def is_free(text: str, start: int, end: int) -> bool:
        return all(end <= first or start >= last for first, last in spans(text))

    def is_inside(text: str, offset: int) -> bool:
        return any(first <= offset <= last for first, last in spans(text))

    def insert(rng: Random, text: str) -> str:
        word = rng.choice(_WORDS)
        if rng.random() < 0.5:
            word = f" {word} "
        offset = rng.randrange(len(text) + 1)
        glued = not (word[0].isspace() and word[-1].isspace()) or word.isspace()
        return text if glued and is_inside(text, offset) else text[:offset] + word + text[offset:]

    def remove(rng: Random, text: str) -> str:
        start = rng.randrange(len(text))
        end = min(len(text), start + rng.choice((1, 1, 2, 3, 5, 8, 40, 200, 1000)))
        if "\n" not in text[start:end] and not is_free(text, start, end):
            return text
        # A piece that ends in a protected span, or reaches from one to the end of its line, may leave a valid one.
        return text if is_inside(text, end) or is_inside(text, start) else text[:start] + text[end:]

    def change(rng: Random, text: str) -> str:
        offset = rng.randrange(len(text))
        if is_inside(text, offset):
            return text
        return text[:offset] + rng.choice('ABIMNOPSXY0123456789:-_. \t\n,"{}[]\x1b') + text[offset + 1 :]

    def repeat(rng: Random, text: str) -> str:
        start = rng.randrange(len(text))
        piece = text[start : start + rng.choice((1, 2, 4, 8, 60, 400))]
        offset = rng.randrange(len(text) + 1)
        return text if is_inside(text, offset) else text[:offset] + piece + text[offset:]

    return [insert, insert, remove, change, repeat]


# --- whole lines ---------------------------------------------------------------------------------------------------


def drop_lines(rng: Random, text: str) -> str:
    """Lose one line or a few together."""
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    del lines[at : at + rng.choice((1, 1, 1, 2, 5))]
    return "\n".join(lines)


def double_line(rng: Random, text: str) -> str:
    """Have a line twice, together or apart."""
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    lines.insert(rng.choice((at, rng.randrange(len(lines) + 1))), lines[at])
    return "\n".join(lines)


def swap_lines(rng: Random, text: str) -> str:
    """Exchange two lines."""
    lines = text.split("\n")
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return "\n".join(lines)


def merge_lines(rng: Random, text: str) -> str:
    """Lose the end of a line."""
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    lines[at : at + 2] = ["".join(lines[at : at + 2])]
    return "\n".join(lines)


def double_text(rng: Random, text: str) -> str:
    """Have the text, or its end from some line on, twice."""
    lines = text.split("\n")
    return text + "\n".join(lines[rng.choice((0, rng.randrange(len(lines)))) :])


LINES: list[Damage] = [truncate, drop_lines, double_line, swap_lines, merge_lines, double_text]


def cut_line(rng: Random, text: str) -> str:
    """Lose the start or the end of a line that is no legend."""
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    if lines[at] and "NIC Legend" not in "".join(lines[:at]):
        cut = rng.randrange(len(lines[at]))
        lines[at] = rng.choice((lines[at][:cut], lines[at][cut:]))
    return "\n".join(lines)


# --- cells of a table ----------------------------------------------------------------------------------------------

_Table = list[list[str]]
"""Per line: word, separator, word and so on."""


def _split(text: str, count: int) -> tuple[_Table, list[str]]:
    lines = text.split("\n")
    return [re.split(r"(\s+)", line.rstrip()) for line in lines[:count]], lines[count:]


def _join(table: _Table, rest: list[str]) -> str:
    return "\n".join(["".join(line) for line in table] + rest)


def _matrix_size(text: str) -> int:
    """Header and rows: all up to the first blank line."""
    lines = text.split("\n")
    return next((number for number, line in enumerate(lines) if not line.strip()), len(lines))


def _words(line: list[str]) -> list[int]:
    return [index for index in range(0, len(line), 2) if line[index]]


def on_cells(change: Callable[[Random, _Table], None]) -> Damage:
    """A damage of the matrix from one of its table."""

    def apply(rng: Random, text: str) -> str:
        count = _matrix_size(text)
        if count < 2:
            return text
        table, rest = _split(text, count)
        if any(not _words(line) for line in table):
            return text
        change(rng, table)
        return _join(table, rest)

    return apply


def _drop_cell(rng: Random, table: _Table) -> None:
    line = rng.choice(table)
    at = rng.choice(_words(line))
    if rng.random() < 0.5:
        del line[at : at + 2]
    else:
        line[at] = ""


def _double_cell(rng: Random, table: _Table) -> None:
    line = rng.choice(table)
    at = rng.choice(_words(line))
    line[at:at] = [line[at], rng.choice(("\t", "    "))]


def _cut_cell(rng: Random, table: _Table) -> None:
    line = rng.choice(table)
    at = rng.choice(_words(line))
    cut = rng.randrange(len(line[at]) + 1)
    line[at] = rng.choice((line[at][:cut], line[at][cut:]))


def _glue_cells(rng: Random, table: _Table) -> None:
    line = rng.choice(table)
    if len(line) > 2:
        line[rng.randrange(1, len(line), 2)] = ""


def _swap_cells(rng: Random, table: _Table) -> None:
    line = rng.choice(table)
    one, other = rng.choice(_words(line)), rng.choice(_words(line))
    line[one], line[other] = line[other], line[one]


def _replace_cell(rng: Random, table: _Table) -> None:
    line = rng.choice(table)
    line[rng.choice(_words(line))] = rng.choice(_CELLS)


def _swap_between_rows(rng: Random, table: _Table) -> None:
    one, other = rng.choice(table), rng.choice(table)
    at = rng.choice(_words(one))
    if at < len(other):
        one[at], other[at] = other[at], one[at]


def _swap_contents(rng: Random, table: _Table) -> None:
    one, other = rng.choice(table), rng.choice(table)
    one[1:], other[1:] = other[1:], one[1:]


def _shift_row(rng: Random, table: _Table) -> None:
    line = rng.choice(table)
    if rng.random() < 0.5:
        del line[2:4]
    else:
        line[2:2] = [rng.choice(_CELLS), "\t"]


def _move_column(rng: Random, table: _Table) -> None:
    """Move, lose or double a column in the header only, in the cells only, or in the rows of either kind only."""
    part = rng.choice((table[:1], table[1:], table[1 : len(table) // 2 + 1], table[len(table) // 2 :]))
    source, target = rng.randrange(1, len(table) + 1), rng.randrange(1, len(table) + 1)
    kind = rng.randrange(3)
    for line in part:
        # The header may begin with its first column, the rows begin with their label.
        first = 0 if line is not table[0] or line[0] == "" else -1
        words = [line[index] for index in range(0, len(line), 2)]
        if max(source, target) + first >= len(words):
            continue
        cell = words[source + first]
        if kind < 2:
            del words[source + first]
        if kind > 0:
            words.insert(target + first, cell)
        line[:] = re.split(r"(\t)", "\t".join(words))


CELLS: list[Damage] = [
    on_cells(change)
    for change in (
        _drop_cell,
        _double_cell,
        _cut_cell,
        _glue_cells,
        _swap_cells,
        _replace_cell,
        _swap_between_rows,
        _swap_contents,
        _shift_row,
        _move_column,
    )
]


# --- the NIC legend ------------------------------------------------------------------------------------------------


def legend_lines(rng: Random, text: str) -> str:
    """Lose, double, exchange, renumber or rename lines of the NIC legend."""
    lines = text.split("\n")
    places = [number for number, line in enumerate(lines) if re.match(r" *(?:NIC|DD)\d+:", line)]
    if not places:
        return text
    at, other = rng.choice(places), rng.choice(places)
    kind = rng.randrange(6)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(other, lines[at])
    elif kind == 2:
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == 3:
        lines[at] = re.sub(r"\d+:", f"{rng.randrange(20)}:", lines[at], count=1)
    elif kind == 4:
        lines[at] = re.sub(
            r"(:\s+).*", rf"\g<1>{rng.choice(('', 'A', 'ID', 'DE  N/A', '0', 'NUMA', 'Affinity', 'x y'))}", lines[at]
        )
    elif at != other:
        # A name that another NIC has, too.
        lines[at] = lines[at].split(":")[0] + ":" + lines[other].split(":", 1)[1]
    return "\n".join(lines)


# --- comma separated values ----------------------------------------------------------------------------------------


def csv_cells(rng: Random, text: str) -> str:
    """Lose, double, cut, blank, glue or exchange cells of one row, or replace one by what nvidia-smi says on an error."""
    lines = text.split("\n")
    at = rng.randrange(max(1, len(lines) - 1))
    cells = lines[at].split(",")
    one, other = rng.randrange(len(cells)), rng.randrange(len(cells))
    kind = rng.randrange(7)
    if kind == 0:
        del cells[one]
    elif kind == 1:
        cells.insert(other, cells[one])
    elif kind == 2:
        cut = rng.randrange(len(cells[one]) + 1)
        cells[one] = rng.choice((cells[one][:cut], cells[one][cut:]))
    elif kind == 3:
        cells[one] = rng.choice(("", " [N/A]", " [Unknown Error]", " [GPU requires reset]", " MIG-1", " GPU-1", " 3"))
    elif kind == 4:
        cells[one : one + 2] = ["".join(cells[one : one + 2])]
    elif kind == 5:
        cells[one], cells[other] = cells[other], cells[one]
    else:
        source = rng.choice(lines).split(",")
        if one < len(source):
            # A key that another GPU has, too.
            cells[one] = source[one]
    lines[at] = ",".join(cells)
    return "\n".join(lines)
