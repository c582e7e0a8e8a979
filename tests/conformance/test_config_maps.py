"""ConfigMaps: keys, sizes, immutability, and metadata that is not valid."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.speaking import JSON_PATCH, MERGE, Api

LIMIT = 1024 * 1024
TOO_LONG = "Too long: may not be more than 1048576 bytes"
CONFIG_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
QUALIFIED = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def wrong(field: str, value: str, problem: str) -> tuple[str, str, str]:
    """A cause about a value."""
    return field, "FieldValueInvalid", f'Invalid value: "{value}": {problem}'


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ({"data": {"n": 1}}, MERGE),
        ({"data": {"n": [1]}}, MERGE),
        ({"data": "text"}, MERGE),
        ({"immutable": "x"}, MERGE),
        ({"binaryData": {"y": "!!"}}, MERGE),
        ({"metadata": {"labels": {"n": 1}}}, MERGE),
        ([{"op": "add", "path": "/data/n", "value": 1}], JSON_PATCH),
    ],
    ids=["number", "list", "text as data", "text as switch", "no base64", "label", "JSON patch"],
)
async def test_a_patch_to_another_type_shows_the_whole_object(kube: Api, body: Any, content_type: str) -> None:
    """A value of another type is a 422 whose one cause, about ``patch``, quotes the object that would result."""
    await kube.config_map("a", data={"x": "a-value-that-is-shown"})
    answer = await kube.ask("PATCH", kube.path("configmaps", "a"), body, content_type=content_type)
    assert answer.code_and_reason == (422, "Invalid")
    ((field, reason, message),) = answer.causes
    assert (field, reason) == ("patch", "FieldValueInvalid")
    assert message.startswith(r'Invalid value: "{\"apiVersion\":\"v1\",')
    assert "a-value-that-is-shown" in message or "data" in str(body)
    assert answer.message == f' "" is invalid: patch: {message}'
    assert set(answer.json["details"]) == {"causes"}


@pytest.mark.parametrize(
    ("patch", "ending"),
    [
        ({"data": {"n": 1}}, "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"),
        ({"data": "x"}, "json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string"),
        ({"immutable": "x"}, "json: cannot unmarshal string into Go struct field ConfigMap.immutable of type bool"),
        ({"binaryData": {"y": "!!"}}, "illegal base64 data at input byte 0"),
        (
            {"metadata": {"labels": {"n": True}}},
            "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            {"metadata": {"creationTimestamp": "soon"}},
            'parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006"',
        ),
        (
            {"apiVersion": "v2"},
            'no kind "ConfigMap" is registered for version "v2" in scheme "pkg/runtime/scheme.go:111"',
        ),
    ],
    ids=["number", "text", "switch", "base64", "label", "time", "version"],
)
async def test_a_patch_to_another_type_says_which(kube: Api, patch: Any, ending: str) -> None:
    """After the object stands the sentence of Go's decoder."""
    await kube.config_map("a", data={"x": "1"})
    answer = await kube.merge(kube.path("configmaps", "a"), patch)
    assert answer.message.endswith(f'}}": {ending}')


async def test_values_count_to_the_byte_and_keys_do_not(kube: Api) -> None:
    """A ConfigMap holds 1,048,576 bytes of values; one more is a 422 about the field ``[]``."""
    await kube.config_map("a", data={"x": "1"})
    path = kube.path("configmaps", "a")
    assert (await kube.merge(path, {"data": {"y" * 253: "y" * (LIMIT - 1)}})).status == 200
    full = (await kube.get(path)).json
    answer = await kube.merge(path, {"data": {"z": "z"}})
    assert answer.code_and_reason == (422, "Invalid")
    assert answer.message == f'ConfigMap "a" is invalid: []: {TOO_LONG}'
    assert answer.causes == {("[]", "FieldValueTooLong", TOO_LONG)}
    assert answer.json["details"]["name"] == "a"
    assert (await kube.get(path)).json == full


