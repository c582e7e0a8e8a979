"""What requests say beside the object: who writes, dry runs, preconditions, and what the server refuses about that.

Source: k8s.io/apimachinery, apis/meta/v1/validation; k8s.io/apiserver, pkg/endpoints/handlers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nicrails_faker.api import gojson, schema, status
from nicrails_faker.api.validation import forbidden, required, too_long, unsupported, wrong

Json = dict[str, Any]
Query = Mapping[str, str]

MAX_MANAGER = 128
POLICIES = ("Foreground", "Background", "Orphan")
APPLY_PATCH = "application/apply-patch+yaml"

_PRECONDITIONS = schema.struct("Preconditions", schema.texts("uid", "resourceVersion"))
_DELETE = schema.struct(
    "DeleteOptions",
    schema.texts("kind", "apiVersion", "propagationPolicy"),
    gracePeriodSeconds=schema.INT64_POINTER,
    preconditions=_PRECONDITIONS,
    orphanDependents=schema.FLAG_POINTER,
    dryRun=schema.ListOf(item=schema.TEXT, go="[]string"),
    ignoreStoreReadErrorWithClusterBreakingPotential=schema.FLAG_POINTER,
)


@dataclass(slots=True, kw_only=True)
class Call:
    """Whose request it is and how it wants to be treated.

    Attributes:
        manager: The field manager's name.
        dry_run: Nothing is stored.
        field_validation: ``Warn``, ``Ignore`` or ``Strict``: what becomes of unknown fields.
        warnings: Filled with what the client should be told besides the answer.
    """

    manager: str = "unknown"
    dry_run: bool = False
    field_validation: str = "Warn"
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """How to delete.

    Attributes:
        grace: Grace period in seconds, or None for the object's own.
        uid: The object must have this UID.
        revision: The object must have this resourceVersion.
        propagation: One of :data:`POLICIES`, or None for the default.
    """

    grace: int | None = None
    uid: str | None = None
    revision: str | None = None
    propagation: str | None = None


def call(kind: str, query: Query, user_agent: str, *, media_type: str = "") -> Call:
    """The options of a write.

    Args:
        kind: ``CreateOptions``, ``UpdateOptions`` or ``PatchOptions``.
        query: The request's.
        user_agent: The request's; the field manager by default.
        media_type: The patch's.

    Raises:
        StatusError: 422.
    """
    causes = list(_problems(query, media_type))
    if kind == "PatchOptions":
        causes += _patch_problems(query, media_type)
    if causes:
        raise status.invalid("meta.k8s.io", kind, "", causes)
    return Call(
        manager=query.get("fieldManager") or user_agent.partition("/")[0][:MAX_MANAGER] or "unknown",
        dry_run=query.get("dryRun") == "All",
        field_validation=query.get("fieldValidation") or "Warn",
    )


def deletion(query: Query, body: bytes) -> tuple[DeleteOptions, Call]:
    """The options of a deletion; the body's, or without one the query's.

    Raises:
        StatusError: 400 or 422.
    """
    given = _delete_body(body) if body else {}
    if not body:
        given = {name: query[name] for name in ("propagationPolicy",) if query.get(name)}
        if query.get("gracePeriodSeconds"):
            given["gracePeriodSeconds"] = integer(query["gracePeriodSeconds"])
        if query.get("dryRun"):
            given["dryRun"] = [query["dryRun"]]
    dry_run = given.get("dryRun", [])
    policy = given.get("propagationPolicy")
    causes = []
    if policy and "orphanDependents" in given:
        problem = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(wrong("propagationPolicy", policy, problem))
    if policy and policy not in POLICIES:
        causes.append(unsupported("propagationPolicy", policy, (*POLICIES, "nil")))
    if dry_run not in ([], ["All"]):
        causes.append(unsupported("dryRun", dry_run, ("All",)))
    if causes:
        raise status.invalid("meta.k8s.io", "DeleteOptions", "", causes)
    if given.get("orphanDependents"):
        policy = "Orphan"
    preconditions = given.get("preconditions", {})
    options = DeleteOptions(
        grace=given.get("gracePeriodSeconds"),
        uid=preconditions.get("uid"),
        revision=preconditions.get("resourceVersion"),
        propagation=policy,
    )
    return options, Call(dry_run=bool(dry_run) or query.get("dryRun") == "All")


def integer(text: str) -> int:
    """A number in a query; 0 if it is empty.

    Raises:
        StatusError: 400.
    """
    if text and re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII) is None:
        raise status.bad_request(status.not_a_number(text, "ParseInt"))
    return int(text or "0")


def flag(query: Query, name: str) -> bool:
    """A switch in a query, which is on unless it says ``0`` or ``false``."""
    return name in query and query[name].lower() not in {"0", "false"}


def _problems(query: Query, media_type: str) -> Iterator[status.Cause]:
    del media_type
    dry_run = query.get("dryRun", "")
    if dry_run and dry_run != "All":
        yield unsupported("dryRun", [dry_run], ("All",))
    manager = query.get("fieldManager", "")
    if len(manager.encode()) > MAX_MANAGER:
        yield too_long("fieldManager", MAX_MANAGER)
    for position, character in enumerate(manager):
        if not character.isprintable():
            yield wrong("fieldManager", manager, f"invalid character U+{ord(character):04X} (at position {position})")
    validation = query.get("fieldValidation", "")
    if validation not in {"", "Ignore", "Strict", "Warn"}:
        yield unsupported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn"))


def _patch_problems(query: Query, media_type: str) -> Iterator[status.Cause]:
    if media_type == APPLY_PATCH:
        if not query.get("fieldManager"):
            yield required("fieldManager", "is required for apply patch")
    elif "force" in query:
        yield forbidden("force", "may not be specified for non-apply patch")


def _delete_body(body: bytes) -> Json:
    try:
        value = gojson.loads(body)
        problem = gojson.type_problem(value)
    except gojson.JsonError as exc:
        value, problem = None, str(exc)
    if problem:
        raise status.bad_request(f"couldn't get version/kind; json parse error: {problem}")
    if value is None:
        return {}
    if value.get("kind") not in {None, "", "DeleteOptions"}:
        raise status.bad_request(
            f'no kind "{value["kind"]}" is registered for version "meta.k8s.io/v1" in scheme "pkg/runtime/scheme.go:111"'
        )
    try:
        decoded: Json = _DELETE.decode(value, schema.Decoding(struct="DeleteOptions"))
    except schema.DecodeError as exc:
        raise status.bad_request(str(exc)) from exc
    return decoded
