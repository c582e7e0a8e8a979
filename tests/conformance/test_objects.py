"""Creating, reading and replacing objects."""

from __future__ import annotations

import re

import pytest

from tests.conformance.speaking import Api, object_of

UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


async def test_create_fills_in_what_the_server_knows(kube: Api) -> None:
    """A created object comes back with kind, UID, version, time and namespace, and reads the same."""
    answer = await kube.ask("POST", kube.path("configmaps"), {"metadata": {"name": "a"}, "data": {"x": "1"}})
    assert answer.status == 201
    made = answer.json
    assert (made["kind"], made["apiVersion"], made["data"]) == ("ConfigMap", "v1", {"x": "1"})
    meta = made["metadata"]
    assert (meta["name"], meta["namespace"]) == ("a", kube.namespace)
    assert UID.fullmatch(meta["uid"])
    assert TIME.fullmatch(meta["creationTimestamp"])
    assert int(meta["resourceVersion"]) > 0
    assert "generation" not in meta
    read = await kube.get(kube.path("configmaps", "a"))
    assert (read.status, read.json) == (200, made)
    assert read.headers["Content-Type"] == "application/json"


async def test_create_overrules_a_client_that_sets_what_is_the_servers(kube: Api) -> None:
    """UID and times that a client invents are replaced, and a deletion that it claims is dropped."""
    claimed = {"uid": "abc", "creationTimestamp": "2020-01-01T00:00:00Z", "deletionTimestamp": "2020-01-01T00:00:00Z"}
    made = await kube.create(kube.path("configmaps"), {"metadata": {"name": "a", **claimed}})
    assert UID.fullmatch(made["metadata"]["uid"])
    assert made["metadata"]["creationTimestamp"] > "2024"
    assert "deletionTimestamp" not in made["metadata"]


async def test_create_drops_what_is_empty(kube: Api) -> None:
    """Empty and null fields are not stored; a null inside of data becomes an empty string."""
    made = await kube.create(
        kube.path("configmaps"),
        {
            "metadata": {"name": "a", "labels": {}, "annotations": None, "finalizers": []},
            "data": {},
            "binaryData": None,
        },
    )
    assert set(made) == {"kind", "apiVersion", "metadata"}
    assert set(made["metadata"]) == {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}
    nulls = await kube.create(kube.path("configmaps"), {"metadata": {"name": "b"}, "data": {"x": None}})
    assert nulls["data"] == {"x": ""}


async def test_unknown_fields_are_dropped_with_a_warning(kube: Api) -> None:
    """A field that the kind does not have is dropped and named in a Warning header."""
    document = {"metadata": {"name": "a", "nonsense": 1}, "unknown": {"deep": True}}
    answer = await kube.ask("POST", kube.path("configmaps"), document)
    assert answer.status == 201
    assert set(answer.json) == {"kind", "apiVersion", "metadata"}
    assert '299 - "unknown field \\"unknown\\""' in answer.headers.getall("Warning")  # type: ignore[attr-defined]
    assert '299 - "unknown field \\"metadata.nonsense\\""' in answer.headers.getall("Warning")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("validation", "status"), [("Ignore", 201), ("Warn", 201), ("Strict", 400)], ids=["ignore", "warn", "strict"]
)
async def test_field_validation_is_the_clients_choice(kube: Api, validation: str, status: int) -> None:
    """``fieldValidation`` decides between silence, a warning and a refusal."""
    document = {"metadata": {"name": "a"}, "unknown": 1}
    answer = await kube.ask("POST", kube.path("configmaps"), document, query={"fieldValidation": validation})
    assert answer.status == status
    assert ("Warning" in answer.headers) is (validation == "Warn")
    if status == 400:
        assert answer.message == (
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "unknown"'
        )


async def test_names_are_generated(kube: Api) -> None:
    """``generateName`` gives a name of 63 characters at most, with five random ones at its end."""
    made = await kube.create(kube.path("configmaps"), {"metadata": {"generateName": "some-"}})
    assert re.fullmatch("some-[bcdfghjklmnpqrstvwxz2456789]{5}", made["metadata"]["name"])
    assert made["metadata"]["generateName"] == "some-"
    long = await kube.create(kube.path("configmaps"), {"metadata": {"generateName": "g" * 70}})
    assert re.fullmatch("g{58}[bcdfghjklmnpqrstvwxz2456789]{5}", long["metadata"]["name"])