async def test_values_count_in_utf8_and_binary_data_as_decoded(kube: Api) -> None:
    """A letter of two bytes counts twice, and base64 counts by what it stands for."""
    path = kube.path("configmaps")
    half = LIMIT // 2
    made = await kube.ask("POST", path, {"metadata": {"name": "a"}, "data": {"x": "ä" * half}})
    assert made.status == 201
    more = await kube.ask("POST", path, {"metadata": {"name": "b"}, "data": {"x": "ä" * half + "a"}})
    assert more.causes == {("[]", "FieldValueTooLong", TOO_LONG)}
    encoded = "AAAA" * (LIMIT // 3) + "AA=="
    assert (await kube.ask("POST", path, {"metadata": {"name": "c"}, "binaryData": {"x": encoded}})).status == 201


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("a b", CONFIG_KEY),
        ("a/b", CONFIG_KEY),
        ("", CONFIG_KEY),
        ("ä", CONFIG_KEY),
        (".", "must not be '.'"),
        ("..", "must not be '..'"),
        ("..a", "must not start with '..'"),
        ("x" * 254, "must be no more than 253 characters"),
    ],
)
async def test_keys_that_are_not_valid(kube: Api, key: str, problem: str) -> None:
    """A bad key is a 422 that names it."""
    answer = await kube.ask("POST", kube.path("configmaps"), {"metadata": {"name": "a"}, "data": {key: "1"}})
    assert answer.code_and_reason == (422, "Invalid")
    assert answer.causes == {wrong(f"data[{key}]", key, problem)}
    assert answer.message == f'ConfigMap "a" is invalid: data[{key}]: Invalid value: "{key}": {problem}'


async def test_several_causes_are_listed_together(kube: Api) -> None:
    """The message holds all causes in brackets, the details one entry for each."""
    body = {"metadata": {"name": "a"}, "data": {"b!": "", "x": "1"}, "binaryData": {"x": "eA=="}}
    answer = await kube.ask("POST", kube.path("configmaps"), body)
    assert answer.causes == {
        wrong("data[b!]", "b!", CONFIG_KEY),
        wrong("data[x]", "x", "duplicate of key present in binaryData"),
    }
    assert answer.message.startswith('ConfigMap "a" is invalid: [data[')
    assert answer.message.endswith("]")


async def test_keys_that_are_valid(kube: Api) -> None:
    """Letters, digits, dots, dashes and underscores make a key, up to 253 of them."""
    data = {".a": "1", "A_b-c.d": "2", "0": "3", "-": "4", "x" * 253: "5"}
    assert (await kube.config_map("a", data=data))["data"] == data


@pytest.mark.parametrize(
    ("patch", "fields"),
    [
        ({"data": {"x": "2"}}, ["data"]),
        ({"immutable": False}, ["immutable"]),
        ({"immutable": None, "data": None, "binaryData": {"y": "eA=="}}, ["immutable", "data", "binaryData"]),
    ],
    ids=["data", "switch", "all"],
)
async def test_an_immutable_config_map_stays(kube: Api, patch: Any, fields: list[str]) -> None:
    """Data of an immutable ConfigMap can not change, nor can it be made mutable; its metadata can change."""
    document = {"metadata": {"name": "a"}, "data": {"x": "1"}, "immutable": True}
    await kube.create(kube.path("configmaps"), document)
    path = kube.path("configmaps", "a")
    answer = await kube.merge(path, patch)
    assert answer.code_and_reason == (422, "Invalid")
    problem = "Forbidden: field is immutable when `immutable` is set"
    assert answer.causes == {(field, "FieldValueForbidden", problem) for field in fields}
    assert (await kube.merge(path, {"metadata": {"labels": {"a": "b"}}})).status == 200


