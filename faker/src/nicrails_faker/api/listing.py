"""Lists: consistent pages, and the tokens that go on from one to the next.

Source: k8s.io/apiserver, pkg/storage/continue.go and pkg/storage/cacher.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any

import orjson

from nicrails_faker.api import gojson, status
from nicrails_faker.api.label_selectors import Predicate, everything
from nicrails_faker.api.store import Collection, Store, Stored, path
from nicrails_faker.api.validation import forbidden, unsupported

Json = dict[str, Any]

_MATCH = "resourceVersionMatch"
_META = "meta.k8s.io/v1"
_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a list request gets.

    Attributes:
        revision: The revision that the whole list is of.
        items: The objects of this page.
        token: Goes on after this page; empty: there is nothing more.
        remaining: How many come after this page, if that is known.
    """

    revision: int
    items: list[Stored]
    token: str = ""
    remaining: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """What a list request asks for.

    Attributes:
        namespace: Only this one; empty: all.
        limit: Items in a page; 0 or less: all.
        token: The token of the page before.
        revision: ``resourceVersion``.
        match: ``resourceVersionMatch``.
        selector: Which objects.
    """

    namespace: str = ""
    limit: int = 0
    token: str = ""
    revision: str = ""
    match: str = ""
    selector: Predicate = everything


def page(store: Store, collection: Collection, options: ListOptions) -> Page:
    """One page of a list.

    Raises:
        StatusError: 400, 410, 422 or 504.
    """
    _check_match(options)
    start = ""
    if options.token:
        if options.revision not in {"", "0"}:
            raise status.bad_request("specifying resource version is not allowed when using continue")
        revision, start = _decode_token(options.token)
        revision = store.revision if revision < 0 else revision
    else:
        revision = _wanted_revision(store, options)
    objects = collection.at(revision)
    if objects is None:
        raise _expired(start)
    prefix = f"{options.namespace}/" if options.namespace else ""
    within = [stored for stored in objects if _is_within(stored, prefix, start)] if prefix or start else objects
    limit = 0 if options.revision == "0" else max(options.limit, 0)
    items: list[Stored] = []
    for number, stored in enumerate(within):
        if limit and len(items) == limit:
            # Whether any of the rest is selected is not looked at, so the last page of a selection may be empty.
            rest = len(within) - number
            return Page(
                revision=revision,
                items=items,
                token=_encode_token(revision, f"/{_name(items[-1]).removeprefix(prefix)}\0"),
                remaining=rest if options.selector is everything else None,
            )
        if options.selector(stored.document):
            items.append(stored)
    return Page(revision=revision, items=items)


def parse_revision(text: str) -> int:
    """A ``resourceVersion`` as a number; 0 if it is empty.

    Raises:
        StatusError: 500, as get and watch refuse it.
    """
    if text and not (text.isascii() and text.isdecimal()):
        raise status.internal(_not_a_revision(text))
    return int(text or "0")


def _name(stored: Stored) -> str:
    """``namespace/name``, or the name of what has no namespace."""
    return path(stored.key).lstrip("/")


def _is_within(stored: Stored, prefix: str, start: str) -> bool:
    name = _name(stored)
    return name.startswith(prefix) and name.removeprefix(prefix) >= start


def _wanted_revision(store: Store, options: ListOptions) -> int:
    text = options.revision
    if text and not (text.isascii() and text.isdecimal()):
        raise status.bad_request(f"invalid resource version: {_not_a_revision(text)}")
    number = int(text or "0")
    if number > store.revision:
        raise status.version_too_large(number, store.revision)
    exact = options.match == "Exact" or (not options.match and options.limit > 0)
    return number if exact and number else store.revision


def _check_match(options: ListOptions) -> None:
    match = options.match
    problem = ""
    if not match:
        return
    if options.token:
        problem = "resourceVersionMatch is forbidden when continue is provided"
    elif not options.revision:
        problem = "resourceVersionMatch is forbidden unless resourceVersion is provided"
    elif match == "Exact" and options.revision == "0":
        problem = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    if problem:
        raise invalid_options(forbidden(_MATCH, problem))
    if match not in {"Exact", "NotOlderThan"}:
        raise invalid_options(unsupported(_MATCH, match, ("Exact", "NotOlderThan", "")))


def invalid_options(cause: status.Cause) -> status.StatusError:
    """422: options of a list or watch do not go together."""
    return status.invalid("meta.k8s.io", "ListOptions", "", [cause])


def _not_a_revision(text: str) -> str:
    return f"resourceVersion: Invalid value: {gojson.quoted(text)}: {status.not_a_number(text)}"


def _encode_token(revision: int, start: str) -> str:
    data = orjson.dumps({"v": _META, "rv": revision, "start": start})
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode_token(token: str) -> tuple[int, str]:
    prefix = "invalid continue token: continue key is not valid: "
    try:
        data = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as exc:
        raise status.bad_request(f"{prefix}illegal base64 data") from exc
    try:
        value = gojson.loads(data)
    except gojson.JsonError as exc:
        raise status.bad_request(f"{prefix}{exc}") from exc
    match value:
        case {"v": str(version), "rv": int(revision), "start": str(start)} if version == _META and start and revision:
            return revision, start.removeprefix("/")
        case {"v": str(version)} if version != _META:
            raise status.bad_request(f"{prefix}server does not recognize this encoded version {gojson.quoted(version)}")
        case _:
            raise status.bad_request(f"{prefix}incorrect encoded start resourceVersion")


def _expired(start: str) -> status.StatusError:
    if not start:
        return status.expired("The resourceVersion for the provided list is too old.")
    refusal = status.expired(_EXPIRED)
    # The server offers to go on with what is there now.
    refusal.status["metadata"] = {"continue": _encode_token(-1, start)}
    return refusal
