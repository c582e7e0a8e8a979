"""What an error of the API means for the operator, in one sentence; no I/O."""

from __future__ import annotations

from urllib.parse import unquote

from nicrails.kube import (
    ApiError,
    ForbiddenError,
    NotFoundError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
)

NAMESPACE_TERMINATING = "NamespaceTerminating"
"""The cause that the API server gives when it refuses to create in a namespace that is being deleted.

Source: ``NamespaceTerminatingCause`` in ``k8s.io/api/core/v1``.
"""

_VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}


def namespace_terminating(error: ApiError) -> bool:
    """Whether a request was refused since its namespace is being deleted."""
    return isinstance(error, ForbiddenError) and any(NAMESPACE_TERMINATING in cause for cause in error.causes)


def explain(error: ApiError) -> str:
    """One sentence: what failed, with what, and what to do."""
    if isinstance(error, ForbiddenError):
        return f"the observer may not {permission(error.request)}; grant it to its service account: {error}"
    if isinstance(error, UnauthorizedError):
        return (
            "the API server does not accept the observer's credentials, also after they were read again; "
            f"check its service account token: {error}"
        )
    if isinstance(error, TooManyRequestsError):
        return f"the API server is overloaded and asks to wait; it is tried again by itself: {error}"
    if isinstance(error, UnreachableError):
        return f"no usable answer from the API server; check that it runs and can be reached from this pod: {error}"
    if isinstance(error, NotFoundError):
        return f"what is asked for does not exist; check the namespace in POD_NAMESPACE: {error}"
    if error.causes:
        return f"the API server will not take this: {'; '.join(error.causes)}: {error}"
    return f"the API server failed; it is tried again by itself: {error}"


def permission(request: str) -> str:
    """The permission that a request needs, as RBAC names it.

    Args:
        request: As :class:`nicrails.kube.ApiError` has it: ``GET /api/v1/nodes?watch``.
    """
    method, _, target = request.partition(" ")
    path, _, query = target.partition("?")
    # /api/v1/… or /apis/<group>/<version>/…
    parts = [unquote(part) for part in path.strip("/").split("/")]
    group, rest = (parts[1], parts[3:]) if parts[0] == "apis" else ("", parts[2:])
    place = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        place, rest = f" in namespace {rest[1]}", rest[2:]
    resource = ".".join(filter(None, (rest[0] if rest else path, group)))
    name = rest[1] if len(rest) > 1 else ""
    reading = "watch" if query.startswith("watch") else "get" if name else "list"
    verb = _VERBS.get(method, reading)
    return f"{verb} {resource}{f' {name}' if name else ''}{place}"
