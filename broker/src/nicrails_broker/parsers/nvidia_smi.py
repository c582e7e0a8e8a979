"""What all readers of nvidia-smi output share: the lines, and the sentences that mean it failed."""

from __future__ import annotations

import re
from typing import NamedTuple

from nicrails_broker.parsers.errors import ParseError

MAX_CHARACTERS = 1 << 20
"""The largest matrix seen (2 GPUs, 62 NICs) has 36,000 characters."""

_FOREIGN = re.compile(r"[^\t\n\x1b -~]")
_WARNING = "WARNING: "

# Checked in this order: the first sentence found names the cause. Lower case.
_FAILURES = {
    "hwloc: topology does not contain any pu": (
        "nvidia-smi cannot see the processors: its container must be able to read /sys and its cpuset"
    ),
    "failed to run topology matrix": (
        "nvidia-smi gives up on the whole matrix when it cannot place one device below /sys/class/infiniband, such as a "
        "software RDMA device (siw_eth0, rxe0): remove that device on the host"
    ),
    "driver/library version mismatch": (
        "the loaded kernel driver and the user-space library are of different versions: reload the driver or reboot the "
        "Node"
    ),
    "unable to determine the device handle": (
        "the driver lost a GPU: look for Xid errors in the kernel log, then reset the GPU or reboot the Node"
    ),
    "no devices were found": "the driver is loaded but sees no GPU: look for its errors in the kernel log",
    "communicate with the nvidia driver": (
        "the NVIDIA driver is not loaded: wait for the driver pod or install the driver"
    ),
    "failed to initialize nvml": "the driver's library does not start: check the driver on the Node",
    "not a valid field to query": (
        "this nvidia-smi does not know a field of the query: the driver is older than any that is supported"
    ),
    "command line argument must be used": "nvidia-smi refused its arguments: this is not the output of the command",
    "insufficient permissions": "nvidia-smi may not ask the driver: run it as the GPU Operator's pod does",
    "gpu is lost": "the driver lost a GPU: reboot the Node",
}


class Line(NamedTuple):
    """One line that is not blank, with its 1-based number in the text."""

    number: int
    text: str

    def column(self, index: int) -> int | None:
        """1-based character at which the word of that index starts; None where the line has no such word."""
        for position, word in enumerate(re.finditer(r"\S+", self.text)):
            if position == index:
                return word.start() + 1
        return None


def ended(source: str, missing: str, last: Line) -> ParseError:
    """The refusal of a text that ends too early."""
    return ParseError(
        source,
        f"the output ends before {missing}",
        line=last.number,
        column=len(last.text) + 1,
        excerpt=last.text,
    )


def read_lines(source: str, text: str, *, escapes_in_header: bool = False) -> list[Line]:
    """The lines that carry something, without the ``WARNING:`` lines that nvidia-smi prints around its output.

    Args:
        source: The command, for errors.
        text: Its standard output.
        escapes_in_header: Whether the first line may have escape characters.

    Raises:
        ParseError: The text is empty, too long, cut in its last line, holds characters that nvidia-smi does not print,
            or says that the command failed.
    """
    if len(text) > MAX_CHARACTERS:
        raise ParseError(source, f"more than {MAX_CHARACTERS} characters, so this is not its output")
    _refuse_failures(source, text)
    text = text.replace("\r\n", "\n")
    _refuse_foreign(source, text)
    lines = [Line(number, line) for number, line in enumerate(text.split("\n"), 1) if line and not line.isspace()]
    if not lines:
        raise ParseError(source, "no output", line=1, column=1)
    if not text.endswith("\n"):
        raise ended(source, "the end of its last line", lines[-1])
    first, end = 0, len(lines)
    while first < end and lines[first].text.startswith(_WARNING):
        first += 1
    while end > first and lines[end - 1].text.startswith(_WARNING):
        end -= 1
    if first == end:
        raise ParseError(source, "nothing but warnings", line=lines[0].number, column=1, excerpt=lines[0].text)
    for line in lines[first + escapes_in_header : end] if "\x1b" in text else ():
        at = line.text.find("\x1b")
        if at >= 0:
            raise ParseError(
                source, "an escape sequence in the data", line=line.number, column=at + 1, excerpt=line.text[at:]
            )
    return lines[first:end]


def _refuse_failures(source: str, text: str) -> None:
    lowered = text.lower()
    for sentence, remedy in _FAILURES.items():
        at = lowered.find(sentence)
        if at >= 0:
            number, whole = _line_at(text, at)
            raise ParseError(source, "it failed", line=number, column=1, excerpt=whole, remedy=remedy)


def _refuse_foreign(source: str, text: str) -> None:
    foreign = _FOREIGN.search(text)
    if foreign is not None:
        number, whole = _line_at(text, foreign.start())
        column = foreign.start() - text.rfind("\n", 0, foreign.start())
        raise ParseError(
            source, "a character that it never prints", line=number, column=column, excerpt=whole[column - 1 :]
        )


def _line_at(text: str, offset: int) -> tuple[int, str]:
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    return text.count("\n", 0, offset) + 1, text[start : end if end >= 0 else len(text)]
