"""Reader of what stands below the matrix of ``nvidia-smi topo -m``: the path legend and the NIC legend."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nicrails_broker.parsers.errors import ParseError
from nicrails_broker.parsers.nvidia_smi import Line, ended

_DEVICE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_PATH_LEGEND_LINE = re.compile(r"\s*[A-Z][A-Z0-9#]{0,7}\s*=\s*\S.*")
_NIC_LEGEND_LINE = re.compile(r"\s*([A-Z]+[0-9]+):\s+(\S+)\s*(.*)")
_DATA_DIRECT = re.compile(r"data-direct\b", re.IGNORECASE)


def is_device_name(word: str) -> bool:
    """Whether a word can be an RDMA device name, and not a piece of the matrix.

    The kernel lets a name have 63 bytes. With very many NICs nvidia-smi writes the matrix over the first names (seen with
    42 and with 62 NICs: ``NIC0: A``, the end of ``N/A``). Such a piece has no lower-case letter or is the end of
    ``Affinity``; a name that a driver or udev gives has a lower-case letter.
    """
    return _DEVICE_NAME.fullmatch(word) is not None and word != word.upper() and not "Affinity".endswith(word)


def read_legend(
    source: str, last_row: Line, lines: Sequence[Line], *, nics: int, data_direct: int
) -> tuple[list[str], list[str]]:
    """The device of each ``NICn`` and of each ``DDn`` column.

    Args:
        source: The command, for errors.
        last_row: The last row of the matrix, for errors.
        lines: Everything below the matrix.
        nics: How many ``NICn`` columns the header has.
        data_direct: How many ``DDn`` columns the header has.

    Raises:
        ParseError: A line belongs to no legend, or the NIC legend is not complete, in order, and free of repetitions.
    """
    position = 0
    if lines and lines[0].text.strip() == "Legend:":
        position = 1
        while position < len(lines) and _PATH_LEGEND_LINE.fullmatch(lines[position].text):
            position += 1
    has_nic_legend = position < len(lines) and lines[position].text.strip() == "NIC Legend:"
    entries = lines[position + 1 :] if has_nic_legend else lines[position:]
    if has_nic_legend and nics == 0:
        raise ParseError(
            source, "a NIC legend, but no NICn column in the header", line=lines[position].number, column=1
        )
    if entries and not has_nic_legend:
        raise ParseError(
            source, "text that belongs to no legend", line=entries[0].number, column=1, excerpt=entries[0].text
        )
    expected = [*(f"NIC{number}" for number in range(nics)), *(f"DD{number}" for number in range(data_direct))]
    names = [
        _read_entry(source, entry, label, is_direct=index >= nics)
        for index, (entry, label) in enumerate(zip(entries, expected, strict=False))
    ]
    if len(entries) < len(expected):
        raise ended(source, f"the legend of {expected[len(entries)]}", [last_row, *lines][-1])
    if len(entries) > len(expected):
        extra = entries[len(expected)]
        raise ParseError(source, "text behind the legend", line=extra.number, column=1, excerpt=extra.text)
    _check_names(source, entries, names[:nics], names[nics:])
    return names[:nics], names[nics:]


def _read_entry(source: str, entry: Line, label: str, *, is_direct: bool) -> str:
    match = _NIC_LEGEND_LINE.fullmatch(entry.text)
    if match is None or match.group(1) != label:
        raise ParseError(source, f"expected the legend of {label}", line=entry.number, column=1, excerpt=entry.text)
    _, name, more = match.groups()
    # A Data Direct line goes on after the name, so a name that was cut off with the end of its line shows.
    if not is_device_name(name) or (_DATA_DIRECT.match(more) is None if is_direct else more != ""):
        raise ParseError(
            source,
            f"the legend of {label} holds no device name",
            line=entry.number,
            column=match.start(2) + 1,
            excerpt=entry.text[match.start(2) :],
            remedy="nvidia-smi itself spoils its legend on machines with very many NICs: use fewer virtual functions",
        )
    return name


def _check_names(source: str, entries: Sequence[Line], nics: Sequence[str], direct: Sequence[str]) -> None:
    for names, first, known in ((nics, 0, None), (direct, len(nics), set(nics))):
        for index, name in enumerate(names):
            if name in names[:index] or (known is not None and name not in known):
                problem = "names a device twice" if name in names[:index] else "names a device that no NICn has"
                entry = entries[first + index]
                raise ParseError(
                    source, f"the legend {problem}", line=entry.number, column=entry.column(1), excerpt=name
                )
