"""Strict reading of JSON text from a program that is not fully trusted, and the look of the text itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from nicrails_broker.parsers.errors import ParseError

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
_EXCERPT_LENGTH = 80
_MAX_DEPTH = 32
_MAX_SEARCHED = 512 * 1024

Path = tuple[str | int, ...]
"""Where in a document: keys and list positions from the root."""


class Number(NamedTuple):
    """A number as it was written: none of the formats has one that matters, and one may have a million digits."""

    text: str


class _RepeatedKeyError(ValueError):
    """An object has a key twice; which value counts is then the reader's whim."""


class _Value(NamedTuple):
    """Where a value starts."""

    path: Path
    offset: int
    key_offset: int
    """Where its key starts, if it has one."""


def load(source: str, text: str, *, strict: bool) -> object:
    """The value of a JSON text; its numbers are :class:`Number`.

    Args:
        source: The command, for errors.
        text: The text.
        strict: Refuse control characters in strings, as the standard does.

    Raises:
        ParseError: The text is not JSON, is nested too deeply, or has a key twice in one object.
    """
    try:
        return json.loads(
            text,
            strict=strict,
            object_pairs_hook=_object,
            parse_int=Number,
            parse_float=Number,
            parse_constant=_refuse_constant,
        )
    except json.JSONDecodeError as error:
        raise ParseError(
            source,
            f"not valid JSON ({error.msg})",
            line=error.lineno,
            column=error.colno,
            excerpt=text[error.pos : error.pos + _EXCERPT_LENGTH].split("\n", 1)[0],
        ) from error
    except _RepeatedKeyError as error:
        offset = _repeated_key(text)
        line, column = _place(text, offset)
        excerpt = text[offset : offset + _EXCERPT_LENGTH].split("\n", 1)[0]
        problem = "a key stands twice in one object"
        raise ParseError(source, problem, line=line, column=column, excerpt=excerpt) from error
    except RecursionError as error:
        raise ParseError(source, "nested too deeply", line=1, column=1, excerpt=text[:_EXCERPT_LENGTH]) from error


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _RepeatedKeyError
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise json.JSONDecodeError("a constant that JSON does not have", name, 0)


def locate(text: str, path: Path) -> tuple[int, int]:
    """1-based line and column at which the value at ``path`` starts, or its nearest container that is there.

    A text that is too large to be searched for it gives its beginning.

    Args:
        text: A text that :func:`load` has read.
        path: Where to look.
    """
    offset = 0
    for value in _values(text):
        if value.path == path[: len(value.path)]:
            offset = value.offset
            if len(value.path) == len(path):
                break
    return _place(text, offset)


def _repeated_key(text: str) -> int:
    seen: set[Path] = set()
    for value in _values(text):
        if value.path in seen:
            return value.key_offset
        seen.add(value.path)
    return 0


def _place(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _values(text: str) -> Iterator[_Value]:
    """Every value of a JSON text, in the order in which they start, up to a depth and a size that real output has."""
    if len(text) > _MAX_SEARCHED:
        return
    at: list[str | int] = []
    wants_key = False
    is_value = True
    key_offset = 0
    for match in _TOKEN.finditer(text):
        part = match.group()
        if part in "]}":
            at.pop()
            is_value = False
        elif part == ",":
            last = at[-1]
            wants_key = isinstance(last, str)
            at[-1] = last if isinstance(last, str) else last + 1
            is_value = not wants_key
        elif part == ":":
            is_value = True
        elif wants_key:
            at[-1] = json.loads(part, strict=False)
            key_offset = match.start()
            wants_key = False
        elif is_value:
            yield _Value(tuple(at), match.start(), key_offset)
            if part in "[{":
                if len(at) == _MAX_DEPTH:
                    return
                wants_key = part == "{"
                at.append("" if wants_key else 0)
            is_value = part == "["


def first_stray_line(text: str) -> int | None:
    """1-based number of the first line that lldpd's JSON writer would have laid out in another way; None if there is none.

    Blank lines do not count, nor does the inside of an empty list or object, which other printers leave out. Strings are
    taken as they stand. Source: ``src/client/json_writer.c`` of lldpd.

    Args:
        text: A text that :func:`load` has read.
    """
    out: list[str] = []
    indent = "\n"
    for match in _TOKEN.finditer(text):
        part = match.group()
        if part in "[{":
            indent += "  "
            out += part, indent
        elif part in "]}":
            indent = indent[:-2]
            if text[match.start() - 1] in "[{":
                out[-1:] = [part]
            else:
                out += indent, part
        elif part == ",":
            out += ",", indent
        elif part == ":":
            out.append(": ")
        else:
            out.append(part)
    expected = iter([line for line in "".join(out).split("\n") if line and not line.isspace()])
    for number, line in enumerate(text.split("\n"), 1):
        if line and not line.isspace() and line != next(expected, None):
            return number
    return None
