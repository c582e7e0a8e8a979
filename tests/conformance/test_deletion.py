"""Deletion: preconditions, finalizers, grace periods, collections, namespaces."""

from __future__ import annotations

import datetime

import pytest

from tests.conformance.speaking import Api, object_of, pod
from tests.support.waiting import eventually


async def test_a_deletion_is_answered_with_a_status(kube: Api) -> None:
    """An object without finalizers goes at once; the answer names it with its UID."""
    made = await kube.config_map("a")
    answer = await kube.delete(kube.path("configmaps", "a"))
    assert answer.status == 200
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]},
    }
    assert (await kube.get(kube.path("configmaps", "a"))).status == 404


async def test_an_account_is_answered_with_itself(kube: Api) -> None:
    """Deleting a ServiceAccount returns its last state with the version of the deletion."""
    made = await kube.create(kube.path("serviceaccounts"), {"metadata": {"name": "a"}})
    answer = await kube.delete(kube.path("serviceaccounts", "a"))
    assert (answer.json["kind"], answer.json["metadata"]["uid"]) == ("ServiceAccount", made["metadata"]["uid"])
    assert int(answer.revision) > int(made["metadata"]["resourceVersion"])


async def test_preconditions_protect_an_object(kube: Api) -> None:
    """A deletion for another UID or version is a conflict whose message names both, about the kind."""
    made = await kube.config_map("a")
    path = kube.path("configmaps", "a")
    uid, version = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    answer = await kube.delete(path, {"preconditions": {"uid": "other"}})
    assert answer.code_and_reason == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (other) does not match the UID in '
        f"record ({uid}). The object might have been deleted and then recreated"
    )
    assert answer.json["details"] == {"name": "a", "kind": "ConfigMap"}
    answer = await kube.delete(path, {"preconditions": {"resourceVersion": "1"}})
    assert answer.message == (
        'Operation cannot be fulfilled on ConfigMap "a": the ResourceVersion in the precondition (1) does not match the '
        f"ResourceVersion in record ({version}). The object might have been modified"
    )
    both = {"preconditions": {"uid": uid, "resourceVersion": version}}
    assert (await kube.delete(path, both)).status == 200


async def test_finalizers_hold_an_object(kube: Api) -> None:
    """An object with finalizers is marked and stays until the last of them is taken away."""
    made = await kube.config_map("a", finalizers=["a.b/1", "a.b/2"])
    path = kube.path("configmaps", "a")
    marked = await kube.delete(path)
    assert marked.status == 200
    meta = marked.json["metadata"]
    assert meta["finalizers"] == ["a.b/1", "a.b/2"]
    assert (meta["deletionGracePeriodSeconds"], meta["uid"]) == (0, made["metadata"]["uid"])
    assert meta["deletionTimestamp"]
    again = await kube.delete(path)
    assert (again.status, again.json) == (200, marked.json)
    changed = await kube.merge(path, {"data": {"x": "1"}})
    assert changed.json["data"] == {"x": "1"}
    left = await kube.merge(path, {"metadata": {"finalizers": ["a.b/2"]}})
    assert left.json["metadata"]["finalizers"] == ["a.b/2"]
    last = await kube.merge(path, {"metadata": {"finalizers": None}})
    assert last.status == 200
    assert "finalizers" not in last.json["metadata"]
    assert last.revision == left.revision
    assert (await kube.get(path)).status == 404


async def test_a_watch_sees_an_object_held_and_gone(kube: Api) -> None:
    """The mark is a MODIFIED; the end is a DELETED that shows the last stored state, finalizer included."""
    made = await kube.config_map("a", finalizers=["a.b/1"])
    path = kube.path("configmaps", "a")
    await kube.delete(path)
    await kube.merge(path, {"metadata": {"finalizers": None}})
    query = {"resourceVersion": made["metadata"]["resourceVersion"], "fieldSelector": "metadata.name=a"}
    async with kube.watch(kube.path("configmaps"), **query) as watch:
        marked, gone = await watch.next(), await watch.next()
    assert (marked.type, gone.type) == ("MODIFIED", "DELETED")
    assert gone.object["metadata"]["finalizers"] == ["a.b/1"]
    assert gone.revision > marked.revision


