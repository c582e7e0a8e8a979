"""Create, read, update and patch: what the API server does between HTTP and its store.

Every method is one step in the event loop, so requests never see each other half done.

Source: k8s.io/apiserver, pkg/registry/rest and pkg/registry/generic/registry/store.go.
"""

from __future__ import annotations

import datetime
import random
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from nicrails_faker.api import decoding, defaults, gojson, managed, rules, schema, status, validation
from nicrails_faker.api.options import Call
from nicrails_faker.api.resources import Resource, Table
from nicrails_faker.api.store import Key, NotStorableError, Store, Stored

Json = dict[str, Any]
Change = Callable[[Json], Json]
"""From the current document to the wanted one. Pure; raises ``StatusError`` to refuse."""

_NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_MAX_PREFIX = 63 - 5
_MISPLACED = "the namespace of the provided object does not match the namespace sent on the request"
_STORAGE_NAMES = {"nodes": "minions"}
"""Where the path in etcd, which one message shows, is not the plural."""


def utc_now() -> datetime.datetime:
    """The wall clock."""
    return datetime.datetime.now(datetime.UTC)


class Operations:
    """All that changes objects but deletion.

    Args:
        store: Where they are.
        table: The resources.
        now: The wall clock, for timestamps alone.
        seed: For UIDs and generated names, which are the same in every run of one seed; None: they differ.
    """

    def __init__(
        self,
        store: Store,
        table: Table,
        *,
        now: Callable[[], datetime.datetime] = utc_now,
        seed: int | None = None,
    ) -> None:
        self.store = store
        self.table = table
        self.now = now
        self._random = random.Random(seed)  # noqa: S311 - names, no secrets
        self._namespaces = table.of_kind("v1", "Namespace")
        self._accounts = table.of_kind("v1", "ServiceAccount")

    def get(self, resource: Resource, key: Key) -> Stored:
        """The current object.

        Raises:
            StatusError: 404.
        """
        found = self.store.find(resource, key)
        if found is None:
            raise status.not_found(resource.subject, key[1])
        return found

    def create(self, resource: Resource, namespace: str, given: Json, call: Call) -> Stored:
        """Store a new object.

        Raises:
            StatusError: 400, 403, 404 (its namespace), 409 or 422.
        """
        document = self._decode(resource, given, call)
        meta = document["metadata"]
        if not resource.namespaced:
            meta.pop("namespace", None)
        elif meta.setdefault("namespace", namespace) != namespace:
            raise status.bad_request(_MISPLACED)
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            meta.pop(name, None)
        defaults.complete(resource.kind, document)
        version = meta.pop("resourceVersion", "")
        managed.update(resource.shape, None, document, self._writer(resource, call, ""), self.timestamp())
        self._admit(resource, namespace, document)
        self._identify(resource, namespace, meta)
        defaults.prepare_create(resource, document)
        causes = [*self._metadata_causes(resource, document), *rules.create(resource.kind, document)]
        self._refuse(resource, document, causes)
        if version:
            raise status.internal("resourceVersion should not be set on objects to be created")
        key = (namespace if resource.namespaced else "", meta["name"])
        if self.store.find(resource, key) is not None:
            raise status.already_exists(resource.subject, meta["name"])
        stored = self._store(resource, key, document, call)
        if resource is self._namespaces and self._accounts is not None and not call.dry_run:
            # The controller that makes it is taken to be very fast.
            account = {"metadata": {"name": "default"}}
            self.create(self._accounts, meta["name"], account, Call(manager="kube-controller-manager"))
        return stored

    def replace(self, resource: Resource, key: Key, given: Json, call: Call, subresource: str = "") -> Stored:
        """Put a whole object in the place of the current one.

        Raises:
            StatusError: 400, 404, 409 or 422.
        """
        document = self._decode(resource, given, call)
        self._check_identity(resource, key, document)
        current = self.get(resource, key)
        wanted, actual = document["metadata"].get("uid"), current.document["metadata"]["uid"]
        if wanted and wanted != actual:
            path = "/".join(filter(None, ("/registry", _STORAGE_NAMES.get(resource.plural, resource.plural), *key)))
            problem = (
                f"StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, AdditionalErrorMsg: "
                f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {actual}"
            )
            raise status.conflict(resource.subject, key[1], problem)
        return self._update(resource, current, document, call, subresource)

    def patch(self, resource: Resource, key: Key, change: Change, call: Call, subresource: str = "") -> Stored:
        """Change the current object.

        Args:
            resource: What it is an object of.
            key: Its key.
            change: From the current document to the wanted one.
            call: Whose request it is.
            subresource: ``status`` or empty.

        Raises:
            StatusError: 400, 404, 409 or 422.
        """
        current = self.get(resource, key)
        wanted = change(current.document)
        document: Json = {"metadata": {}}
        if "apiVersion" in wanted and "kind" in wanted:
            document = self._decode_patched(resource, wanted, call)
        self._check_identity(resource, key, document)
        return self._update(resource, current, document, call, subresource)

    def timestamp(self) -> str:
        """The current time as objects have it."""
        return f"{self.now():%Y-%m-%dT%H:%M:%SZ}"

    # --- steps ------------------------------------------------------------------------------------------------------

    @staticmethod
    def _decode(resource: Resource, given: Json, call: Call) -> Json:
        try:
            return decoding.typed(given, resource, call)
        except schema.DecodeError as exc:
            kind = given.get("kind") or resource.kind
            raise status.bad_request(
                f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {exc}'
            ) from exc

    @staticmethod
    def _decode_patched(resource: Resource, wanted: Json, call: Call) -> Json:
        try:
            decoding.check_kind_kept(wanted, resource)
            return decoding.typed(wanted, resource, call)
        except schema.DecodeError as exc:
            # The server shows the whole object here, quoted.
            cause = status.Cause(
                reason="FieldValueInvalid", message=f"Invalid value: {gojson.shown(wanted)}: {exc}", field="patch"
            )
            raise status.invalid("", "", "", [cause]) from exc

    def _admit(self, resource: Resource, namespace: str, document: Json) -> None:
        name = document["metadata"].get("name", "")
        if resource.namespaced and self._namespaces is not None:
            found = self.get(self._namespaces, ("", namespace))
            if "deletionTimestamp" in found.document["metadata"]:
                raise _terminating(resource, name, namespace)
        defaults.admit(resource.kind, document)
        if resource.kind == "Pod" and self._accounts is not None:
            account = document["spec"]["serviceAccountName"]
            if self.store.find(self._accounts, (namespace, account)) is None:
                problem = (
                    f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found'
                )
                raise status.forbidden(resource.subject, name, problem)

    def _identify(self, resource: Resource, namespace: str, meta: Json) -> None:
        meta["uid"] = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        meta["creationTimestamp"] = self.timestamp()
        if not meta.get("name") and meta.get("generateName"):
            while True:
                meta["name"] = meta["generateName"][:_MAX_PREFIX] + "".join(self._random.choices(_NAME_LETTERS, k=5))
                if self.store.find(resource, (namespace if resource.namespaced else "", meta["name"])) is None:
                    return

    @staticmethod
    def _check_identity(resource: Resource, key: Key, document: Json) -> None:
        meta = document["metadata"]
        namespace, name = key
        given = meta.get("name")
        if not given:
            raise status.bad_request(
                f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
            )
        if given != name:
            raise status.bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")
        if not resource.namespaced:
            meta.pop("namespace", None)
        elif meta.setdefault("namespace", namespace) != namespace:
            raise status.bad_request(_MISPLACED)

    def _update(self, resource: Resource, current: Stored, document: Json, call: Call, subresource: str) -> Stored:
        before = current.document
        meta, old = document["metadata"], before["metadata"]
        version = meta.get("resourceVersion")
        if version:
            if not (version.isascii() and version.isdecimal()):
                raise status.internal(status.not_a_number(version))
            if version != old["resourceVersion"]:
                raise status.conflict(resource.subject, current.key[1], status.MODIFIED)
        meta["resourceVersion"] = old["resourceVersion"]
        meta["creationTimestamp"] = old["creationTimestamp"]
        for name in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
            if name in old:
                meta.setdefault(name, old[name])
        defaults.complete(resource.kind, document)
        defaults.prepare_update(resource, before, document, subresource)
        managed.update(resource.shape, before, document, self._writer(resource, call, subresource), self.timestamp())
        causes = [*validation.metadata_update(before, document), *self._metadata_causes(resource, document)]
        causes += rules.update(resource.kind, before, document)
        self._refuse(resource, document, causes)
        if document == before:
            return current
        if call.dry_run:
            return self._store(resource, current.key, document, call)
        if self._is_over(resource, meta):
            # The last finalizer is gone: the object goes without a further version, and the answer shows it as it
            # would have been.
            last = self._dry(current.key, document, current.revision)
            self.store.remove(resource, current.key)
            return last
        return self._store(resource, current.key, document, call)

    def _is_over(self, resource: Resource, meta: Json) -> bool:
        waits = resource is self._namespaces or meta.get("deletionGracePeriodSeconds", 0) > 0
        return "deletionTimestamp" in meta and not meta.get("finalizers") and not waits

    def _store(self, resource: Resource, key: Key, document: Json, call: Call) -> Stored:
        if call.dry_run:
            return self._dry(key, document, self.store.revision)
        try:
            return self.store.put(resource, key, document)
        except NotStorableError as exc:
            raise status.bad_request(f"the object can not be stored: {exc}") from exc

    @staticmethod
    def _dry(key: Key, document: Json, revision: int) -> Stored:
        try:
            return Stored(key, document, revision)
        except NotStorableError as exc:
            raise status.bad_request(f"the object can not be stored: {exc}") from exc

    @staticmethod
    def _metadata_causes(resource: Resource, document: Json) -> Iterable[status.Cause]:
        return validation.metadata(document, is_namespace=resource.kind == "Namespace")

    @staticmethod
    def _refuse(resource: Resource, document: Json, causes: list[status.Cause]) -> None:
        if causes:
            raise status.invalid(resource.group, resource.kind, document["metadata"].get("name", ""), causes)

    @staticmethod
    def _writer(resource: Resource, call: Call, subresource: str) -> managed.Writer:
        return managed.Writer(
            manager=call.manager,
            api_version=resource.api_version,
            subresource=subresource,
            resets="spec" if subresource == "status" else "status" if resource.status else "",
        )


def _terminating(resource: Resource, name: str, namespace: str) -> status.StatusError:
    problem = f"unable to create new content in namespace {namespace} because it is being terminated"
    refusal = status.forbidden(resource.subject, name, problem)
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    refusal.status["details"]["causes"] = [cause]
    return refusal
