"""Objects at hand: the same operations as over HTTP, as plain calls."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from nicrails_faker.api import deletion, label_selectors
from nicrails_faker.api.operations import Operations
from nicrails_faker.api.options import Call, DeleteOptions
from nicrails_faker.api.patches import merge
from nicrails_faker.api.resources import Resource, Table
from nicrails_faker.api.store import Key, Store

Json = dict[str, Any]
JsonList = list[Json]


class Objects:
    """Access to the objects of a cluster from its own event loop; they go in and come out as copies.

    Args:
        operations: Does what is asked.
    """

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._store: Store = operations.store
        self._table: Table = operations.table

    def create(self, api_version: str, plural: str, document: Mapping[str, Any], *, namespace: str = "") -> Json:
        """Create an object.

        Args:
            api_version: ``v1`` or ``apps/v1``.
            plural: The resource: ``nodes``, ``configmaps``, ….
            document: The object; ``kind`` and ``apiVersion`` may be left out. Its status, which a client would have to
                write in a second step, is kept.
            namespace: Its namespace; by default the document's, else ``default``.

        Returns:
            The object as it is stored.

        Raises:
            StatusError: As over HTTP.
            KeyError: There is no such resource.
        """
        resource = self._table.named(api_version, plural)
        given = copy.deepcopy(dict(document))
        where = namespace or given.get("metadata", {}).get("namespace") or "default"
        state = given.get("status")
        stored = self._operations.create(resource, where if resource.namespaced else "", given, _call())
        if state and resource.status:
            stored = self._operations.patch(resource, stored.key, _merging({"status": state}), _call(), "status")
        return copy.deepcopy(stored.document)

    def get(self, api_version: str, plural: str, name: str, *, namespace: str = "") -> Json:
        """One object; the arguments are as for :meth:`create`.

        Raises:
            StatusError: 404.
            KeyError: There is no such resource.
        """
        resource = self._table.named(api_version, plural)
        return copy.deepcopy(self._operations.get(resource, _key(resource, namespace, name)).document)

    def update(self, api_version: str, plural: str, document: Mapping[str, Any], *, namespace: str = "") -> Json:
        """Replace an object, its status too if the document has one; the arguments are as for :meth:`create`.

        Raises:
            StatusError: As over HTTP.
            KeyError: There is no such resource.
        """
        resource = self._table.named(api_version, plural)
        given = copy.deepcopy(dict(document))
        meta = given.get("metadata", {})
        key = _key(resource, namespace or meta.get("namespace", ""), meta.get("name", ""))
        stored = self._operations.replace(resource, key, given, _call())
        if resource.status and "status" in given:
            state = given["status"]
            stored = self._operations.patch(resource, key, lambda now: {**now, "status": state}, _call(), "status")
        return copy.deepcopy(stored.document)

    def patch(
        self,
        api_version: str,
        plural: str,
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> Json:
        """Apply a merge patch; ``subresource`` may be ``status``.

        Raises:
            StatusError: As over HTTP.
            KeyError: There is no such resource.
        """
        resource = self._table.named(api_version, plural)
        change = _merging(copy.deepcopy(dict(patch)))
        stored = self._operations.patch(resource, _key(resource, namespace, name), change, _call(), subresource)
        return copy.deepcopy(stored.document)

    def delete(self, api_version: str, plural: str, name: str, *, namespace: str = "", grace: int = 0) -> None:
        """Delete an object; one with finalizers stays, marked.

        Args:
            api_version: As for :meth:`create`.
            plural: As for :meth:`create`.
            name: Its name.
            namespace: Its namespace; by default ``default``.
            grace: Seconds that a pod on a Node is given. There is no kubelet that would confirm its end: with a grace
                period it stays, terminating, until it is deleted with 0.

        Raises:
            StatusError: As over HTTP.
            KeyError: There is no such resource.
        """
        resource = self._table.named(api_version, plural)
        options = DeleteOptions(grace=grace)
        deletion.delete(self._operations, resource, _key(resource, namespace, name), options, _call())

    def list(self, api_version: str, plural: str, *, namespace: str = "", label_selector: str = "") -> JsonList:
        """All objects, in order.

        Args:
            api_version: As for :meth:`create`.
            plural: As for :meth:`create`.
            namespace: Only this one; empty: all.
            label_selector: Only those that it selects.

        Raises:
            SelectorError: It is no label selector.
            KeyError: There is no such resource.
        """
        selected = label_selectors.parse(label_selector)
        found = self._store.collection(self._table.named(api_version, plural)).current()
        return [
            copy.deepcopy(stored.document)
            for stored in found
            if namespace in {"", stored.key[0]} and selected(stored.document)
        ]

    @property
    def revision(self) -> int:
        """The revision of the last change."""
        return self._store.revision

    def compact(self) -> None:
        """Let nobody go on from before now: older watches and continue tokens get 410; open watches go on."""
        self._store.compact()


def _call() -> Call:
    return Call(manager="nicrails-faker")


def _key(resource: Resource, namespace: str, name: str) -> Key:
    return (namespace or "default") if resource.namespaced else "", name


def _merging(patch: Json) -> Callable[[Json], Json]:
    def change(document: Json) -> Json:
        merged: Json = merge(document, patch)
        return merged

    return change
