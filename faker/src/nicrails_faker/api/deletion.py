"""Deletion: preconditions, finalizers, grace periods and propagation.

Source: k8s.io/apiserver, pkg/registry/rest/delete.go and pkg/registry/generic/registry/store.go.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from nicrails_faker.api import status
from nicrails_faker.api.operations import Operations
from nicrails_faker.api.options import Call, DeleteOptions
from nicrails_faker.api.resources import Resource
from nicrails_faker.api.store import Key, Stored

Json = dict[str, Any]

PROPAGATION_FINALIZERS = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}
"""The finalizers by which the garbage collector is asked for something."""

_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """What a deletion has done.

    Attributes:
        stored: The object's last or new state.
        gone: Whether it is gone, and not only marked.
    """

    stored: Stored
    gone: bool


def delete(operations: Operations, resource: Resource, key: Key, options: DeleteOptions, call: Call) -> Deleted:
    """Delete an object, or mark it if somebody has a say in it.

    Raises:
        StatusError: 403, 404 or 409.
    """
    if resource.kind == "Namespace" and key[1] in _IMMORTAL:
        raise status.forbidden(resource.subject, key[1], "this namespace may not be deleted")
    current = operations.get(resource, key)
    _check_preconditions(resource, current, options)
    meta = current.document["metadata"]
    finalizers = _finalizers(meta, options.propagation)
    grace = _grace(resource, current.document, options)
    marked = "deletionTimestamp" in meta
    if not finalizers and grace == 0 and resource.kind not in {"Namespace", "Pod"}:
        return Deleted(stored=current if call.dry_run else operations.store.remove(resource, key), gone=True)
    unchanged = finalizers == meta.get("finalizers", [])
    if marked and unchanged and (finalizers or grace) and grace >= meta.get("deletionGracePeriodSeconds", 0):
        return Deleted(stored=current, gone=False)
    if marked and resource.kind == "Namespace":
        return Deleted(stored=current, gone=False)
    document = _marked(operations, resource, current.document, finalizers, grace)
    if call.dry_run:
        return Deleted(stored=Stored(key, document, current.revision), gone=False)
    stored = operations.store.put(resource, key, document)
    if finalizers or grace or resource.kind == "Namespace":
        return Deleted(stored=stored, gone=False)
    return Deleted(stored=operations.store.remove(resource, key), gone=True)


def _check_preconditions(resource: Resource, current: Stored, options: DeleteOptions) -> None:
    meta = current.document["metadata"]
    # The server names the kind here, where every other conflict names the resource.
    subject = status.Subject(group=resource.group, resource=resource.kind)
    for label, wanted, actual, guess in (
        ("UID", options.uid, meta["uid"], "The object might have been deleted and then recreated"),
        ("ResourceVersion", options.revision, meta["resourceVersion"], "The object might have been modified"),
    ):
        if wanted is not None and wanted != actual:
            problem = f"the {label} in the precondition ({wanted}) does not match the {label} in record ({actual})."
            raise status.conflict(subject, current.key[1], f"{problem} {guess}")


def _finalizers(meta: Json, propagation: str | None) -> list[str]:
    present: list[str] = meta.get("finalizers", [])
    if propagation is None:
        return list(present)
    wanted = PROPAGATION_FINALIZERS.get(propagation)
    rest = [name for name in present if name not in PROPAGATION_FINALIZERS.values()]
    return [*rest, wanted] if wanted else rest


def _grace(resource: Resource, document: Json, options: DeleteOptions) -> int:
    if resource.kind != "Pod":
        return 0
    spec = document.get("spec", {})
    if not spec.get("nodeName") or document.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
        # Nobody runs it, so nobody has to be waited for.
        return 0
    grace = int(spec.get("terminationGracePeriodSeconds", 30)) if options.grace is None else options.grace
    return 1 if grace < 0 else grace


def _marked(operations: Operations, resource: Resource, before: Json, finalizers: list[str], grace: int) -> Json:
    meta = dict(before["metadata"])
    document = {**before, "metadata": meta}
    moment = operations.now() + datetime.timedelta(seconds=grace)
    if "generation" in meta and "deletionTimestamp" not in meta:
        meta["generation"] += 1
    meta["deletionTimestamp"] = f"{moment:%Y-%m-%dT%H:%M:%SZ}"
    if finalizers:
        meta["finalizers"] = finalizers
    if resource.kind == "Namespace":
        document["status"] = {**before.get("status", {}), "phase": "Terminating"}
    else:
        meta["deletionGracePeriodSeconds"] = grace
    return document