async def test_a_dying_object_gets_no_new_finalizers(kube: Api) -> None:
    """Adding a finalizer to what is being deleted is a 422."""
    await kube.config_map("a", finalizers=["a.b/1"])
    path = kube.path("configmaps", "a")
    await kube.delete(path)
    answer = await kube.merge(path, {"metadata": {"finalizers": ["a.b/1", "a.b/3", "a.b/2"]}})
    problem = (
        "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
        '[]string{"a.b/2", "a.b/3"}'
    )
    assert answer.causes == {("metadata.finalizers", "FieldValueForbidden", problem)}
    await kube.merge(path, {"metadata": {"finalizers": None}})


async def test_a_deletion_can_not_be_taken_back(kube: Api) -> None:
    """The mark of a deletion can be neither set nor removed by a patch."""
    await kube.config_map("a")
    path = kube.path("configmaps", "a")
    answer = await kube.merge(path, {"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}})
    problem = 'Invalid value: "2020-01-01T00:00:00Z": field is immutable'
    assert answer.causes == {("metadata.deletionTimestamp", "FieldValueInvalid", problem)}
    await kube.merge(path, {"metadata": {"finalizers": ["a.b/1"]}})
    await kube.delete(path)
    answer = await kube.merge(path, {"metadata": {"deletionTimestamp": None}})
    assert answer.status == 200
    assert answer.json["metadata"]["deletionTimestamp"]
    await kube.merge(path, {"metadata": {"finalizers": None}})


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (
            {"propagationPolicy": "Some"},
            422,
            (
                'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Some": supported values: '
                '"Foreground", "Background", "Orphan", "nil"'
            ),
        ),
        (
            {"propagationPolicy": "Orphan", "orphanDependents": True},
            422,
            (
                'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Orphan": orphanDependents and '
                "deletionPropagation cannot be both set"
            ),
        ),
        (
            {"gracePeriodSeconds": "x"},
            400,
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
        ),
        (
            {"kind": "Foo"},
            400,
            'no kind "Foo" is registered for version "meta.k8s.io/v1" in scheme "pkg/runtime/scheme.go:111"',
        ),
    ],
    ids=["policy", "two policies", "grace", "kind"],
)
async def test_delete_options_that_are_refused(
    kube: Api, options: dict[str, object], status: int, message: str
) -> None:
    """Options that make no sense are refused, and nothing is deleted."""
    await kube.config_map("a")
    path = kube.path("configmaps", "a")
    answer = await kube.delete(path, options)
    assert (answer.status, answer.message) == (status, message)
    assert (await kube.get(path)).status == 200


async def test_delete_options_that_can_not_be_read(kube: Api) -> None:
    """A broken body is a 400, before the object is looked for."""
    answer = await kube.ask("DELETE", kube.path("configmaps", "x"), b"{bad")
    assert answer.code_and_reason == (400, "BadRequest")
    assert answer.message == (
        "couldn't get version/kind; json parse error: invalid character 'b' looking for beginning of object key string"
    )


async def test_a_selection_can_be_deleted(kube: Api) -> None:
    """DELETE of a collection deletes what the selector selects and answers with it."""
    for name, label in (("a", "x"), ("b", "x"), ("c", "y")):
        await kube.config_map(name, labels={"l": label})
    answer = await kube.delete(kube.path("configmaps"), query={"labelSelector": "l=x"})
    assert (answer.json["kind"], answer.names) == ("ConfigMapList", ["a", "b"])
    assert (await kube.get(kube.path("configmaps"), query={"labelSelector": "l"})).names == ["c"]


async def test_a_pod_on_a_node_is_given_time(kube: Api) -> None:
    """A bound pod stays, terminating, for its grace period; a shorter one replaces a longer one, 0 ends it."""
    await kube.create(kube.path("pods"), pod("a", nodeName="nowhere"))
    path = kube.path("pods", "a")
    marked = (await kube.delete(path)).json["metadata"]
    assert (marked["deletionGracePeriodSeconds"], marked["generation"]) == (30, 2)
    now = datetime.datetime.now(datetime.UTC)
    ends = datetime.datetime.fromisoformat(marked["deletionTimestamp"])
    assert datetime.timedelta(seconds=20) < ends - now < datetime.timedelta(seconds=40)
    assert (await kube.delete(path, {"gracePeriodSeconds": 60})).json["metadata"] == marked
    shorter = (await kube.delete(path, {"gracePeriodSeconds": 5})).json["metadata"]
    assert (shorter["deletionGracePeriodSeconds"], shorter["generation"]) == (5, 2)
    assert shorter["deletionTimestamp"] < marked["deletionTimestamp"]
    last = await kube.delete(path, query={"gracePeriodSeconds": 0})
    assert (last.json["kind"], last.json["metadata"]["deletionGracePeriodSeconds"]) == ("Pod", 0)
    assert (await kube.get(path)).status == 404


