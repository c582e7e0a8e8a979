"""``metadata.managedFields``: which client set which field last.

The server keeps these books for every object that had a field of its own when it was created, and shows them in every
answer, also in ``PartialObjectMetadata``: an API without them would answer with fewer bytes than a real one.

Source: k8s.io/apimachinery, pkg/util/managedfields; structured-merge-diff, merge/update.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nicrails_faker.api import comparison, schema
from nicrails_faker.api.comparison import FieldPath

Json = dict[str, Any]

MAX_MANAGERS = 10
"""How many update entries an object keeps; the oldest are merged."""

_METADATA = (
    "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
    "resourceVersion",
)  # fmt: skip
_NOBODYS: frozenset[FieldPath] = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",), *(("f:metadata", f"f:{name}") for name in _METADATA)}
)
"""Fields that no manager owns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Who writes, as the books name it.

    Attributes:
        manager: The ``fieldManager`` of the request, or what its User-Agent begins with.
        api_version: The version written in.
        subresource: The subresource written through, or empty.
        resets: A top-level field that can not be written this way, so is not owned by doing it; or empty.
    """

    manager: str
    api_version: str
    subresource: str = ""
    resets: str = ""


@dataclass(slots=True)
class _Entry:
    time: str
    paths: set[FieldPath]


_Identity = tuple[str, str, str, str]
"""Operation, manager, version and subresource."""
_Books = dict[_Identity, _Entry]


def update(shape: schema.Struct, before: Json | None, after: Json, writer: Writer, now: str) -> None:
    """Set ``after["metadata"]["managedFields"]`` as an update by ``writer`` leaves them, in place.

    Args:
        shape: The object's fields.
        before: The object before, or None if it is created.
        after: The object afterwards.
        writer: Who writes.
        now: The time of the entry, in RFC 3339.
    """
    given = after["metadata"].pop("managedFields", None)
    kept = None if before is None else before["metadata"].get("managedFields")
    books = _read(None if writer.subresource else given, kept)
    # An object whose books are empty is not tracked again: that is how a client gets rid of them.
    if books or before is None:
        _record(books, comparison.compare(shape, before or {}, after), writer, now)
        _merge_oldest(books)
    if books:
        after["metadata"]["managedFields"] = _encode(books)


def _read(given: list[Json] | None, kept: list[Json] | None) -> _Books:
    if given is not None:
        if given in ([], [{}]):
            return {}
        books = _decode(given)
        if books:
            return books
    return _decode(kept or [])


def _record(books: _Books, changes: comparison.Changes, writer: Writer, now: str) -> None:
    ignored = f"f:{writer.resets}"
    removed = {path for path in changes.removed if path[0] != ignored}
    written = {path for path in changes.written if path[0] != ignored}
    for identity, entry in list(books.items()):
        entry.paths -= removed
        entry.paths -= written
        if not entry.paths:
            del books[identity]
    owned = written - _NOBODYS
    if owned:
        identity = ("Update", writer.manager, writer.api_version, writer.subresource)
        before_this = books.get(identity)
        books[identity] = _Entry(now, owned | (before_this.paths if before_this else set()))


def _merge_oldest(books: _Books) -> None:
    updates = sorted((i for i in books if i[0] == "Update"), key=lambda i: (books[i].time, i))
    excess = len(updates) - MAX_MANAGERS
    first: dict[str, _Identity] = {}
    for identity in updates:
        if excess <= 0:
            return
        version = identity[2]
        bucket = ("Update", "ancient-changes", version, "")
        if version not in first:
            first[version] = identity
            continue
        if bucket not in books:
            books[bucket] = books.pop(first[version])
        merged = books.pop(identity)
        books[bucket] = _Entry(merged.time, books[bucket].paths | merged.paths)
        excess -= 1


# --- FieldsV1 -------------------------------------------------------------------------------------------------------


def _decode(entries: Iterable[Json]) -> _Books:
    books: _Books = {}
    for entry in entries:
        fields = entry.get("fieldsV1")
        if not isinstance(fields, dict) or not entry.get("operation"):
            return {}
        paths: set[FieldPath] = set()
        _collect(fields, (), paths)
        identity = (
            entry["operation"], entry.get("manager", ""), entry.get("apiVersion", ""), entry.get("subresource", ""),
        )  # fmt: skip
        books[identity] = _Entry(entry.get("time", ""), paths)
    return books


def _collect(tree: Json, path: FieldPath, paths: set[FieldPath]) -> None:
    for element, inner in tree.items():
        if element == ".":
            paths.add(path)
        elif isinstance(inner, dict) and inner:
            _collect(inner, (*path, element), paths)
        else:
            paths.add((*path, element))


def _encode(books: _Books) -> list[Json]:
    entries = []
    for (operation, manager, version, subresource), entry in sorted(
        books.items(), key=lambda item: (item[0][0], item[1].time, item[0])
    ):
        shown = {"manager": manager, "operation": operation, "apiVersion": version}
        if entry.time:
            shown["time"] = entry.time
        last = {"subresource": subresource} if subresource else {}
        entries.append({**shown, "fieldsType": "FieldsV1", "fieldsV1": _tree(entry.paths), **last})
    return entries


def _tree(paths: set[FieldPath]) -> Json:
    """The paths as a tree, where a member that has members of its own holds ``.``."""
    root: Json = {}
    for path in sorted(paths):
        node = root
        for depth, element in enumerate(path, 1):
            if element not in node:
                node[element] = {}
            node = node[element]
            if not node and depth < len(path) and path[:depth] in paths:
                node["."] = {}
    return root