@pytest.mark.parametrize(
    ("metadata", "cause"),
    [
        ({"name": "Bad"}, wrong("metadata.name", "Bad", SUBDOMAIN)),
        ({"name": "a-"}, wrong("metadata.name", "a-", SUBDOMAIN)),
        ({"name": "ä"}, wrong("metadata.name", "ä", SUBDOMAIN)),
        ({"name": "x" * 254}, wrong("metadata.name", "x" * 254, "must be no more than 253 characters")),
        ({}, ("metadata.name", "FieldValueRequired", "Required value: name or generateName is required")),
        ({"name": "a", "labels": {"b c": ""}}, wrong("metadata.labels", "b c", f"name part {QUALIFIED}")),
        ({"name": "a", "labels": {"b": "c!"}}, wrong("metadata.labels", "c!", LABEL_VALUE)),
        ({"name": "a", "labels": {"b": "c" * 64}},
         wrong("metadata.labels", "c" * 64, "must be no more than 63 bytes")),
        ({"name": "a", "labels": {"/b": ""}}, wrong("metadata.labels", "/b", "prefix part must be non-empty")),
        ({"name": "a", "labels": {"A/b": ""}}, wrong("metadata.labels", "A/b", f"prefix part {SUBDOMAIN}")),
        ({"name": "a", "labels": {"a/b/c": ""}},
         wrong("metadata.labels", "a/b/c", f"a valid label key {QUALIFIED} with an optional DNS subdomain prefix and '/' "
               "(e.g. 'example.com/MyName')")),
        ({"name": "a", "annotations": {"b c": ""}}, wrong("metadata.annotations", "b c", f"name part {QUALIFIED}")),
        ({"name": "a", "annotations": {"b": "x" * 262_144}},
         ("metadata.annotations", "FieldValueTooLong", "Too long: may not be more than 262144 bytes")),
        ({"name": "a", "finalizers": ["x"]},
         wrong("metadata.finalizers[0]", "x", "name is neither a standard finalizer name nor is it fully qualified")),
        ({"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n"}]},
         wrong("metadata.ownerReferences.uid", "", "must not be empty")),
        ({"name": "a", "ownerReferences": [{"kind": "Node", "name": "n", "uid": "u"}]},
         wrong("metadata.ownerReferences.apiVersion", "", "version must not be empty")),
    ],
)  # fmt: skip
async def test_metadata_that_is_not_valid(kube: Api, metadata: Any, cause: tuple[str, str, str]) -> None:
    """Bad names, labels, annotations, finalizers and owners are refused with kube-apiserver's sentences."""
    answer = await kube.ask("POST", kube.path("configmaps"), {"metadata": metadata})
    assert answer.code_and_reason == (422, "Invalid")
    assert answer.causes == {cause}
    name = metadata.get("name", "")
    assert answer.message == f'ConfigMap "{name}" is invalid: {cause[0]}: {cause[2]}'
    assert answer.json["details"].get("name", "") == name
    assert answer.json["details"]["kind"] == "ConfigMap"


async def test_an_update_is_checked_as_a_creation_is(kube: Api) -> None:
    """A patch can not make metadata invalid that was valid."""
    await kube.config_map("a")
    patch = {"metadata": {"labels": {"b": "c!"}, "finalizers": ["x"]}, "data": {"b!": ""}}
    answer = await kube.merge(kube.path("configmaps", "a"), patch)
    assert answer.causes == {
        wrong("metadata.labels", "c!", LABEL_VALUE),
        wrong("metadata.finalizers[0]", "x", "name is neither a standard finalizer name nor is it fully qualified"),
        wrong("data[b!]", "b!", CONFIG_KEY),
    }


async def test_only_one_owner_can_be_the_controller(kube: Api) -> None:
    """Two controllers are a 422 that shows both."""
    owners = [
        {"apiVersion": "v1", "kind": "Node", "name": name, "uid": name, "controller": True} for name in ("x", "y")
    ]
    answer = await kube.ask("POST", kube.path("configmaps"), {"metadata": {"name": "a", "ownerReferences": owners}})
    ((field, reason, message),) = answer.causes
    assert (field, reason) == ("metadata.ownerReferences", "FieldValueInvalid")
    assert message.endswith(
        'Only one reference can have Controller set to true. Found "true" in references for Node/x and Node/y'
    )


async def test_a_namespace_has_a_narrower_name(kube: Api) -> None:
    """A namespace's name has no dots."""
    answer = await kube.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "a.b"}})
    assert answer.causes == {wrong("metadata.name", "a.b", "must not contain dots")}
    assert answer.message.startswith('Namespace "a.b" is invalid: ')
