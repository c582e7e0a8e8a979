"""Which fields differ between two versions of an object, in the elements of FieldsV1, pure.

Source: structured-merge-diff, typed/compare.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from nicrails_faker.api import schema

Json = dict[str, Any]
FieldPath = tuple[str, ...]
"""Elements as FieldsV1 has them: ``f:name``, ``k:{"name":"x"}``, ``v:"x"``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The differences.

    Attributes:
        removed: Fields that only the older version has.
        written: Fields that are new or have another value.
    """

    removed: set[FieldPath] = field(default_factory=set)
    written: set[FieldPath] = field(default_factory=set)


def compare(shape: schema.Struct, before: Json, after: Json) -> Changes:
    """Compare two objects of one shape; an empty ``before`` is an object that is about to be created."""
    changes = Changes()
    _members(changes, shape, (), before, after)
    return changes


def _members(changes: Changes, shape: schema.Type, path: FieldPath, before: Json | None, after: Json | None) -> None:
    was, now = before or {}, after or {}
    for key in was.keys() | now.keys():
        old, new = was.get(key), now.get(key)
        if old is not new:
            member = _member(shape, key)
            # Fields that are no pointers are there as soon as their object is.
            if old is None and before is not None and _always_there(member):
                old = {} if isinstance(new, dict) else []
            _value(changes, member, (*path, f"f:{key}"), old, new)


def _value(changes: Changes, shape: schema.Type, path: FieldPath, old: Any, new: Any) -> None:  # noqa: ANN401 - JSON
    present = old if new is None else new
    if old is not None and new is not None and type(old) is not type(new):
        # A field of no described type has become another type: all of it is new.
        changes.written.add(path)
        _members(changes, schema.ANY, path, old if isinstance(old, dict) else None, None)
        _members(changes, schema.ANY, path, None, new if isinstance(new, dict) else None)
        return
    if isinstance(present, dict) and (old or new) and not _atomic(shape):
        _members(changes, shape, path, old, new)
    elif isinstance(shape, schema.ListOf) and (shape.keys or shape.is_set) and (old or new):
        _items(changes, shape, path, old or [], new or [])
    elif old is not None and new is not None:
        if old != new:
            changes.written.add(path)
        return
    if old is None:
        changes.written.add(path)
    elif new is None:
        changes.removed.add(path)


def _items(changes: Changes, shape: schema.ListOf, path: FieldPath, old: list[Any], new: list[Any]) -> None:
    was, now = _by_element(shape, old), _by_element(shape, new)
    for element in was.keys() | now.keys():
        before, after = was.get(element), now.get(element)
        if before == after:
            continue
        if shape.is_set or _atomic(shape.item):
            (changes.removed if after is None else changes.written).add((*path, element))
        else:
            _value(changes, shape.item, (*path, element), before, after)


def _by_element(shape: schema.ListOf, items: list[Any]) -> dict[str, Any]:
    if shape.is_set:
        return {f"v:{orjson.dumps(item).decode()}": item for item in items}
    elements: dict[str, Any] = {}
    for item in items:
        key = {name: item.get(name, shape.defaults.get(name)) for name in shape.keys}
        present = {name: value for name, value in key.items() if value is not None}
        elements[f"k:{orjson.dumps(present, option=orjson.OPT_SORT_KEYS).decode()}"] = item
    return elements


def _member(shape: schema.Type, key: str) -> schema.Type:
    if isinstance(shape, schema.Struct):
        return shape.fields.get(key, schema.ANY)
    return shape.value if isinstance(shape, schema.Map) else schema.ANY


def _atomic(shape: schema.Type) -> bool:
    return isinstance(shape, schema.Struct) and shape.atomic


def _always_there(shape: schema.Type) -> bool:
    if isinstance(shape, schema.Struct):
        return not shape.atomic
    return isinstance(shape, schema.ListOf) and shape.required
