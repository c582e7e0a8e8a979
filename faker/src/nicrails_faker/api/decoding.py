"""From a request's body to an object or a patch, or to the refusal that the server would give."""

from __future__ import annotations

from typing import Any

from nicrails_faker.api import gojson, schema, status
from nicrails_faker.api.options import Call
from nicrails_faker.api.patches import MAX_OPERATIONS
from nicrails_faker.api.resources import Resource

Json = dict[str, Any]

MAX_BODY = 3 * 1024 * 1024
"""Bytes of a request's body; kube-apiserver's default."""

_SCHEME = 'in scheme "pkg/runtime/scheme.go:111"'
_OPERATION = schema.part("jsonPatchOp", schema.texts("op", "path", "from"))


def document(body: bytes, resource: Resource) -> Json:
    """The JSON object of a create or update request.

    Raises:
        StatusError: 400; it is no JSON object, or one of another kind.
    """
    prefix = f"the object provided is unrecognized (must be of type {resource.kind}): couldn't get version/kind; "
    try:
        value = gojson.loads(body)
        problem = gojson.type_problem(value)
    except gojson.JsonError as exc:
        value, problem = None, str(exc)
    if problem:
        raise status.bad_request(f"{prefix}json parse error: {problem} ({gojson.summary(body)})")
    found: Json = value or {}
    _check_kind(found.get("apiVersion") or resource.api_version, found.get("kind") or resource.kind, resource)
    return found


def typed(value: Json, resource: Resource, call: Call) -> Json:
    """The object as its kind has it; warns of fields that were dropped.

    Raises:
        DecodeError: A field is of another type, or unknown and the client wants that refused.
    """
    at = schema.Decoding(struct=resource.kind)
    decoded = resource.shape.decode(value, at)
    if at.unknown and call.field_validation != "Ignore":
        sentences = [f'unknown field "{name}"' for name in at.unknown]
        if call.field_validation == "Strict":
            raise schema.DecodeError(f"strict decoding error: {', '.join(sentences)}")
        call.warnings += sentences
    # Kind and version come first: negotiation counts on it.
    head = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": decoded.get("metadata", {})}
    return {**head, **{name: item for name, item in decoded.items() if name not in head}}


def merge_patch(body: bytes) -> Json:
    """The body of a merge patch request.

    Raises:
        StatusError: 400.
    """
    value = _patch(body, "error decoding patch: ")
    if value is None:
        raise status.bad_request("Invalid JSON Patch")
    if not isinstance(value, dict):
        raise status.bad_request(f"error decoding patch: {_not_a_map(value)}")
    return value


def strategic_patch(body: bytes) -> Json:
    """The body of a strategic merge patch request.

    Raises:
        StatusError: 400.
    """
    value = _patch(body, "")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise status.bad_request(_not_a_map(value))
    return value


def json_patch(body: bytes) -> list[Json]:
    """The operations of a JSON patch request.

    Raises:
        StatusError: 400 or 413.
    """
    value = _patch(body, "error decoding patch: ")
    if value is None:
        return []
    if not isinstance(value, list):
        into = "Go value of type []handlers.jsonPatchOp"
        raise status.bad_request(f"error decoding patch: json: cannot unmarshal {gojson.type_name(value)} into {into}")
    if len(value) > MAX_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(value)}"
        raise status.too_large(message)
    for operation in value:
        if operation is None:
            continue
        if not isinstance(operation, dict):
            into = "Go value of type handlers.jsonPatchOp"
            kind = gojson.type_name(operation)
            raise status.bad_request(f"error decoding patch: json: cannot unmarshal {kind} into {into}")
        try:
            _OPERATION.decode(
                {name: item for name, item in operation.items() if name in _OPERATION.fields},
                schema.Decoding(struct="jsonPatchOp"),
            )
        except schema.DecodeError as exc:
            raise status.bad_request(f"error decoding patch: {exc}") from exc
    return [operation or {} for operation in value]


def check_kind_kept(wanted: Json, resource: Resource) -> None:
    """Refuse a patch that makes another kind of the object.

    Raises:
        DecodeError: It does.
    """
    if (wanted["apiVersion"], wanted["kind"]) != (resource.api_version, resource.kind):
        raise schema.DecodeError(_unknown_kind(wanted["kind"], wanted["apiVersion"]))


def _unknown_kind(kind: object, version: object) -> str:
    return f'no kind "{kind}" is registered for version "{version}" {_SCHEME}'


def _check_kind(version: str, kind: str, resource: Resource) -> None:
    if (version, kind) == (resource.api_version, resource.kind):
        return
    short = version.rpartition("/")[2]
    problem = _unknown_kind(kind, version)
    if version in {"v1", "apps/v1"} and kind in _OTHER_KINDS:
        problem = f"converting (v1.{kind}) to ({resource.go_type}): unknown conversion"
    raise status.bad_request(f'{kind} in version "{short}" cannot be handled as a {resource.kind}: {problem}')


_OTHER_KINDS = frozenset(
    {"ConfigMap", "DaemonSet", "Deployment", "Event", "Namespace", "Node", "Pod", "Secret", "Service", "ServiceAccount"}
)


def _patch(body: bytes, prefix: str) -> Any:  # noqa: ANN401 - JSON
    try:
        return gojson.loads(body)
    except gojson.JsonError as exc:
        raise status.bad_request(f"{prefix}{exc}") from exc


def _not_a_map(value: object) -> str:
    return f"json: cannot unmarshal {gojson.type_name(value)} into Go value of type map[string]interface {{}}"
