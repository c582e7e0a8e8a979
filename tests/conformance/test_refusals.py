"""Requests that make no sense, and the exact refusals they get."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.conformance.speaking import JSON, JSON_PATCH, MERGE, STRATEGIC, Api

NO_RESOURCE = "the server could not find the requested resource"
NO_METHOD = "the server does not allow this method on the requested resource"
UNRECOGNIZED = (
    "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: "
)
TYPE_META = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
AS_CONFIG_MAP = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
BODY_TYPES = (
    "the body of the request was in an unknown format - accepted media types include: application/json, "
    "application/yaml, application/vnd.kubernetes.protobuf"
)
CMS = "/api/v1/namespaces/{ns}/configmaps"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A request and its refusal; ``{ns}`` stands for the test's namespace."""

    id: str
    method: str = "POST"
    path: str = CMS
    body: Any = None
    content_type: str = JSON
    status: int
    reason: str | None = "BadRequest"
    message: str
    details: Any = "absent"


CASES = [
    # --- what is not there
    Case(id="get", method="GET", path=CMS + "/x", status=404, reason="NotFound", message='configmaps "x" not found',
         details={"name": "x", "kind": "configmaps"}),
    Case(id="delete", method="DELETE", path=CMS + "/x", status=404, reason="NotFound",
         message='configmaps "x" not found', details={"name": "x", "kind": "configmaps"}),
    Case(id="patch", method="PATCH", path=CMS + "/x", body={}, content_type=MERGE, status=404, reason="NotFound",
         message='configmaps "x" not found', details={"name": "x", "kind": "configmaps"}),
    Case(id="patch that can not be read", method="PATCH", path=CMS + "/x", body=b"{bad", content_type=MERGE, status=404,
         reason="NotFound", message='configmaps "x" not found', details={"name": "x", "kind": "configmaps"}),
    Case(id="replace", method="PUT", path=CMS + "/x", body={"metadata": {"name": "x"}}, status=404, reason="NotFound",
         message='configmaps "x" not found', details={"name": "x", "kind": "configmaps"}),
    Case(id="object of a group", method="GET", path="/apis/apps/v1/namespaces/{ns}/deployments/x", status=404,
         reason="NotFound", message='deployments.apps "x" not found',
         details={"name": "x", "group": "apps", "kind": "deployments"}),
    Case(id="resource", method="GET", path="/api/v1/nonsense", status=404, reason="NotFound", message=NO_RESOURCE,
         details={}),
    Case(id="version", method="GET", path="/api/v2/nodes", status=404, reason="NotFound", message=NO_RESOURCE,
         details={}),
    Case(id="version of a group", method="GET", path="/apis/apps/v1beta1/deployments", status=404, reason="NotFound",
         message=NO_RESOURCE, details={}),
    Case(id="subresource", method="GET", path=CMS + "/x/status", status=404, reason="NotFound", message=NO_RESOURCE,
         details={}),
    Case(id="path that is too deep", method="GET", path=CMS + "/x/y/z", status=404, reason="NotFound",
         message=NO_RESOURCE, details={}),
    Case(id="cluster-wide resource in a namespace", method="GET", path="/api/v1/namespaces/{ns}/nodes", status=404,
         reason="NotFound", message=NO_RESOURCE, details={}),
    Case(id="namespaced object without namespace", method="GET", path="/api/v1/configmaps/x", status=404,
         reason="NotFound", message=NO_RESOURCE, details={}),
    # --- methods
    Case(id="replace a collection", method="PUT", body={}, status=405, reason="MethodNotAllowed", message=NO_METHOD,
         details={}),
    Case(id="patch a collection", method="PATCH", body={}, content_type=MERGE, status=405, reason="MethodNotAllowed",
         message=NO_METHOD, details={}),
    Case(id="create at a name", path=CMS + "/x", body={}, status=405, reason="MethodNotAllowed", message=NO_METHOD,
         details={}),
    Case(id="create in all namespaces", path="/api/v1/configmaps", body={}, status=405, reason="MethodNotAllowed",
         message=NO_METHOD, details={}),
    Case(id="delete in all namespaces", method="DELETE", path="/api/v1/configmaps", status=405,
         reason="MethodNotAllowed", message=NO_METHOD, details={}),
    Case(id="delete all namespaces", method="DELETE", path="/api/v1/namespaces", status=405, reason="MethodNotAllowed",
         message=NO_METHOD, details={}),
    Case(id="options", method="OPTIONS", path=CMS + "/x", status=405, reason="MethodNotAllowed", message=NO_METHOD,
         details={}),
    # --- bodies
    Case(id="no body", body=b"", status=400, message=UNRECOGNIZED + "unexpected end of JSON input (<empty>)"),
    Case(id="broken object", body=b"{not json", status=400,
         message=UNRECOGNIZED + "invalid character 'n' looking for beginning of object key string ({not json)"),
    Case(id="cut object", body=b'{"metadata":{"name":"a"', status=400,
         message=UNRECOGNIZED + 'unexpected end of JSON input ({"metadata":{"name":"a")'),
    Case(id="trailing comma", body=b'{"metadata":{"name":"a"},}', status=400, message=UNRECOGNIZED
         + "invalid character '}' looking for beginning of object key string ({\"metadata\":{\"name\":\"a\"},})"),
    Case(id="trailing text", body=b'{"metadata":{"name":"a"}} trailing', status=400, message=UNRECOGNIZED
         + "invalid character 't' after top-level value ({\"metadata\":{\"name\":\"a\"}} trai ...)"),
    Case(id="list", body=[], status=400, message=UNRECOGNIZED
         + f"json: cannot unmarshal array into Go value of type {TYPE_META} (5b5d)"),
    Case(id="text", body="x", status=400, message=UNRECOGNIZED
         + f"json: cannot unmarshal string into Go value of type {TYPE_META} (227822)"),
    Case(id="number as kind", body=b'{"apiVersion": 1}', status=400, message=UNRECOGNIZED
         + 'json: cannot unmarshal number into Go struct field .apiVersion of type string ({"apiVersion": 1})'),
    Case(id="another kind", body={"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}, status=400,
         message='Node in version "v1" cannot be handled as a ConfigMap: converting (v1.Node) to (core.ConfigMap): '
         "unknown conversion"),
    Case(id="unknown kind", body={"apiVersion": "v1", "kind": "Nope", "metadata": {"name": "a"}}, status=400,
         message='Nope in version "v1" cannot be handled as a ConfigMap: no kind "Nope" is registered for version "v1" '
         'in scheme "pkg/runtime/scheme.go:111"'),
    Case(id="unknown version", body={"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "a"}}, status=400,
         message='ConfigMap in version "v2" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for '
         'version "v2" in scheme "pkg/runtime/scheme.go:111"'),
    Case(id="text as metadata", body={"metadata": "x"}, status=400, message=AS_CONFIG_MAP
         + "json: cannot unmarshal string into Go struct field ConfigMap.metadata of type v1.ObjectMeta"),
    Case(id="number as name", body={"metadata": {"name": 5}}, status=400, message=AS_CONFIG_MAP
         + "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string"),
    Case(id="number in data", body={"metadata": {"name": "a"}, "data": {"x": 1}}, status=400, message=AS_CONFIG_MAP
         + "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"),
    Case(id="list as data", body={"metadata": {"name": "a"}, "data": []}, status=400, message=AS_CONFIG_MAP
         + "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string"),
    Case(id="text as switch", body={"metadata": {"name": "a"}, "immutable": "x"}, status=400, message=AS_CONFIG_MAP
         + "json: cannot unmarshal string into Go struct field ConfigMap.immutable of type bool"),
    Case(id="no base64", body={"metadata": {"name": "a"}, "binaryData": {"x": "!!"}}, status=400,
         message=AS_CONFIG_MAP + "illegal base64 data at input byte 0"),
    Case(id="no time", body={"metadata": {"name": "a", "creationTimestamp": "soon"}}, status=400, message=AS_CONFIG_MAP
         + 'parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006"'),
    Case(id="other namespace", body={"metadata": {"name": "a", "namespace": "other"}}, status=400,
         message="the namespace of the provided object does not match the namespace sent on the request"),
    Case(id="body type", body=b"x", content_type="text/plain", status=415, reason="UnsupportedMediaType",
         message=BODY_TYPES),
    Case(id="body too large", body=b"x" * (3 * 1024 * 1024 + 1), status=413, reason="RequestEntityTooLarge",
         message="Request entity too large: limit is 3145728"),
    Case(id="with a version", body={"metadata": {"name": "a", "resourceVersion": "5"}}, status=500, reason=None,
         message="resourceVersion should not be set on objects to be created"),
    # --- names on the way in
    Case(id="replace without name", method="PUT", path=CMS + "/x", body={"metadata": {}}, status=400,
         message="the name of the object (x based on URL) was undeterminable: name must be provided"),
    Case(id="replace by another name", method="PUT", path=CMS + "/x", body={"metadata": {"name": "y"}}, status=400,
         message="the name of the object (y) does not match the name on the URL (x)"),
    # --- options
    Case(id="dry run", path=CMS + "?dryRun=Some", body={}, status=422, reason="Invalid",
         message='CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"',
         details={"group": "meta.k8s.io", "kind": "CreateOptions", "causes": [
             {"reason": "FieldValueNotSupported", "field": "dryRun",
              "message": 'Unsupported value: ["Some"]: supported values: "All"'}]}),
    Case(id="long field manager", path=CMS + "?fieldManager=" + "x" * 129, body={}, status=422, reason="Invalid",
         message='CreateOptions.meta.k8s.io "" is invalid: fieldManager: Too long: may not be more than 128 bytes',
         details={"group": "meta.k8s.io", "kind": "CreateOptions", "causes": [
             {"reason": "FieldValueTooLong", "field": "fieldManager",
              "message": "Too long: may not be more than 128 bytes"}]}),
    Case(id="field validation", path=CMS + "?fieldValidation=Some", body={}, status=422, reason="Invalid",
         message='CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Some": supported values: '
         '"", "Ignore", "Strict", "Warn"',
         details={"group": "meta.k8s.io", "kind": "CreateOptions", "causes": [
             {"reason": "FieldValueNotSupported", "field": "fieldValidation",
              "message": 'Unsupported value: "Some": supported values: "", "Ignore", "Strict", "Warn"'}]}),
    Case(id="forced merge patch", method="PATCH", path=CMS + "/x?force=true", body={}, content_type=MERGE, status=422,
         reason="Invalid", message='PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for '
         "non-apply patch",
         details={"group": "meta.k8s.io", "kind": "PatchOptions", "causes": [
             {"reason": "FieldValueForbidden", "field": "force",
              "message": "Forbidden: may not be specified for non-apply patch"}]}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
async def test_a_refusal_is_the_servers(kube: Api, case: Case) -> None:
    """Status, reason, message and details are to the letter those of kube-apiserver."""
    answer = await kube.ask(case.method, case.path.format(ns=kube.namespace), case.body, content_type=case.content_type)
    assert answer.code_and_reason == (case.status, case.reason)
    assert answer.message == case.message
    assert answer.json.get("details", "absent") == case.details
    assert {key: answer.json[key] for key in ("kind", "apiVersion", "metadata", "status", "code")} == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "code": case.status,
    }


ON_AN_OBJECT = [
    Case(id="merge patch: broken", body=b"{x", content_type=MERGE, status=400,
         message="error decoding patch: invalid character 'x' looking for beginning of object key string"),
    Case(id="merge patch: empty", body=b"", content_type=MERGE, status=400,
         message="error decoding patch: unexpected end of JSON input"),
    Case(id="merge patch: list", body=[], content_type=MERGE, status=400,
         message="error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
    Case(id="merge patch: number", body=1, content_type=MERGE, status=400,
         message="error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}"),
    Case(id="merge patch: null", body=b"null", content_type=MERGE, status=400, message="Invalid JSON Patch"),
    Case(id="merge patch: no metadata", body={"metadata": None}, content_type=MERGE, status=400,
         message="the name of the object (a based on URL) was undeterminable: name must be provided"),
    Case(id="merge patch: other name", body={"metadata": {"name": "b"}}, content_type=MERGE, status=400,
         message="the name of the object (b) does not match the name on the URL (a)"),
    Case(id="merge patch: other namespace", body={"metadata": {"namespace": "b"}}, content_type=MERGE, status=400,
         message="the namespace of the provided object does not match the namespace sent on the request"),
    Case(id="merge patch: no version", body={"metadata": {"resourceVersion": "abc"}}, content_type=MERGE, status=500,
         reason=None, message='strconv.ParseUint: parsing "abc": invalid syntax'),
    Case(id="JSON patch: object", body={"op": "add"}, content_type=JSON_PATCH, status=400,
         message="error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
    Case(id="JSON patch: broken", body=b"[nul]", content_type=JSON_PATCH, status=400,
         message="error decoding patch: invalid character ']' in literal null (expecting 'l')"),
    Case(id="JSON patch: cut", body=b'[{"op":"add"}', content_type=JSON_PATCH, status=400,
         message="error decoding patch: unexpected end of JSON input"),
    Case(id="JSON patch: number for an operation", body=[1], content_type=JSON_PATCH, status=400,
         message="error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
    Case(id="JSON patch: number for op", body=[{"op": 1}], content_type=JSON_PATCH, status=400,
         message="error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type "
         "string"),
    Case(id="JSON patch: number for path", body=[{"op": "add", "path": 5}], content_type=JSON_PATCH, status=400,
         message="error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.path of type "
         "string"),
    Case(id="JSON patch: 10,001 operations", body=[{"op": "test", "path": "/kind", "value": "ConfigMap"}] * 10_001,
         content_type=JSON_PATCH, status=413, reason="RequestEntityTooLarge",
         message="Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"),
    Case(id="JSON patch: other name", body=[{"op": "replace", "path": "/metadata/name", "value": "b"}],
         content_type=JSON_PATCH, status=400,
         message="the name of the object (b) does not match the name on the URL (a)"),
    Case(id="strategic merge patch: broken", body=b"{x", content_type=STRATEGIC, status=400,
         message="invalid character 'x' looking for beginning of object key string"),
    Case(id="strategic merge patch: list", body=[], content_type=STRATEGIC, status=400,
         message="json: cannot unmarshal array into Go value of type map[string]interface {}"),
    Case(id="patch as plain JSON", body={}, status=415, reason="UnsupportedMediaType",
         message="415: Unsupported Media Type", details={}),
    Case(id="patch of an unknown type", body={}, content_type="text/x", status=415, reason="UnsupportedMediaType",
         message="415: Unsupported Media Type", details={}),
]  # fmt: skip


@pytest.mark.parametrize("case", ON_AN_OBJECT, ids=[case.id for case in ON_AN_OBJECT])
async def test_a_refused_patch_changes_nothing(kube: Api, case: Case) -> None:
    """A patch that makes no sense gets kube-apiserver's refusal and leaves the object as it was."""
    made = await kube.config_map("a", data={"x": "1"})
    answer = await kube.ask("PATCH", kube.path("configmaps", "a"), case.body, content_type=case.content_type)
    assert answer.code_and_reason == (case.status, case.reason)
    assert answer.message == case.message
    assert answer.json.get("details", "absent") == case.details
    assert (await kube.get(kube.path("configmaps", "a"))).json == made


async def test_what_is_no_api_is_plain_text(kube: Api) -> None:
    """A path outside of all groups is a 404 in plain text."""
    for path in ("/nonsense", "/apis/nonsense/v1/things"):
        answer = await kube.get(path)
        assert (answer.status, answer.body) == (404, b"404 page not found\n")
        assert answer.headers["Content-Type"].startswith("text/plain")


async def test_head_is_not_served(kube: Api) -> None:
    """HEAD is a 405, of an object that is there too."""
    await kube.config_map("a")
    assert (await kube.ask("HEAD", kube.path("configmaps", "a"))).status == 405


async def test_an_object_can_be_created_once(kube: Api) -> None:
    """A second POST of a name is a 409 with reason AlreadyExists."""
    await kube.config_map("a")
    answer = await kube.ask("POST", kube.path("configmaps"), {"metadata": {"name": "a"}})
    assert answer.code_and_reason == (409, "AlreadyExists")
    assert answer.message == 'configmaps "a" already exists'
    assert answer.json["details"] == {"name": "a", "kind": "configmaps"}
    deployments = kube.path("deployments", group="apis/apps/v1")
    assert (await kube.get(deployments)).status == 200
