"""YAML text to trees and back.

Anchors, aliases, tags, merge keys and keys given twice are refused: they are how a short text becomes a large or a
different one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import yaml

from nicrails.text import excerpt
from nicrails_faker.mig.document import YamlList, YamlMapping, YamlScalar, YamlValue, child, is_null, plain, string
from nicrails_faker.mig.errors import DocumentError

MAX_SIZE = 1024 * 1024
"""Characters; Kubernetes holds no larger ConfigMap."""
MAX_DEPTH = 64
MAX_VALUES = 100_000
MAX_KEY = 256

# The parser of libyaml gives the same events as the one in Python, twenty times as fast.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse(text: str, *, max_size: int = MAX_SIZE) -> YamlValue:
    """Read one document.

    Args:
        text: YAML 1.1 or 1.2, or JSON.
        max_size: The most characters it may have.

    Raises:
        DocumentError: It is not YAML, is too large or too deep, or uses what is refused (see the module).
    """
    if len(text) > max_size:
        raise DocumentError("", f"has {len(text)} characters; {max_size} are the most that are read")
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.add(event)
    except DocumentError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise DocumentError("", f"not YAML{where}: {excerpt(error.problem or str(error), 120)}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise DocumentError("", f"not YAML: {excerpt(str(error), 120)}") from error
    if builder.root is None:
        raise DocumentError("", "empty")
    return builder.root


class _Open:
    """A list or mapping whose end has not come yet."""

    def __init__(self, path: str, *, is_mapping: bool) -> None:
        self.path = path
        self.is_mapping = is_mapping
        self.items: list[YamlValue] = []
        self.keys: list[YamlScalar] = []
        self.seen: set[str] = set()

    @property
    def wants_key(self) -> bool:
        return self.is_mapping and len(self.keys) == len(self.items)

    @property
    def here(self) -> str:
        """The path of what comes next."""
        if not self.is_mapping:
            return child(self.path, len(self.items))
        return self.path if self.wants_key else child(self.path, self.keys[-1].text)

    def close(self) -> YamlValue:
        if self.is_mapping:
            return YamlMapping(tuple(zip(self.keys, self.items, strict=True)))
        return YamlList(tuple(self.items))


class _Builder:
    """Makes the tree from the parser's events, without recursion."""

    def __init__(self) -> None:
        self.root: YamlValue | None = None
        self._open: list[_Open] = []
        self._values = 0

    def add(self, event: yaml.events.Event) -> None:
        if isinstance(event, yaml.events.DocumentStartEvent) and self.root is not None:
            raise DocumentError("", "more than one document")
        if isinstance(event, yaml.events.CollectionEndEvent):
            self._put(self._open.pop().close())
        elif isinstance(event, yaml.events.NodeEvent):
            self._check(event)
            if isinstance(event, yaml.events.ScalarEvent):
                self._scalar(plain(event.value) if event.implicit[0] else string(event.value))
            else:
                self._begin(is_mapping=isinstance(event, yaml.events.MappingStartEvent))

    def _check(self, event: yaml.events.NodeEvent) -> None:
        tag: str | None = getattr(event, "tag", None)  # an alias has none
        if event.anchor is not None or tag is not None:
            here = self._open[-1].here if self._open else ""
            if event.anchor is not None:
                raise DocumentError(here, "anchors and aliases are not supported")
            raise DocumentError(here, f"tags are not supported, found {excerpt(tag or '', 80)}")
        self._values += 1
        if self._values > MAX_VALUES:
            raise DocumentError("", f"more than {MAX_VALUES} values")

    def _begin(self, *, is_mapping: bool) -> None:
        here = ""
        if self._open:
            if self._open[-1].wants_key:
                raise DocumentError(self._open[-1].path, "a key must be a string, found a list or a mapping")
            here = self._open[-1].here
        if len(self._open) == MAX_DEPTH:
            raise DocumentError("", f"nested more than {MAX_DEPTH} deep")
        self._open.append(_Open(here, is_mapping=is_mapping))

    def _scalar(self, scalar: YamlScalar) -> None:
        if self._open and self._open[-1].wants_key:
            self._key(self._open[-1], scalar)
        else:
            self._put(scalar)

    @staticmethod
    def _key(parent: _Open, key: YamlScalar) -> None:
        if is_null(key) or not 0 < len(key.text) <= MAX_KEY or not key.text.isprintable():
            raise DocumentError(parent.path, f"a key must be 1 to {MAX_KEY} characters on one line")
        if key.text == "<<":
            raise DocumentError(parent.path, "merge keys (<<) are not supported")
        if key.text in parent.seen:
            raise DocumentError(child(parent.path, key.text), "given twice")
        parent.seen.add(key.text)
        parent.keys.append(key)

    def _put(self, value: YamlValue) -> None:
        if self._open:
            self._open[-1].items.append(value)
        else:
            self.root = value


def emit(value: YamlValue) -> str:
    """The document as YAML: block style, one spelling for each value, keys in the order that they have."""
    return "".join(f"{line}\n" for line in _lines(value))


def _lines(value: YamlValue) -> Sequence[str]:
    if isinstance(value, YamlScalar):
        return (_spell(value),)
    if isinstance(value, YamlList):
        return tuple(_list_lines(value)) or ("[]",)
    return tuple(_mapping_lines(value)) or ("{}",)


def _list_lines(value: YamlList) -> Iterator[str]:
    for item in value.items:
        first, *others = _lines(item)
        yield f"- {first}"
        yield from (f"  {line}" for line in others)


def _mapping_lines(value: YamlMapping) -> Iterator[str]:
    for key, inner in value.entries:
        lines = _lines(inner)
        if isinstance(inner, YamlScalar) or lines[0] in ("[]", "{}"):
            yield f"{_spell(key)}: {lines[0]}"
        else:
            yield f"{_spell(key)}:"
            yield from (lines if isinstance(inner, YamlList) else (f"  {line}" for line in lines))


def _spell(scalar: YamlScalar) -> str:
    return scalar.text if scalar.plain else '"' + "".join(_escape(char) for char in scalar.text) + '"'


def _escape(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable():
        return char
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