@pytest.mark.parametrize("bound", [False, True], ids=["unbound", "succeeded"])
async def test_a_pod_that_nobody_runs_goes_at_once(kube: Api, bound: bool) -> None:
    """A pod without a Node, or one that has ended, is marked and gone in one step; a watch sees both."""
    await kube.create(kube.path("pods"), pod("a", **({"nodeName": "nowhere"} if bound else {})))
    path = kube.path("pods", "a")
    if bound:
        await kube.merge(path + "/status", {"status": {"phase": "Succeeded"}})
    start = (await kube.get(path)).revision
    answer = await kube.delete(path)
    assert answer.json["metadata"]["deletionGracePeriodSeconds"] == 0
    assert (await kube.get(path)).status == 404
    async with kube.watch(kube.path("pods"), resourceVersion=start, fieldSelector="metadata.name=a") as watch:
        marked, gone = await watch.next(), await watch.next()
    assert [(marked.type, marked.object["metadata"]["generation"]), gone.type] == [("MODIFIED", 2), "DELETED"]
    assert gone.object == answer.json


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_some_namespaces_stay(kube: Api, name: str) -> None:
    """The namespaces that a cluster can not do without are not deleted."""
    answer = await kube.delete(f"/api/v1/namespaces/{name}")
    assert answer.code_and_reason == (403, "Forbidden")
    assert answer.message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    assert answer.json["details"] == {"name": name, "kind": "namespaces"}


async def test_a_namespace_that_is_deleted_takes_nothing_in(kube: Api) -> None:
    """A dying namespace is Terminating, and creating in it is a 403 with the cause NamespaceTerminating."""
    await kube.config_map("hold", finalizers=["a.b/c"])
    path = f"/api/v1/namespaces/{kube.namespace}"
    answer = await kube.delete(path)
    assert (answer.status, answer.json["kind"], answer.json["status"]["phase"]) == (200, "Namespace", "Terminating")
    assert answer.json["metadata"]["deletionTimestamp"]
    assert "deletionGracePeriodSeconds" not in answer.json["metadata"]
    late = await kube.ask("POST", kube.path("configmaps"), object_of("ConfigMap", "late"))
    assert late.code_and_reason == (403, "Forbidden")
    assert late.message == (
        f'configmaps "late" is forbidden: unable to create new content in namespace {kube.namespace} because it is being '
        "terminated"
    )
    assert late.json["details"] == {
        "name": "late",
        "kind": "configmaps",
        "causes": [
            {
                "reason": "NamespaceTerminating",
                "message": f"namespace {kube.namespace} is being terminated",
                "field": "metadata.namespace",
            }
        ],
    }
    await kube.merge(kube.path("configmaps", "hold"), {"metadata": {"finalizers": None}})


async def test_a_namespace_takes_its_objects_along(collected: Api) -> None:
    """What is in a deleted namespace goes, then the namespace; what a finalizer holds, holds the namespace too."""
    kube = collected
    await kube.config_map("free")
    await kube.config_map("held", finalizers=["a.b/c"])
    await kube.create(kube.path("pods"), pod("a"))
    path = f"/api/v1/namespaces/{kube.namespace}"
    await kube.delete(path)

    async def gone(which: str) -> bool:
        return (await kube.get(which)).status == 404

    await eventually(lambda: gone(kube.path("configmaps", "free")), within=20, what="the free ConfigMap is gone")
    await eventually(lambda: gone(kube.path("pods", "a")), within=20, what="the pod is gone")

    async def held() -> bool:
        return "deletionTimestamp" in (await kube.get(kube.path("configmaps", "held"))).json["metadata"]

    await eventually(held, within=20, what="the held ConfigMap is marked")
    assert (await kube.get(path)).json["status"]["phase"] == "Terminating"
    await kube.merge(kube.path("configmaps", "held"), {"metadata": {"finalizers": None}})
    await eventually(lambda: gone(path), within=40, what="the namespace is gone")
