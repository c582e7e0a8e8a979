"""The ``Status`` objects that a Kubernetes API server answers a refusal with.

The sentences and the fields that are present are those of kube-apiserver 1.36; ``tests/conformance`` compares them.
Source of the construction: k8s.io/apimachinery, pkg/api/errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One field that is wrong.

    Attributes:
        reason: ``FieldValueInvalid`` and the like.
        message: What is wrong, without the field: ``Invalid value: "x": …``.
        field: The field's path.
    """

    reason: str
    message: str
    field: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class StatusError(Exception):
    """A request is refused; carries the ``Status`` object to answer with.

    Attributes:
        code: The HTTP status.
        status: The ``Status`` object.
    """

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
        }
        if reason:
            self.status["reason"] = reason
        if details is not None:
            self.status["details"] = details
        self.status["code"] = code

    @property
    def reason(self) -> str:
        """The machine-readable reason, such as ``NotFound``; empty if there is none."""
        return str(self.status.get("reason", ""))

    @property
    def headers(self) -> dict[str, str]:
        """Headers that go with the status."""
        seconds = self.status.get("details", {}).get("retryAfterSeconds")
        return {} if seconds is None else {"Retry-After": str(seconds)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a refusal is about: a resource of a group."""

    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource

    def details(self, name: str = "") -> Json:
        """``details`` of a status about an object of this name."""
        return _details(name=name, group=self.group, kind=self.resource)


def not_found(subject: Subject, name: str) -> StatusError:
    """404: there is no such object."""
    return StatusError(404, "NotFound", f'{subject} "{name}" not found', subject.details(name))


def no_such_resource() -> StatusError:
    """404: the group has no such resource."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(subject: Subject, name: str) -> StatusError:
    """409: an object of this name is there."""
    return StatusError(409, "AlreadyExists", f'{subject} "{name}" already exists', subject.details(name))


def conflict(subject: Subject, name: str, problem: str) -> StatusError:
    """409: the object is not as the request takes it to be."""
    message = f'Operation cannot be fulfilled on {subject} "{name}": {problem}'
    return StatusError(409, "Conflict", message, subject.details(name))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
"""The problem of a conflict about an object's version."""


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> StatusError:
    """422: fields of the object are wrong.

    Args:
        group: The kind's API group.
        kind: The kind's name.
        name: The object's name.
        causes: What is wrong; at least one.
    """
    listed = ", ".join(map(str, causes))
    message = (
        f'{kind}{"." + group if group else ""} "{name}" is invalid: {listed if len(causes) == 1 else f"[{listed}]"}'
    )
    details = _details(name=name, group=group, kind=kind)
    details["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    return StatusError(422, "Invalid", message, details)


def unprocessable() -> StatusError:
    """422 without causes: a JSON patch does not apply, whatever the reason."""
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def bad_request(message: str) -> StatusError:
    """400."""
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """401: no valid token."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(subject: Subject, name: str, message: str) -> StatusError:
    """403; ``message`` says what is forbidden and to whom."""
    what = f'{subject} "{name}" is ' if name else f"{subject} is " if subject.resource else ""
    return StatusError(403, "Forbidden", f"{what}forbidden: {message}", subject.details(name))


def method_not_allowed() -> StatusError:
    """405: the resource has no such verb."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})


def not_acceptable(message: str, details: Json | None = None) -> StatusError:
    """406: no representation that the client would take."""
    return StatusError(406, "NotAcceptable", message, details)


def too_large(message: str) -> StatusError:
    """413: the request is larger than the server reads."""
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {message}")


def unsupported_media_type(message: str = "415: Unsupported Media Type", details: Json | None = None) -> StatusError:
    """415: a body of a type that this request can not have."""
    return StatusError(415, "UnsupportedMediaType", message, details)


def expired(message: str) -> StatusError:
    """410: the version that the client goes on from is no longer known; it must list again."""
    return StatusError(410, "Expired", message)


def version_too_large(wanted: int, current: int) -> StatusError:
    """504: the client asks for a version that is yet to come."""
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    return StatusError(504, "Timeout", f"Timeout: Too large resource version: {wanted}, current: {current}", details)


def internal(message: str) -> StatusError:
    """500 without a reason, as the server answers errors that it has no better word for."""
    return StatusError(500, "", message)


def not_a_number(text: str, function: str = "ParseUint") -> str:
    """Go's sentence about text that should be a number."""
    return f'strconv.{function}: parsing "{text}": invalid syntax'


def success(details: Json | None = None) -> Json:
    """The ``Status`` of a success that has no object to answer with."""
    status: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        status["details"] = details
    return status


def _details(*, name: str, group: str, kind: str) -> Json:
    present = {"name": name, "group": group, "kind": kind}
    return {key: value for key, value in present.items() if value}
