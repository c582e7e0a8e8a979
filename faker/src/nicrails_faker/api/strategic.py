"""Strategic merge patches, pure: lists are merged by the key of their items.

Supported are merge keys, ``$patch: replace`` and ``$patch: delete``, ``$deleteFromPrimitiveList`` and, for what they do
to values, ``$retainKeys``; ``$setElementOrder`` is read and has no effect.

Source: k8s.io/apimachinery, pkg/util/strategicpatch/patch.go.
"""

from __future__ import annotations

from typing import Any

from nicrails_faker.api import schema, status

Json = dict[str, Any]

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE_VALUES = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def merge(document: Json, patch: Json, shape: schema.Type) -> Json:
    """Apply a strategic merge patch; unchanged parts are shared with ``document``.

    Raises:
        StatusError: 500; an item of a list lacks the key by which it would be found.
    """
    if patch.get(_DIRECTIVE) == "replace":
        return _plain(patch)
    if patch.get(_DIRECTIVE) == "delete":
        return {}
    result = dict(document)
    if isinstance(patch.get(_RETAIN), list):
        result = {key: value for key, value in result.items() if key in patch[_RETAIN]}
    for key, value in patch.items():
        if key in {_DIRECTIVE, _RETAIN} or key.startswith(_ORDER):
            continue
        if key.startswith(_DELETE_VALUES):
            name = key.removeprefix(_DELETE_VALUES)
            if not isinstance(value, list):
                raise status.internal(f"invalid patch: {key} must hold a list")
            result[name] = [item for item in result.get(name, []) if item not in value]
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value, _member(shape, key))
    return result


def _merged(old: Any, new: Any, shape: schema.Type) -> Any:  # noqa: ANN401 - JSON
    if isinstance(new, dict):
        return merge(old if isinstance(old, dict) else {}, new, shape)
    if isinstance(new, list) and isinstance(shape, schema.ListOf):
        if shape.is_set:
            # What the patch adds comes first, as the server orders it.
            present = old or []
            return [*(item for item in new if item not in present), *present]
        if shape.merge_key and old:
            return _merged_items(old, new, shape)
    return [_plain(item) if isinstance(item, dict) else item for item in new] if isinstance(new, list) else new


def _merged_items(old: list[Json], new: list[Any], shape: schema.ListOf) -> list[Json]:
    key = shape.merge_key
    if any(isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" for item in new):
        return [item for item in new if not isinstance(item, dict) or item.get(_DIRECTIVE) != "replace"]
    result = list(old)
    added = []
    for item in new:
        if not isinstance(item, dict) or key not in item:
            raise status.internal(f"map: {_shown(item)} does not contain declared merge key: {key}")
        found = next((index for index, present in enumerate(result) if present.get(key) == item[key]), None)
        if item.get(_DIRECTIVE) == "delete":
            result = [present for present in result if present.get(key) != item[key]]
        elif found is None:
            added.append(_plain(item))
        else:
            result[found] = merge(result[found], item, shape.item)
    return [*added, *result]


def _shown(item: object) -> str:
    """A value as Go's ``%v`` shows it."""
    if not isinstance(item, dict):
        return str(item)
    return f"map[{' '.join(f'{name}:{_shown(value)}' for name, value in sorted(item.items()))}]"


def _plain(patch: Json) -> Json:
    return {key: value for key, value in patch.items() if not key.startswith("$") and value is not None}


def _member(shape: schema.Type, key: str) -> schema.Type:
    if isinstance(shape, schema.Struct):
        return shape.fields.get(key, schema.ANY)
    return shape.value if isinstance(shape, schema.Map) else schema.ANY
