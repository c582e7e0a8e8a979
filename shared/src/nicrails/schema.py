"""The JSON Schema of a record, made from its types; ``python -m nicrails.schema`` prints it.

The same text lies beside this module as ``record.schema.json``, for consumers in other languages. A schema can not
express the rules between values (every candidate is on its rail, ties only); :func:`nicrails.decode` checks those.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from nicrails.pci import PciAddress
from nicrails.record import MAX_RAIL_ID_LENGTH, SCHEMA_VERSION, GpuUuid, NodeRecord, NodeUid, RailId

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_STRINGS: Mapping[type[str], dict[str, Any]] = {
    PciAddress: {"pattern": r"^([0-9a-f]{4}|[1-9a-f][0-9a-f]{4,7}):[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$"},
    RailId: {"minLength": 1, "maxLength": MAX_RAIL_ID_LENGTH},
    GpuUuid: {"pattern": f"^{GpuUuid.form.pattern}$"},
    NodeUid: {"pattern": f"^{NodeUid.form.pattern}$"},
    str: {"minLength": 1, "maxLength": 253},
}
"""What JSON Schema can say of each kind of string."""


def json_schema() -> dict[str, Any]:
    """The schema of one record; unknown fields are allowed, as readers must ignore them."""
    schema = _object(NodeRecord)
    schema["properties"]["schemaVersion"] = {"const": SCHEMA_VERSION}
    schema["required"] = sorted([*schema["required"], "schemaVersion"])
    return {"$schema": DIALECT, "title": "nicrails record of one Node", **schema}


def json_name(field: str) -> str:
    """The key of a field: camelCase, with initialisms in capitals as Kubernetes writes them."""
    first, *rest = field.split("_")
    return first + "".join("UID" if word == "uid" else word.capitalize() for word in rest)


def _object(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    return {
        "type": "object",
        "properties": {json_name(name): _schema(hints[name]) for name in names},
        "required": sorted(json_name(name) for name in names),
    }


def _schema(kind: Any) -> dict[str, Any]:  # noqa: ANN401  (a type expression)
    makers: Mapping[Any, Callable[..., dict[str, Any]]] = {
        Mapping: lambda key, value: {
            "type": "object",
            "propertyNames": _schema(key),
            "additionalProperties": _schema(value),
        },
        tuple: lambda item, _: {"type": "array", "items": _schema(item), "minItems": 1, "uniqueItems": True},
    }
    origin = typing.get_origin(kind)
    if isinstance(kind, types.GenericAlias) or origin is not None:
        return makers[Mapping if origin is not tuple else tuple](*typing.get_args(kind))
    if dataclasses.is_dataclass(kind):
        return _object(typing.cast("type", kind))
    if issubclass(kind, enum.Enum):
        return {"enum": [member.value for member in kind]}
    return {"type": "string", **_STRINGS[kind]}


if __name__ == "__main__":
    sys.stdout.buffer.write(orjson.dumps(json_schema(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