async def test_versions_grow_through_all_kinds(kube: Api) -> None:
    """Every write takes a higher version, whatever the kind is."""
    first = await kube.config_map("a")
    second = await kube.create(kube.path("serviceaccounts"), {"metadata": {"name": "a"}})
    third = await kube.config_map("b")
    versions = [int(made["metadata"]["resourceVersion"]) for made in (first, second, third)]
    assert versions == sorted(set(versions))


async def test_dry_runs_change_nothing(kube: Api) -> None:
    """``dryRun=All`` answers as if, and stores nothing."""
    answer = await kube.ask(
        "POST", kube.path("configmaps"), {"metadata": {"name": "a"}, "data": {"x": "1"}}, query={"dryRun": "All"}
    )
    assert (answer.status, answer.json["data"]) == (201, {"x": "1"})
    assert "resourceVersion" not in answer.json["metadata"]
    assert (await kube.get(kube.path("configmaps", "a"))).status == 404
    made = await kube.config_map("b", data={"x": "1"})
    patched = await kube.merge(kube.path("configmaps", "b"), {"data": {"x": "2"}}, query={"dryRun": "All"})
    assert (patched.json["data"], patched.revision) == ({"x": "2"}, made["metadata"]["resourceVersion"])
    deleted = await kube.delete(kube.path("configmaps", "b"), query={"dryRun": "All"})
    assert deleted.status == 200
    assert (await kube.get(kube.path("configmaps", "b"))).json == made


async def test_replace_needs_no_version_but_heeds_one(kube: Api) -> None:
    """A PUT without a version overwrites; one with an old version is a conflict."""
    made = await kube.config_map("a", data={"x": "1"})
    path = kube.path("configmaps", "a")
    replaced = await kube.ask("PUT", path, {"metadata": {"name": "a"}, "data": {"x": "2"}})
    assert (replaced.status, replaced.json["data"]) == (200, {"x": "2"})
    assert replaced.json["metadata"]["uid"] == made["metadata"]["uid"]
    assert replaced.json["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    stale = await kube.ask("PUT", path, {**made, "data": {"x": "3"}})
    assert stale.code_and_reason == (409, "Conflict")
    assert stale.message == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to '
        "the latest version and try again"
    )
    assert stale.json["details"] == {"name": "a", "kind": "configmaps"}


async def test_an_equal_replacement_is_no_new_version(kube: Api) -> None:
    """Replacing an object by itself leaves its version alone."""
    made = await kube.config_map("a", data={"x": "1"})
    again = await kube.ask("PUT", kube.path("configmaps", "a"), {"metadata": {"name": "a"}, "data": {"x": "1"}})
    assert again.revision == made["metadata"]["resourceVersion"]


async def test_replace_with_another_uid_is_a_conflict(kube: Api) -> None:
    """A PUT whose UID is another object's is refused with 409, and the message names both."""
    made = await kube.config_map("a")
    answer = await kube.ask("PUT", kube.path("configmaps", "a"), {"metadata": {"name": "a", "uid": "other"}})
    assert answer.code_and_reason == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on configmaps "a": StorageError: invalid object, Code: 4, Key: '
        f"/registry/configmaps/{kube.namespace}/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in "
        f"precondition: other, UID in object meta: {made['metadata']['uid']}"
    )


async def test_text_that_is_not_unicode_is_repaired(kube: Api) -> None:
    """Bytes that are not UTF-8 and lone surrogates become the replacement character."""
    path = kube.path("configmaps")
    made = await kube.ask("POST", path, b'{"metadata":{"name":"a"},"data":{"x":"\xff","y":"\\ud800"}}')
    assert made.json["data"] == {"x": "\ufffd", "y": "\ufffd"}


