"""The types that the fields of objects have: what a value may be, and what of it is kept.

One description serves three readers: decoding (types, unknown fields, what Go's ``omitempty`` drops), strategic merge
patches (merge keys), and the bookkeeping of field managers (which lists are sets, or maps by a key).

Source: the tags ``json``, ``patchMergeKey``, ``listType`` and ``structType`` of the Go types.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nicrails_faker.api.gojson import type_name

Json = dict[str, Any]


class DecodeError(ValueError):
    """A value has another type than its field; the sentence is the one of Go's decoder."""


@dataclass(slots=True)
class Decoding:
    """One decoding under way.

    Attributes:
        struct: The Go type of the innermost object.
        path: The path of fields, without the outermost kind.
        unknown: Fields that no type has, in the order they were met.
    """

    struct: str = ""
    path: tuple[str, ...] = ()
    unknown: list[str] = field(default_factory=list)

    def mismatch(self, value: object, go: str, what: str = "") -> DecodeError:
        """``value`` can not be a ``go``."""
        path = re.sub(r"\[\d+\]", "", ".".join(self.path))
        place = f"Go struct field {self.struct}.{path} of type" if path else "Go value of type"
        return DecodeError(f"json: cannot unmarshal {what or type_name(value)} into {place} {go}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """Anything, kept as it came without the null members of objects.

    Attributes:
        go: Its Go type, as errors name it.
        keep_empty: Whether a field of this type stays when it is empty: it is a pointer, or has no ``omitempty``.
    """

    go: str = "interface {}"
    keep_empty: bool = False

    def decode(self, value: Any, at: Decoding) -> Any:  # noqa: ANN401 - JSON
        """The value as the server keeps it; ``value`` is not None.

        Raises:
            DecodeError: It is of another type.
        """
        del at
        return without_nulls(value)

    @property
    def zero(self) -> Any:  # noqa: ANN401 - JSON
        """What null becomes inside a list or a map."""
        return None


def without_nulls(value: Any) -> Any:  # noqa: ANN401 - JSON
    """A deep copy without the null members of objects."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar(Type):
    """A string, a boolean, or an integer, as ``go`` says."""

    go: str = "string"

    def decode(self, value: Any, at: Decoding) -> Any:  # noqa: ANN401 - JSON
        """The value itself."""
        wanted = {"string": str, "bool": bool}.get(self.go, int)
        if type(value) is wanted:
            return value
        number = f"number {value}" if isinstance(value, float) and wanted is int else ""
        raise at.mismatch(value, self.go, number)

    @property
    def zero(self) -> Any:  # noqa: ANN401 - JSON
        """An empty string, False or 0."""
        return {"string": "", "bool": False}.get(self.go, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary(Type):
    """Bytes as base64."""

    go: str = "[]uint8"

    def decode(self, value: Any, at: Decoding) -> Any:  # noqa: ANN401 - JSON
        """The text itself."""
        if type(value) is not str:
            raise at.mismatch(value, self.go)
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as exc:
            wrong = re.search(r"[^A-Za-z0-9+/]", value)
            raise DecodeError(f"illegal base64 data at input byte {wrong.start() if wrong else len(value)}") from exc
        return value

    @property
    def zero(self) -> Any:  # noqa: ANN401 - JSON
        """No bytes."""
        return ""


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Time(Type):
    """A point in time, kept in whole seconds, or microseconds, of UTC."""

    go: str = "string"
    micro: bool = False

    def decode(self, value: Any, at: Decoding) -> Any:  # noqa: ANN401 - JSON
        """The same moment in UTC."""
        del at  # the type decodes itself, so its errors do not say where they are
        if type(value) is not str:
            raise Decoding().mismatch(value, self.go)
        layout = "2006-01-02T15:04:05.000000Z07:00" if self.micro else "2006-01-02T15:04:05Z07:00"
        try:
            moment = datetime.datetime.fromisoformat(value if _TIME.fullmatch(value) else "").astimezone(datetime.UTC)
        except (ValueError, OverflowError) as exc:
            raise DecodeError(f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "2006"') from exc
        fraction = f".{moment.microsecond:06}" if self.micro else ""
        return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class Map(Type):
    """An object with keys of the user's choice."""

    value: Type = field(default_factory=Scalar)

    def decode(self, value: Any, at: Decoding) -> Any:  # noqa: ANN401 - JSON
        """The map in the order of its keys."""
        if not isinstance(value, dict):
            raise at.mismatch(value, f"map[string]{self.value.go}")
        if type(self.value) is Scalar and all(type(item) is str for item in value.values()):
            # The usual case, fast: a ConfigMap may have thousands of keys.
            return dict(sorted(value.items()))
        return {
            key: self.value.zero if item is None else self.value.decode(item, at) for key, item in sorted(value.items())
        }

    @property
    def zero(self) -> Any:  # noqa: ANN401 - JSON
        """An empty map."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf(Type):
    """A list.

    Attributes:
        item: The type of the items.
        keys: The fields that tell items apart, if it is a map in the shape of a list.
        defaults: What a key field is where an item lacks it.
        is_set: Whether it is a set of scalars.
        merge_key: The field by which a strategic merge patch finds items; empty: it replaces the list.
        required: Whether the field has no ``omitempty``, so that an empty object has an empty list.
    """

    item: Type = field(default_factory=Type)
    keys: tuple[str, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    is_set: bool = False
    merge_key: str = ""
    required: bool = False

    def decode(self, value: Any, at: Decoding) -> Any:  # noqa: ANN401 - JSON
        """The list of decoded items."""
        if not isinstance(value, list):
            raise at.mismatch(value, f"[]{self.item.go}")
        path = at.path
        items = []
        for index, item in enumerate(value):
            # Unknown fields are reported with the item's position.
            at.path = (*path[:-1], f"{path[-1]}[{index}]") if path and isinstance(self.item, Struct) else path
            items.append(self.item.zero if item is None else self.item.decode(item, at))
        at.path = path
        return items

    @property
    def zero(self) -> Any:  # noqa: ANN401 - JSON
        """An empty list."""
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Struct(Type):
    """An object with known fields.

    Attributes:
        name: Its Go type, as errors name it.
        fields: The fields.
        open: Whether fields that are not described are kept.
        atomic: Whether one manager owns it as a whole, and an empty object does not have it.
    """

    name: str = ""
    fields: Mapping[str, Type] = field(default_factory=dict)
    open: bool = False
    atomic: bool = False
    keep_empty: bool = True

    def decode(self, value: Any, at: Decoding) -> Any:  # noqa: ANN401 - JSON
        """The object without empty and without unknown fields."""
        if not isinstance(value, dict):
            raise at.mismatch(value, self.go)
        struct, path = at.struct, at.path
        result: Json = {}
        for key, item in value.items():
            described = self.fields.get(key)
            if described is None:
                if not self.open:
                    at.unknown.append(".".join((*path, key)))
                elif item is not None:
                    result[key] = without_nulls(item)
            elif item is not None:
                at.struct, at.path = self.name, (*path, key)
                decoded = described.decode(item, at)
                if decoded or described.keep_empty:
                    result[key] = decoded
        at.struct, at.path = struct, path
        return result

    @property
    def zero(self) -> Any:  # noqa: ANN401 - JSON
        """An empty object."""
        return {}


ANY = Type(keep_empty=True)
TEXT = Scalar()
TEXT_ALWAYS = Scalar(keep_empty=True)
FLAG = Scalar(go="bool")
FLAG_POINTER = Scalar(go="bool", keep_empty=True)
INT32 = Scalar(go="int32")
INT32_POINTER = Scalar(go="int32", keep_empty=True)
INT64 = Scalar(go="int64")
INT64_POINTER = Scalar(go="int64", keep_empty=True)
TIME = Time()
MICRO_TIME = Time(micro=True)
TEXT_MAP = Map()


def struct(name: str, /, *groups: Mapping[str, Type], **fields: Type) -> Struct:
    """A struct whose fields are all described."""
    return Struct(name=name, go=f"v1.{name}", fields=_joined(*groups, fields))


def part(name: str, /, *groups: Mapping[str, Type], **fields: Type) -> Struct:
    """A struct of which some fields are described and all are kept."""
    return Struct(name=name, go=f"v1.{name}", fields=_joined(*groups, fields), open=True)


def atom(name: str, /, **fields: Type) -> Struct:
    """A struct that has one owner; of its fields some are described and all are kept."""
    return Struct(name=name, go=f"v1.{name}", fields=fields, open=True, atomic=True)


def texts(*names: str) -> dict[str, Type]:
    """Fields that are strings."""
    return dict.fromkeys(names, TEXT)


def _joined(*groups: Mapping[str, Type]) -> dict[str, Type]:
    return {name: kind for group in groups for name, kind in group.items()}
