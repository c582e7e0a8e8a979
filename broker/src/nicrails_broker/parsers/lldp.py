"""Reader of the neighbours that ``lldpctl -f json0`` prints; ``-f json`` as far as it can be told apart.

``json0`` always has the same shape and carries every text of a neighbour as a value. ``json`` changes its shape with the
number of interfaces and neighbours, and makes a neighbour's system name an object key. lldpd before 1.0.22 does not
escape keys, so there a neighbour can write JSON of its own into the output. The service therefore reads ``json0`` only.
"""

from __future__ import annotations

from collections.abc import Iterable

from nicrails_broker.parsers import json_text
from nicrails_broker.parsers.errors import ParseError
from nicrails_broker.parsers.lldp_document import Neighbor
from nicrails_broker.parsers.lldp_shapes import Json, Json0

__all__ = ["MAX_BYTES", "SOURCE", "Neighbor", "interfaces", "parse_any", "parse_json0"]

SOURCE = Json0.source

MAX_BYTES = 8 << 20
"""A neighbour takes about 2 KB of json0; this is room for 1,000 of them."""


# Checked in this order in a text that is no JSON. Lower case.
_CAUSES = {
    "connection refused": "lldpd is not running: start it on the host",
    "permission denied": "the broker may not open the socket of lldpd: run it as root or in the group _lldpd",
    "no such file or directory": (
        "the socket of lldpd is not there: start lldpd on the host and mount the directory of its socket"
    ),
    "unable to connect to socket": "lldpd cannot be reached: check that it runs and that its socket is mounted",
    "[warn/marshal]": "lldpctl and the host's lldpd are of different versions: use the host's version",
    "unable to deserialize": "lldpctl and the host's lldpd are of different versions: use the host's version",
    "double free": "lldpctl and the host's lldpd are of different versions: use the host's version",
    "aborted": "lldpctl crashed, as it does when the host's lldpd is of another version: use the host's version",
    "unknown output format": "this lldpctl does not know the format json0: use lldpd 0.9.8 or newer",
    "lldp neighbors:": "this is the plain text format: lldpctl does not know json0, use lldpd 0.9.8 or newer",
}


def parse_json0(data: bytes) -> tuple[Neighbor, ...]:
    """Read the output of ``lldpctl -f json0``; no neighbour at all is an empty result.

    Bytes that are not UTF-8 are replaced, and control characters in strings are let through (lldpd does not escape 0x1f):
    both come from a neighbour, who must not be able to stop the discovery. Neither can be in an interface's name.

    Raises:
        ParseError: The output is not complete, not JSON, or not that of ``lldpctl -f json0``.
    """
    text = _decode(data)
    return Json0(text).neighbors(_load(SOURCE, text, strict=False))


def parse_any(data: bytes) -> tuple[Neighbor, ...]:
    """Read the output of ``lldpctl -f json0`` or, if its shape is beyond doubt, of ``lldpctl -f json``.

    Raises:
        ParseError: As :func:`parse_json0`; for ``json`` also if the shape is ambiguous, or if the text is not laid out as
            lldpd does it, so that a neighbour may have written a part of it.
    """
    text = _decode(data)
    root = _load(SOURCE, text, strict=False)
    if not isinstance(root, dict) or not isinstance(root.get("lldp"), dict):
        return Json0(text).neighbors(root)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise ParseError(
            Json.source, "not UTF-8", line=line, column=column, excerpt=text.split("\n")[line - 1]
        ) from error
    return Json(text).neighbors(_load(Json.source, text, strict=True))


def interfaces(neighbors: Iterable[Neighbor]) -> tuple[str, ...]:
    """The interfaces that have a neighbour, sorted, each once."""
    return tuple(sorted({neighbor.interface for neighbor in neighbors}))


def _decode(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise ParseError(SOURCE, f"more than {MAX_BYTES} bytes, so this is not its output")
    text = data.decode("utf-8", "replace")
    if not text or text.isspace():
        raise ParseError(
            SOURCE, "no output", line=1, column=1, remedy="look at what lldpctl says on its standard error"
        )
    return text


def _load(source: str, text: str, *, strict: bool) -> object:
    try:
        return json_text.load(source, text, strict=strict)
    except ParseError as error:
        # In a document such a sentence can be a neighbour's.
        lowered = "" if text.lstrip().startswith("{") else text[:4096].lower()
        for sentence, remedy in _CAUSES.items():
            at = lowered.find(sentence)
            if at >= 0:
                line = text.count("\n", 0, at)
                whole = text.split("\n")[line]
                raise ParseError(source, "it failed", line=line + 1, column=1, excerpt=whole, remedy=remedy) from error
        raise
