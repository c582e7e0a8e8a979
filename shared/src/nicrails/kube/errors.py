"""What can go wrong between a service and the Kubernetes API, sorted by what a caller does about it."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson

from nicrails.text import excerpt


class ApiError(Exception):
    """The Kubernetes API did not do what was asked.

    Attributes:
        request: Method and path, such as ``PATCH /api/v1/namespaces/x/configmaps/y``.
        status: The HTTP status, or None when no answer came.
        reason: The machine-readable reason of the answer (``AlreadyExists``), or "".
        message: The server's or the network's words, cut and safe to print.
        retry_after: Seconds to wait at least before another try, where the server asked for it.
        outcome_unknown: A write may have been done all the same, so only an idempotent one may be repeated.
    """

    outcome_unknown = False

    def __init__(
        self,
        request: str,
        message: str,
        *,
        status: int | None = None,
        reason: str = "",
        retry_after: float | None = None,
        causes: tuple[str, ...] = (),
    ) -> None:
        code = f"{status} {reason or _phrase(status)}: " if status is not None else ""
        super().__init__(f"{request}: {code}{message}")
        self.request = request
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.causes = causes


class UnreachableError(ApiError):
    """No answer: refused, not resolved, timed out, cut, or a certificate that is not trusted."""

    outcome_unknown = True


class UnauthorizedError(ApiError):
    """401: the credentials are not (or no longer) valid, also after they were read again."""


class ForbiddenError(ApiError):
    """403: a Role or RoleBinding is missing, or the namespace is terminating."""


class NotFoundError(ApiError):
    """404: the object, or its namespace, does not exist."""


class ConflictError(ApiError):
    """409: the object exists already, or a precondition (UID) does not hold."""


class GoneError(ApiError):
    """410: the resourceVersion or the continue token has expired."""


class InvalidError(ApiError):
    """422: with causes a permanent validation error, without them a refused JSON Patch."""


class TooManyRequestsError(ApiError):
    """429: the request was not executed; wait for ``retry_after``."""


class ServerFaultError(ApiError):
    """5xx: the server failed; a write may have been done all the same."""

    outcome_unknown = True


_BY_STATUS: Mapping[int, type[ApiError]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
    429: TooManyRequestsError,
}


MAX_RETRY_AFTER = 300.0
"""Seconds: a server's word is honoured up to here; one wrong answer must not stop a service for hours."""


def error_from_answer(request: str, status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Sort an answer with an error status; its body may be a Status object, plain text or HTML."""
    document = _status_object(body)
    details = document.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    message = document.get("message")
    kind = _BY_STATUS.get(status) or (ServerFaultError if status >= 500 else ApiError)
    return kind(
        request,
        excerpt(message if isinstance(message, str) else body) or "no further words",
        status=status,
        reason=excerpt(str(document.get("reason", "")), 64),
        retry_after=_retry_after(headers, details),
        causes=tuple(
            excerpt(f"{cause.get('field', '')}: {cause.get('message', '')} ({cause.get('reason', '')})")
            for cause in (causes if isinstance(causes, list) else [])[:8]
            if isinstance(cause, dict)
        ),
    )


def _status_object(body: bytes) -> dict[str, Any]:
    # A 429 is plain text and a proxy's 503 is HTML, so an error body is JSON only if it looks and reads like it.
    if body.lstrip()[:1] != b"{":
        return {}
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}


def _retry_after(headers: Mapping[str, str], details: object) -> float | None:
    values = [headers.get("Retry-After", "")]
    if isinstance(details, dict):
        values.append(str(details.get("retryAfterSeconds", "")))
    seconds = [float(value) for value in values if value.isascii() and value.isdigit()]
    return min(max(seconds), MAX_RETRY_AFTER) if seconds else None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