async def test_an_object_without_kind_is_the_kind_of_its_path(kube: Api) -> None:
    """``kind`` and ``apiVersion`` may be left out, both or one."""
    for name, more in (("a", {}), ("b", {"kind": "ConfigMap"}), ("c", {"apiVersion": "v1"})):
        made = await kube.create(kube.path("configmaps"), {"metadata": {"name": name}, **more})
        assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")


async def test_a_trailing_slash_changes_nothing(kube: Api) -> None:
    """``…/configmaps/`` is the collection, ``…/a/`` is the object."""
    made = await kube.config_map("a")
    assert (await kube.get(kube.path("configmaps", "a") + "/")).json == made
    assert "a" in (await kube.get(kube.path("configmaps") + "/")).names


async def test_cluster_wide_objects_have_no_namespace(kube: Api) -> None:
    """A namespace that a client gives a Node is dropped."""
    name = kube.unique("node")
    made = await kube.create("/api/v1/nodes", {"metadata": {"name": name, "namespace": "somewhere"}})
    assert "namespace" not in made["metadata"]
    assert (await kube.delete(f"/api/v1/nodes/{name}")).status == 200


async def test_namespaces_are_made_active_and_labelled(kube: Api) -> None:
    """A namespace carries its name as a label that can not be removed, a finalizer and a phase."""
    path = f"/api/v1/namespaces/{kube.namespace}"
    made = (await kube.get(path)).json
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": kube.namespace}
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    assert made["status"] == {"phase": "Active"}
    patched = await kube.merge(path, {"metadata": {"labels": None}})
    assert patched.json["metadata"]["labels"] == made["metadata"]["labels"]


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
async def test_health_is_plain_text(kube: Api, path: str) -> None:
    """The health endpoints say ``ok``, without credentials too."""
    for token in (None, ""):
        answer = await kube.get(path, token=token)
        assert (answer.status, answer.body) == (200, b"ok")
        assert answer.headers["Content-Type"].startswith("text/plain")


async def test_the_version_is_that_of_1_36(kube: Api) -> None:
    """``/version`` needs no credentials and names the minor version."""
    answer = await kube.get("/version", token="")
    assert (answer.json["major"], answer.json["minor"]) == ("1", "36")
    assert answer.json["gitVersion"].startswith("v1.36.")


async def test_discovery_lists_what_is_served(kube: Api) -> None:
    """``/api`` and ``/apis`` lead to the resources, with their verbs and subresources."""
    assert (await kube.get("/api")).json["versions"] == ["v1"]
    groups = {group["name"]: group for group in (await kube.get("/apis")).json["groups"]}
    assert groups["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert (await kube.get("/apis/apps")).json["kind"] == "APIGroup"
    core = {entry["name"]: entry for entry in (await kube.get("/api/v1")).json["resources"]}
    assert core["configmaps"]["verbs"] == [
        "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
    ]  # fmt: skip
    assert (core["nodes"]["namespaced"], core["nodes/status"]["verbs"]) == (False, ["get", "patch", "update"])
    assert core["pods/exec"]["kind"] == "PodExecOptions"
    apps = {entry["name"] for entry in (await kube.get("/apis/apps/v1")).json["resources"]}
    assert {"deployments", "deployments/status", "daemonsets", "daemonsets/status"} <= apps


async def test_the_default_namespaces_are_there(kube: Api) -> None:
    """A cluster has its four namespaces from the beginning."""
    names = (await kube.get("/api/v1/namespaces")).names
    assert {"default", "kube-node-lease", "kube-public", "kube-system"} <= set(names)


async def test_a_namespaced_object_needs_its_namespace(kube: Api) -> None:
    """Creating something in a namespace that is not there is a 404 about the namespace."""
    path = "/api/v1/namespaces/conformance-nowhere/configmaps"
    answer = await kube.ask("POST", path, object_of("ConfigMap", "a"))
    assert answer.code_and_reason == (404, "NotFound")
    assert answer.message == 'namespaces "conformance-nowhere" not found'
    assert answer.json["details"] == {"name": "conformance-nowhere", "kind": "namespaces"}
    assert (await kube.get(path)).json["items"] == []
