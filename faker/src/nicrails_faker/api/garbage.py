"""Owner garbage collection.

An object all of whose owners are gone is deleted; of an object with others left the references to gone owners are
removed; deletions with propagation ``Foreground`` and ``Orphan`` are completed.

Source: pkg/controller/garbagecollector of kubernetes.
"""

from __future__ import annotations

from typing import Any

from nicrails_faker.api import deletion
from nicrails_faker.api.operations import Change, Operations
from nicrails_faker.api.options import Call, DeleteOptions
from nicrails_faker.api.resources import Resource, Table
from nicrails_faker.api.status import StatusError
from nicrails_faker.api.store import Event, Key, Store

Json = dict[str, Any]
Target = tuple[tuple[str, str], Key]
"""The identity of a resource, and the key of an object of it."""


class GarbageCollector:
    """Knows who owns whom, and does what follows from a change.

    Args:
        operations: Changes objects.
        table: Resolves owners' kinds.
    """

    def __init__(self, operations: Operations, table: Table) -> None:
        self._operations = operations
        self._store: Store = operations.store
        self._table = table
        self._resources = {resource.identity: resource for resource in table.resources}
        self._dependents: dict[str, set[Target]] = {}

    def concerned(self, resource: Resource, event: Event) -> list[Target]:
        """Which objects have to be looked at after a change; keeps the books."""
        target = (resource.identity, event.stored.key)
        before = owners(event.previous.document) if event.previous else []
        after = [] if event.kind == "DELETED" else owners(event.stored.document)
        for owner in before:
            others = self._dependents.get(owner["uid"], set()) - {target}
            if others:
                self._dependents[owner["uid"]] = others
            else:
                self._dependents.pop(owner["uid"], None)
        for owner in after:
            self._dependents.setdefault(owner["uid"], set()).add(target)
        meta = event.stored.document["metadata"]
        if event.kind == "DELETED":
            # The dependents stay in the books: they are orphans, and each takes itself out when it goes.
            waiting = (self._owner(owner, event.stored.key[0]) for owner in before)
            return [*sorted(self._dependents.get(meta["uid"], ())), *filter(None, waiting)]
        return [target] if (after and after != before) or "deletionTimestamp" in meta else []

    def settle(self, target: Target) -> None:
        """Do what is due for an object, if it is still there."""
        identity, key = target
        resource = self._resources[identity]
        stored = self._store.find(resource, key)
        if stored is None:
            return
        finalizers = stored.document["metadata"].get("finalizers", ())
        try:
            if "deletionTimestamp" not in stored.document["metadata"]:
                self._collect(resource, key, stored.document)
            elif "orphan" in finalizers:
                self._orphan(resource, key, stored.document["metadata"]["uid"])
            elif "foregroundDeletion" in finalizers:
                self._delete_dependents(resource, key, stored.document["metadata"]["uid"])
        except StatusError:
            # Somebody was faster; their change is an event of its own, and comes here again.
            return

    def _collect(self, resource: Resource, key: Key, document: Json) -> None:
        present = owners(document)
        solid = [owner for owner in present if self._exists(resource, owner, key[0])]
        if len(solid) == len(present):
            return
        if solid:
            self._operations.patch(resource, key, _with_owners(solid), _call())
            return
        finalizers = document["metadata"].get("finalizers", ())
        policies = (policy for policy, name in deletion.PROPAGATION_FINALIZERS.items() if name in finalizers)
        options = DeleteOptions(uid=document["metadata"]["uid"], propagation=next(policies, "Background"))
        deletion.delete(self._operations, resource, key, options, _call())

    def _exists(self, resource: Resource, owner: Json, namespace: str) -> bool:
        kind = self._table.of_kind(owner["apiVersion"], owner["kind"])
        if kind is None or (kind.namespaced and not resource.namespaced):
            # What can not be looked up is taken to be there, as the real collector does.
            return True
        found = self._store.find(kind, (namespace if kind.namespaced else "", owner["name"]))
        return found is not None and found.document["metadata"]["uid"] == owner["uid"]

    def _owner(self, owner: Json, namespace: str) -> Target | None:
        resource = self._table.of_kind(owner["apiVersion"], owner["kind"])
        if resource is None:
            return None
        return resource.identity, (namespace if resource.namespaced else "", owner["name"])

    def _orphan(self, resource: Resource, key: Key, uid: str) -> None:
        for identity, dependent in sorted(self._dependents.get(uid, ())):
            kind = self._resources[identity]
            found = self._operations.get(kind, dependent).document
            rest = [owner for owner in owners(found) if owner["uid"] != uid]
            self._operations.patch(kind, dependent, _with_owners(rest), _call())
        self._operations.patch(resource, key, _without_finalizer("orphan"), _call())

    def _delete_dependents(self, resource: Resource, key: Key, uid: str) -> None:
        blocked = False
        for identity, dependent in sorted(self._dependents.get(uid, ())):
            kind = self._resources[identity]
            found = self._operations.get(kind, dependent).document
            gone = False
            if "deletionTimestamp" not in found["metadata"]:
                options = DeleteOptions(uid=found["metadata"]["uid"], propagation="Background")
                gone = deletion.delete(self._operations, kind, dependent, options, _call()).gone
            blocks = any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in owners(found))
            blocked = blocked or (blocks and not gone)
        if not blocked:
            self._operations.patch(resource, key, _without_finalizer("foregroundDeletion"), _call())


def owners(document: Json) -> list[Json]:
    """The owner references of an object."""
    found: list[Json] = document["metadata"].get("ownerReferences", [])
    return found


def _call() -> Call:
    return Call(manager="kube-controller-manager")


def _with_owners(wanted: list[Json]) -> Change:
    def change(document: Json) -> Json:
        return {**document, "metadata": {**document["metadata"], "ownerReferences": wanted}}

    return change


def _without_finalizer(name: str) -> Change:
    def change(document: Json) -> Json:
        rest = [finalizer for finalizer in document["metadata"].get("finalizers", ()) if finalizer != name]
        return {**document, "metadata": {**document["metadata"], "finalizers": rest}}

    return change
