"""The verbs of the API: from a request for a resource to its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from nicrails_faker.api import (
    decoding,
    deletion,
    field_selectors,
    label_selectors,
    listing,
    negotiation,
    options,
    patches,
    status,
    strategic,
    watching,
)
from nicrails_faker.api.label_selectors import Predicate
from nicrails_faker.api.negotiation import Form
from nicrails_faker.api.operations import Change, Operations
from nicrails_faker.api.options import Call
from nicrails_faker.api.requests import RequestInfo
from nicrails_faker.api.resources import Resource
from nicrails_faker.api.store import Key, Stored
from nicrails_faker.api.validation import forbidden

Json = dict[str, Any]

_MERGE_PATCH = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_PATCHES = frozenset({_MERGE_PATCH, _JSON_PATCH, _STRATEGIC_PATCH, options.APPLY_PATCH})
_RETURNED_WHEN_DELETED = frozenset({"Pod", "ServiceAccount"})
"""Kinds whose deletion is answered with the object and not with a Status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request for a resource.

    Attributes:
        info: What its line says.
        resource: The resource it is for.
        accept: Its ``Accept`` header.
        content_type: Its ``Content-Type`` header.
        user_agent: Its ``User-Agent`` header.
        body: Its body.
    """

    info: RequestInfo
    resource: Resource
    accept: str = ""
    content_type: str = ""
    user_agent: str = ""
    body: bytes = b""

    @property
    def namespace(self) -> str:
        """The namespace; empty for all, and for what has none."""
        return self.info.namespace if self.resource.namespaced else ""

    @property
    def key(self) -> Key:
        """The key of the object that is asked for."""
        return self.namespace, self.info.name

    @property
    def query(self) -> Mapping[str, str]:
        """Query parameters."""
        return self.info.query

    @property
    def media_type(self) -> str:
        """The type of the body without parameters."""
        return self.content_type.partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What to send.

    Attributes:
        code: HTTP status.
        body: JSON.
        warnings: What the client should be told besides.
    """

    code: int = 200
    body: bytes
    warnings: tuple[str, ...] = ()


