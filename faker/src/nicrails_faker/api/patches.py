"""JSON patches and merge patches, pure: a document and a patch in, a new document out.

JSON patches have the quirks of the library that the API server uses (evanphx/json-patch 4.12): ``replace`` of a missing
member creates it, ``test`` of a missing member against null passes, ``copy`` of a missing member copies null, and of a
path only what stands after the first ``/`` counts.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

Json = dict[str, Any]

MAX_OPERATIONS = 10_000
"""How many operations a JSON patch may have."""


_NUMBER = re.compile(r"[+-]?[0-9]{1,9}", re.ASCII)


MAX_COPIED = 3 * 1024 * 1024
"""Bytes of JSON that the ``copy`` operations of one patch may copy."""


class PatchError(ValueError):
    """The patch does not apply to this document; why is not told to clients."""


def merge(document: Any, patch: Any) -> Any:  # noqa: ANN401 - JSON
    """Apply a merge patch (RFC 7386); unchanged parts are shared with ``document``."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merge(result.get(key), value)
        else:
            result[key] = value
    return result


def apply(document: Json, operations: list[Json]) -> Json:
    """Apply a JSON patch (RFC 6902); unchanged parts are shared with ``document``.

    Raises:
        PatchError: An operation is malformed or does not apply; nothing is changed.
    """
    patching = _Patching(document)
    for operation in operations:
        patching.step(operation)
    return patching.root


class _Patching:
    """One patch under way; containers are copied once, before their first change."""

    def __init__(self, document: Json) -> None:
        self.root = dict(document)
        # The containers that may be changed, by identity; as values they stay alive, so that no id is used again.
        self._own: dict[int, object] = {id(self.root): self.root}
        self._bytes_copied = 0

    def step(self, operation: Json) -> None:
        match operation.get("op"):
            case "add":
                self._add(_path(operation), operation.get("value"))
            case "remove":
                self._remove(_path(operation))
            case "replace" if operation.get("path") == "" and isinstance(operation.get("value"), dict):
                self.root = dict(operation["value"])
                self._own[id(self.root)] = self.root
            case "test" if operation.get("path") == "":
                if not _equal(self.root, operation.get("value")):
                    raise PatchError("test of the whole document failed")
            case "replace":
                self._replace(_path(operation), operation.get("value"))
            case "test":
                self._test(_path(operation), operation.get("value"))
            case "move":
                source, target = _path(operation, "from"), _path(operation)
                value = self._get(source)
                self._remove(source)
                self._add(target, value)
            case "copy":
                value = self._copied(self._get(_path(operation, "from"), missing_is_null=True))
                self._add(_path(operation), value)
            case other:
                raise PatchError(f"unknown operation {str(other)[:40]!r}")

    def _copied(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        try:
            data = orjson.dumps(value)
        except orjson.JSONEncodeError as exc:
            raise PatchError("a value that can not be copied") from exc
        self._bytes_copied += len(data)
        if self._bytes_copied > MAX_COPIED:
            raise PatchError(f"more than {MAX_COPIED} bytes to copy")
        return orjson.loads(data)

    def _add(self, path: list[str], value: Any) -> None:  # noqa: ANN401 - JSON
        container, key = self._container(path, change=True), path[-1]
        if isinstance(container, list):
            if key == "-":
                container.append(value)
            else:
                container.insert(_index(key, len(container) + 1), value)
        else:
            container[key] = value

    def _replace(self, path: list[str], value: Any) -> None:  # noqa: ANN401 - JSON
        container, key = self._container(path, change=True), path[-1]
        if isinstance(container, list):
            container[_index(key, len(container))] = value
        else:
            container[key] = value

    def _remove(self, path: list[str]) -> None:
        container, key = self._container(path, change=True), path[-1]
        if isinstance(container, list):
            del container[_index(key, len(container))]
        elif key in container:
            del container[key]
        else:
            raise PatchError(f"nothing to remove at {key[:60]!r}")

    def _test(self, path: list[str], expected: Any) -> None:  # noqa: ANN401 - JSON
        if not _equal(self._get(path, missing_is_null=True), expected):
            raise PatchError(f"test failed at {path[-1][:60]!r}")

    def _get(self, path: list[str], *, missing_is_null: bool = False) -> Any:  # noqa: ANN401 - JSON
        container, key = self._container(path, change=False), path[-1]
        if isinstance(container, list):
            return container[_index(key, len(container))]
        if key not in container and not missing_is_null:
            raise PatchError(f"nothing at {key[:60]!r}")
        return container.get(key)

    def _container(self, path: list[str], *, change: bool) -> Any:  # noqa: ANN401 - JSON
        """The container that ``path`` ends in; with ``change`` it and those around it are this patch's own."""
        current: Any = self.root
        for key in path[:-1]:
            at: Any = key
            if isinstance(current, list):
                at = _index(key, len(current))
            elif key not in current:
                raise PatchError(f"nothing at {key[:60]!r}")
            inner = current[at]
            if not isinstance(inner, (dict, list)):
                raise PatchError(f"no container at {key[:60]!r}")
            if change and id(inner) not in self._own:
                inner = dict(inner) if isinstance(inner, dict) else list(inner)
                current[at] = inner
                self._own[id(inner)] = inner
            current = inner
        return current


def _path(operation: Json, member: str = "path") -> list[str]:
    path = operation.get(member)
    if not isinstance(path, str) or "/" not in path:
        raise PatchError(f"no usable {member!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _index(key: str, length: int) -> int:
    """The position that ``key`` names among ``length``; a negative one counts from the end."""
    if _NUMBER.fullmatch(key) is None:
        raise PatchError(f"not an index: {key[:60]!r}")
    index = int(key)
    if not -length <= index < length:
        raise PatchError(f"no item {key[:60]!r} in a list of {length}")
    return index % length


def _equal(left: Any, right: Any) -> bool:  # noqa: ANN401 - JSON
    # Python takes True for 1; JSON does not.
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)
