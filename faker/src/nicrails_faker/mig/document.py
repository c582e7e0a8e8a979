"""YAML documents as small immutable trees: what is written back keeps every value that somebody else put there.

A scalar keeps its text and whether it was quoted, so a value that this package does not know survives reading and
writing, whatever version of YAML its owner reads it with. :mod:`nicrails_faker.mig.yaml_text` reads and writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from nicrails.text import excerpt


@dataclass(frozen=True, slots=True)
class YamlScalar:
    """A scalar.

    Attributes:
        text: Its text, without quotes.
        plain: Written without quotes. Made by :func:`string` and :func:`plain` alone, equal values are equal, whether
            there were needless quotes or not.
    """

    text: str
    plain: bool


@dataclass(frozen=True, slots=True)
class YamlList:
    """A sequence."""

    items: tuple[YamlValue, ...]


@dataclass(frozen=True, slots=True)
class YamlMapping:
    """A mapping; its keys are scalars, each given once."""

    entries: tuple[tuple[YamlScalar, YamlValue], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.entries)


YamlValue: TypeAlias = YamlScalar | YamlList | YamlMapping

_SAFE = re.compile(r"(?:[A-Za-z0-9_/]|\.[A-Za-z0-9_])[A-Za-z0-9_./+-]*", re.ASCII)
_PATH_KEY = re.compile(r"[\w/-]{1,80}", re.ASCII)
_NULL = frozenset({"~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
_FALSE = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
_RESERVED = frozenset({"~", "null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,17})", re.ASCII)
_NUMBER = re.compile(
    r"[-+]?(?:[0-9][0-9_]*|0x[0-9a-fA-F_]+|0o[0-7_]+|0b[01_]+"  # whole
    r"|(?:[0-9][0-9_]*\.?[0-9_.]*|\.[0-9_.]+)(?:[eE][-+]?[0-9]+)?|\.(?:inf|Inf|INF|nan|NaN|NAN)"  # not whole
    r"|[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?)",  # to the base of 60, in YAML 1.1
    re.ASCII,
)
_TIME = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:(?:[Tt]|[ \t]+)[0-9](?:[0-9:.+Zz-]| (?=[0-9+Zz-]))*)?", re.ASCII)


def string(text: str) -> YamlScalar:
    """A string, whatever it looks like; without quotes only where no version of YAML needs them."""
    return YamlScalar(text, plain=_SAFE.fullmatch(text) is not None and not _is_ambiguous(text))


def plain(text: str) -> YamlScalar:
    """What stood there without quotes: a string too, unless some version of YAML sees something else in it."""
    if not text:
        return YamlScalar("null", plain=True)
    return YamlScalar(text, plain=True) if _is_ambiguous(text) else string(text)


def whole(number: int) -> YamlScalar:
    """A whole number."""
    return YamlScalar(str(number), plain=True)


def boolean(*, value: bool) -> YamlScalar:
    """``true`` or ``false``."""
    return YamlScalar("true" if value else "false", plain=True)


def mapping(entries: Iterable[tuple[str, YamlValue | None]], rest: YamlMapping | None = None) -> YamlMapping:
    """A mapping of the entries that have a value, followed by others."""
    own = tuple((string(key), value) for key, value in entries if value is not None)
    return YamlMapping(own + (rest.entries if rest else ()))


def is_null(value: YamlValue) -> bool:
    """Whether it is null: nothing, ``~`` or ``null``."""
    return isinstance(value, YamlScalar) and value.plain and value.text in _NULL


def as_boolean(value: YamlValue) -> bool | None:
    """The boolean in either version of YAML; None if it is something else."""
    if isinstance(value, YamlScalar) and value.plain and value.text in _TRUE | _FALSE:
        return value.text in _TRUE
    return None


def as_whole(value: YamlValue) -> int | None:
    """The decimal whole number; None if it is something else."""
    if isinstance(value, YamlScalar) and value.plain and _WHOLE.fullmatch(value.text):
        return int(value.text)
    return None


def is_number(value: YamlValue) -> bool:
    """Whether a reader of any version of YAML may take it for a number."""
    return isinstance(value, YamlScalar) and value.plain and _NUMBER.fullmatch(value.text) is not None


def ordered(value: YamlValue) -> YamlValue:
    """The same document with its keys in order, at every depth."""
    if isinstance(value, YamlList):
        return YamlList(tuple(ordered(item) for item in value.items))
    if isinstance(value, YamlMapping):
        entries = [(key, ordered(inner)) for key, inner in value.entries]
        return YamlMapping(tuple(sorted(entries, key=lambda entry: entry[0].text)))
    return value


def child(path: str, key: str | int) -> str:
    """The path of an item of a list or of a key of a mapping."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if _PATH_KEY.fullmatch(key) is None:
        return f'{path}["{excerpt(key, 80)}"]'
    return f"{path}.{key}" if path else key


def _is_ambiguous(text: str) -> bool:
    """Whether some version of YAML takes it for something else than a string, where it has no quotes."""
    return text.lower() in _RESERVED or bool(_NUMBER.fullmatch(text) or _TIME.fullmatch(text))
