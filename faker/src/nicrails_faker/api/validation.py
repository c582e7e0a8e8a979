"""What the server refuses about an object's metadata, pure: an object in, causes out.

The real server checks metadata several times over and lists some causes twice or four times; here each is listed once.

Source: k8s.io/apimachinery, pkg/api/validation/objectmeta.go.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from nicrails_faker.api import gojson, names
from nicrails_faker.api.status import Cause

Json = dict[str, Any]

MAX_ANNOTATIONS = 256 * 1024
"""Bytes of all annotations, names and values."""

_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_OWNERS = "metadata.ownerReferences"


def required(field: str, message: str = "") -> Cause:
    """A field that must be there."""
    return Cause(
        reason="FieldValueRequired", message=f"Required value: {message}" if message else "Required value", field=field
    )


def wrong(field: str, value: object, message: str) -> Cause:
    """A field with a wrong value."""
    shown = gojson.quoted(value) if isinstance(value, str) else orjson.dumps(value).decode()
    return Cause(reason="FieldValueInvalid", message=f"Invalid value: {shown}: {message}", field=field)


def forbidden(field: str, message: str) -> Cause:
    """A field that must not be there, or not change."""
    return Cause(reason="FieldValueForbidden", message=f"Forbidden: {message}", field=field)


def too_long(field: str, limit: int) -> Cause:
    """A field of more bytes than allowed."""
    return Cause(reason="FieldValueTooLong", message=f"Too long: may not be more than {limit} bytes", field=field)


def unsupported(field: str, value: object, supported: Iterable[str]) -> Cause:
    """A field that has none of its possible values."""
    shown = gojson.quoted(value) if isinstance(value, str) else orjson.dumps(value).decode()
    listed = ", ".join(map(gojson.quoted, supported))
    message = f"Unsupported value: {shown}: supported values: {listed}"
    return Cause(reason="FieldValueNotSupported", message=message, field=field)


def metadata(document: Json, *, is_namespace: bool) -> Iterator[Cause]:
    """What is wrong with an object's metadata.

    Args:
        document: The object.
        is_namespace: Whether it is a Namespace, whose name has a narrower form.
    """
    meta = document["metadata"]
    form = names.namespace if is_namespace else names.subdomain
    prefix = meta.get("generateName", "")
    # A name is put after the prefix, so the prefix may end as no name may.
    for problem in form(f"{prefix[:-1]}a" if prefix.endswith("-") else prefix) if prefix else ():
        yield wrong("metadata.generateName", prefix, problem)
    name = meta.get("name", "")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    for problem in form(name) if name else ():
        yield wrong("metadata.name", name, problem)
    yield from labels(meta.get("labels", {}), "metadata.labels")
    yield from _annotations(meta.get("annotations", {}))
    yield from _owners(meta.get("ownerReferences", []))
    for index, finalizer in enumerate(meta.get("finalizers", ())):
        yield from _finalizer(finalizer, f"metadata.finalizers[{index}]")


def metadata_update(before: Json, after: Json) -> Iterator[Cause]:
    """Which metadata an update must not change but does."""
    old, new = before["metadata"], after["metadata"]
    if "deletionTimestamp" in old:
        added = [name for name in new.get("finalizers", ()) if name not in old.get("finalizers", ())]
        if added:
            listed = ", ".join(map(gojson.quoted, sorted(added)))
            problem = "no new finalizers can be added if the object is being deleted, found new finalizers"
            yield forbidden("metadata.finalizers", f"{problem} []string{{{listed}}}")
    for name in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if old.get(name) != new.get(name):
            yield wrong(f"metadata.{name}", new.get(name), "field is immutable")


def labels(given: Json, field: str) -> Iterator[Cause]:
    """What is wrong with labels."""
    for key, value in given.items():
        for problem in names.qualified_name(key):
            yield wrong(field, key, problem)
        for problem in names.label_value(value):
            yield wrong(field, value, problem)


def _annotations(given: Json) -> Iterator[Cause]:
    for key in given:
        for problem in names.qualified_name(key.lower()):
            yield wrong("metadata.annotations", key, problem)
    size = sum(len(text.encode()) for text in itertools.chain(given.keys(), given.values()))
    if size > MAX_ANNOTATIONS:
        yield too_long("metadata.annotations", MAX_ANNOTATIONS)


def _owners(owners: list[Json]) -> Iterator[Cause]:
    controllers: list[str] = []
    for owner in owners:
        version = owner.get("apiVersion", "")
        if not version.rpartition("/")[2]:
            yield wrong(f"{_OWNERS}.apiVersion", version, "version must not be empty")
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                yield wrong(f"{_OWNERS}.{name}", "", "must not be empty")
        if (version, owner.get("kind")) == ("v1", "Event"):
            yield wrong(_OWNERS, owner, "/v1, Kind=Event is disallowed from being an owner")
        if owner.get("controller") is True:
            controllers.append(f"{owner.get('kind')}/{owner.get('name')}")
    for other in controllers[1:]:
        problem = 'Only one reference can have Controller set to true. Found "true" in references for'
        yield wrong(_OWNERS, owners, f"{problem} {controllers[0]} and {other}")


def _finalizer(finalizer: str, field: str) -> Iterator[Cause]:
    problems = names.qualified_name(finalizer)
    for problem in problems:
        yield wrong(field, finalizer, problem)
    if not problems and "/" not in finalizer and finalizer not in _FINALIZERS:
        yield wrong(field, finalizer, "name is neither a standard finalizer name nor is it fully qualified")