class Endpoints:
    """All verbs of all resources but ``exec``, which is no resource.

    Args:
        operations: Reads and changes objects.
    """

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._store = operations.store
        self._verbs = {
            "get": self._get,
            "list": self._list,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    def resource(self, info: RequestInfo) -> Resource:
        """The resource that a request is for.

        Raises:
            StatusError: 404 or 405.
        """
        found = self._operations.table.find(info.group, info.version, info.resource)
        if found is None or (info.subresource and not _has(found, info.subresource)):
            raise status.no_such_resource()
        scoped = bool(info.namespace)
        single = bool(info.name) and info.verb not in {"list", "watch", "deletecollection"}
        if (scoped and not found.namespaced and found.kind != "Namespace") or (
            found.namespaced and single and not scoped
        ):
            raise status.no_such_resource()
        if not _allowed(info, found, single=single, scoped=scoped):
            raise status.method_not_allowed()
        return found

    def answer(self, asked: Asked) -> Answer:
        """Serve a request.

        Raises:
            StatusError: It is refused.
        """
        return self._verbs[asked.info.verb](asked)

    def watch(self, asked: Asked, bookmark_interval: float) -> watching.Watch:
        """Open a watch.

        Raises:
            StatusError: It is refused.
        """
        form = negotiation.of_watch(asked.accept)
        query = asked.query
        initial = options.flag(query, "sendInitialEvents")
        match = query.get("resourceVersionMatch", "")
        problem = ""
        if initial and match != "NotOlderThan":
            problem = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        elif match and not initial:
            problem = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        elif query.get("continue"):
            problem = "resourceVersionMatch is forbidden when continue is provided"
        if problem:
            raise listing.invalid_options(forbidden("resourceVersionMatch", problem))
        wanted = watching.WatchOptions(
            namespace=asked.namespace,
            revision=listing.parse_revision(query.get("resourceVersion", "")),
            selector=_selector(asked),
            bookmarks=options.flag(query, "allowWatchBookmarks"),
            initial_events=initial,
            timeout=options.integer(query.get("timeoutSeconds", "")) or watching.DEFAULT_TIMEOUT,
            bookmark_interval=bookmark_interval,
        )
        return watching.Watch(self._store, self._store.collection(asked.resource), form, wanted)

    # --- verbs ------------------------------------------------------------------------------------------------------

    def _get(self, asked: Asked) -> Answer:
        form = negotiation.of_object(asked.accept, asked.resource)
        revision = listing.parse_revision(asked.query.get("resourceVersion", ""))
        if revision > self._store.revision:
            raise status.version_too_large(revision, self._store.revision)
        return Answer(body=form.encode(self._operations.get(asked.resource, asked.key)))

    def _list(self, asked: Asked) -> Answer:
        form = negotiation.of_list(asked.accept, asked.resource)
        return _list_answer(form, asked.resource, self._page(asked))

    def _create(self, asked: Asked) -> Answer:
        form = negotiation.of_object(asked.accept, asked.resource)
        _check_media_type(asked)
        call = options.call("CreateOptions", asked.query, asked.user_agent)
        given = decoding.document(asked.body, asked.resource)
        stored = self._operations.create(asked.resource, asked.namespace, given, call)
        return _answer(form, stored, call, 201)

    def _update(self, asked: Asked) -> Answer:
        form = negotiation.of_object(asked.accept, asked.resource)
        _check_media_type(asked)
        call = options.call("UpdateOptions", asked.query, asked.user_agent)
        given = decoding.document(asked.body, asked.resource)
        stored = self._operations.replace(asked.resource, asked.key, given, call, asked.info.subresource)
        return _answer(form, stored, call)

    def _patch(self, asked: Asked) -> Answer:
        if asked.media_type not in _PATCHES:
            raise status.unsupported_media_type(details={})
        form = negotiation.of_object(asked.accept, asked.resource)
        call = options.call("PatchOptions", asked.query, asked.user_agent, media_type=asked.media_type)
        if asked.media_type == options.APPLY_PATCH:
            raise status.unsupported_media_type("server-side apply is not supported by the embedded API", details={})
        stored = self._operations.patch(asked.resource, asked.key, _change(asked), call, asked.info.subresource)
        return _answer(form, stored, call)

    def _delete(self, asked: Asked) -> Answer:
        negotiation.of_object(asked.accept, asked.resource)
        wanted, call = options.deletion(asked.query, asked.body)
        deleted = deletion.delete(self._operations, asked.resource, asked.key, wanted, call)
        if not deleted.gone or asked.resource.kind in _RETURNED_WHEN_DELETED:
            return Answer(body=deleted.stored.encoded())
        meta = deleted.stored.document["metadata"]
        details = {**asked.resource.subject.details(meta["name"]), "uid": meta["uid"]}
        return Answer(body=orjson.dumps(status.success(details)))

    def _delete_collection(self, asked: Asked) -> Answer:
        form = negotiation.of_list(asked.accept, asked.resource)
        wanted, call = options.deletion(asked.query, asked.body)
        page = self._page(asked)
        for stored in page.items:
            deletion.delete(self._operations, asked.resource, stored.key, wanted, call)
        return _list_answer(form, asked.resource, page)

    def _page(self, asked: Asked) -> listing.Page:
        query = asked.query
        wanted = listing.ListOptions(
            namespace=asked.namespace,
            limit=options.integer(query.get("limit", "")),
            token=query.get("continue", ""),
            revision=query.get("resourceVersion", ""),
            match=query.get("resourceVersionMatch", ""),
            selector=_selector(asked),
        )
        return listing.page(self._store, self._store.collection(asked.resource), wanted)


def _has(resource: Resource, subresource: str) -> bool:
    return (subresource == "status" and resource.status) or (subresource == "exec" and resource.kind == "Pod")


def _allowed(info: RequestInfo, resource: Resource, *, single: bool, scoped: bool) -> bool:
    if info.method == "HEAD" or (info.subresource != "exec" and info.verb not in resource.verbs):
        return False
    if info.subresource == "exec":
        return info.verb in {"get", "create"}
    if info.subresource:
        return info.verb in {"get", "update", "patch"}
    if single:
        return info.verb in {"get", "update", "patch", "delete"}
    if info.verb in {"create", "deletecollection"}:
        return scoped or not resource.namespaced
    return info.verb in {"list", "watch"}


def _check_media_type(asked: Asked) -> None:
    if asked.media_type not in {"", "application/json", "application/octet-stream"}:
        raise status.unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: application/json, "
            "application/yaml, application/vnd.kubernetes.protobuf"
        )


def _change(asked: Asked) -> Change:
    """The patch as a function; it is read when the object is found, for that is the order of refusals."""

    def merged(document: Json) -> Json:
        result: Json = patches.merge(document, decoding.merge_patch(asked.body))
        return result

    def strategically_merged(document: Json) -> Json:
        return strategic.merge(document, decoding.strategic_patch(asked.body), asked.resource.shape)

    def patched(document: Json) -> Json:
        try:
            return patches.apply(document, decoding.json_patch(asked.body))
        except patches.PatchError as exc:
            raise status.unprocessable() from exc

    return {_MERGE_PATCH: merged, _STRATEGIC_PATCH: strategically_merged, _JSON_PATCH: patched}[asked.media_type]


def _selector(asked: Asked) -> Predicate:
    try:
        by_label = label_selectors.parse(asked.query.get("labelSelector", ""))
        by_field = field_selectors.parse(asked.query.get("fieldSelector", ""), asked.resource)
    except label_selectors.SelectorError as exc:
        raise status.bad_request(str(exc)) from exc
    if by_label is label_selectors.everything:
        return by_field
    if by_field is label_selectors.everything:
        return by_label
    return lambda document: by_label(document) and by_field(document)


def _answer(form: Form, stored: Stored, call: Call, code: int = 200) -> Answer:
    return Answer(code=code, body=form.encode(stored), warnings=tuple(call.warnings))


def _list_answer(form: Form, resource: Resource, page: listing.Page) -> Answer:
    meta: Json = {"resourceVersion": str(page.revision)}
    if page.token:
        meta["continue"] = page.token
    if page.remaining is not None:
        meta["remainingItemCount"] = page.remaining
    head = orjson.dumps({**form.list_head(resource), "metadata": meta})
    items = b",".join([form.item(stored, resource) for stored in page.items])
    return Answer(body=b'%b,"items":[%b]}' % (head[:-1], items))
