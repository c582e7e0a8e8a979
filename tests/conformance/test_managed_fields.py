"""``metadata.managedFields``: who owns which field, and how to get rid of the books."""

from __future__ import annotations

from typing import Any

from tests.conformance.speaking import Api, pod, workload

Books = dict[tuple[str, str], Any]


def books(document: dict[str, Any]) -> Books:
    """Manager and subresource → fields."""
    entries = document["metadata"].get("managedFields", [])
    for entry in entries:
        assert (entry["operation"], entry["fieldsType"]) == ("Update", "FieldsV1")
        assert entry["apiVersion"] == document["apiVersion"]
        assert entry["time"]
    return {(entry["manager"], entry.get("subresource", "")): entry["fieldsV1"] for entry in entries}


async def test_a_creation_owns_its_fields(kube: Api) -> None:
    """Data, labels, annotations, finalizers and owners belong to who created them; name, UID and times to nobody."""
    document = {
        "metadata": {
            "name": "a",
            "labels": {"l": "1"},
            "annotations": {"n": "1"},
            "finalizers": ["a.b/c"],
            "ownerReferences": [{"apiVersion": "x.y/v1", "kind": "X", "name": "x", "uid": "u"}],
        },
        "immutable": False,
        "data": {"x": "1"},
        "binaryData": {"y": "eA=="},
    }
    made = await kube.create(kube.path("configmaps"), document, query={"fieldManager": "me"})
    assert books(made) == {
        ("me", ""): {
            "f:metadata": {
                "f:labels": {".": {}, "f:l": {}},
                "f:annotations": {".": {}, "f:n": {}},
                "f:finalizers": {".": {}, 'v:"a.b/c"': {}},
                "f:ownerReferences": {".": {}, 'k:{"uid":"u"}': {}},
            },
            "f:immutable": {},
            "f:data": {".": {}, "f:x": {}},
            "f:binaryData": {".": {}, "f:y": {}},
        }
    }
    await kube.merge(kube.path("configmaps", "a"), {"metadata": {"finalizers": None}})


async def test_the_manager_is_what_the_user_agent_begins_with(kube: Api) -> None:
    """Without ``fieldManager`` the User-Agent up to its first slash is the manager."""
    headers = {"User-Agent": "some-program/1.2 (x86)"}
    made = await kube.create(kube.path("configmaps"), {"metadata": {"name": "a"}, "data": {"x": "1"}}, headers=headers)
    assert set(books(made)) == {("some-program", "")}


async def test_a_value_belongs_to_who_set_it_last(kube: Api) -> None:
    """A changed value changes its owner, a removed one has none, an equal one keeps it."""
    path = kube.path("configmaps", "a")
    await kube.create(
        kube.path("configmaps"),
        {"metadata": {"name": "a"}, "data": {"x": "1", "y": "1"}},
        query={"fieldManager": "one"},
    )
    two = {"query": {"fieldManager": "two"}}
    answer = await kube.merge(path, {"data": {"x": "1", "z": "1"}}, **two)
    assert books(answer.json) == {
        ("one", ""): {"f:data": {".": {}, "f:x": {}, "f:y": {}}},
        ("two", ""): {"f:data": {"f:z": {}}},
    }
    answer = await kube.merge(path, {"data": {"x": "2", "y": None}}, **two)
    assert books(answer.json) == {("one", ""): {"f:data": {}}, ("two", ""): {"f:data": {"f:x": {}, "f:z": {}}}}
    answer = await kube.merge(path, {"data": None}, query={"fieldManager": "three"})
    assert books(answer.json) == {}


async def test_every_publisher_adds_to_the_books(kube: Api) -> None:
    """The books grow with the keys, so metadata alone is not small by itself."""
    await kube.config_map("a", ownerReferences=[{"apiVersion": "x.y/v1", "kind": "X", "name": "x", "uid": "u"}])
    path = kube.path("configmaps", "a")
    for number in range(20):
        await kube.merge(path, {"data": {f"node-{number}": "x"}}, query={"fieldManager": "broker"})
    fields = books((await kube.get(path)).json)["broker", ""]["f:data"]
    assert set(fields) == {".", *(f"f:node-{number}" for number in range(20))}


async def test_the_books_can_be_closed_for_good(kube: Api) -> None:
    """One empty entry in a patch drops the books; later patches do not open them again; a repetition is a no-op."""
    await kube.config_map("a", data={"x": "1"})
    path = kube.path("configmaps", "a")
    forget: dict[str, Any] = {"metadata": {"managedFields": [{}]}}
    closed = await kube.merge(path, {**forget, "data": {"y": "1"}})
    assert "managedFields" not in closed.json["metadata"]
    later = await kube.merge(path, {"data": {"z": "1"}})
    assert "managedFields" not in later.json["metadata"]
    again = await kube.merge(path, {**forget, "data": {"z": "1"}})
    assert again.revision == later.revision


async def test_an_object_without_fields_is_not_tracked(kube: Api) -> None:
    """What owns no field when it is created has no books, also later."""
    made = await kube.config_map("a", data={})
    assert "managedFields" not in made["metadata"]
    answer = await kube.merge(kube.path("configmaps", "a"), {"data": {"x": "1"}})
    assert "managedFields" not in answer.json["metadata"]


async def test_a_creation_can_not_bring_its_books(kube: Api) -> None:
    """Empty books in a POST are ignored."""
    nothing: list[dict[str, Any]] = []
    for name, given in (("a", nothing), ("b", [{}])):
        made = await kube.config_map(name, data={"x": "1"}, managedFields=given)
        assert set(books(made)) == {("conformance", "")}


async def test_only_ten_managers_are_kept_apart(kube: Api) -> None:
    """The oldest of more than ten managers are merged into one."""
    await kube.config_map("a", data={"x": "1"})
    path = kube.path("configmaps", "a")
    for number in range(12):
        await kube.merge(path, {"data": {f"k{number:02}": "x"}}, query={"fieldManager": f"m{number:02}"})
    found = books((await kube.get(path)).json)
    assert len(found) == 10
    assert ("ancient-changes", "") in found
    owned = {key for fields in found.values() for key in fields["f:data"]}
    assert owned == {".", "f:x", *(f"f:k{number:02}" for number in range(12))}


async def test_a_status_is_owned_through_its_subresource(kube: Api) -> None:
    """Writes to the status have an entry of their own; the main resource does not own the status."""
    made = await kube.create(kube.path("pods"), {**pod("a"), "status": {"phase": "Running"}})
    own = books(made)["conformance", ""]
    assert set(own) == {"f:spec"}
    container = own["f:spec"]["f:containers"]['k:{"name":"main"}']
    assert set(container) == {
        ".", "f:image", "f:imagePullPolicy", "f:name", "f:resources", "f:terminationMessagePath",
        "f:terminationMessagePolicy",
    }  # fmt: skip
    answer = await kube.merge(kube.path("pods", "a") + "/status", {"status": {"phase": "Running"}})
    assert books(answer.json)["conformance", "status"] == {"f:status": {"f:phase": {}}}


async def test_a_workload_owns_its_defaults(kube: Api) -> None:
    """Defaults that the server fills in belong to who created the object; a selector is owned as a whole."""
    made = await kube.create(kube.path("deployments", group="apis/apps/v1"), workload("Deployment", "a"))
    spec = books(made)["conformance", ""]["f:spec"]
    assert spec["f:selector"] == {}
    assert spec["f:replicas"] == {}
    assert spec["f:strategy"] == {"f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}}, "f:type": {}}
    assert spec["f:template"]["f:metadata"] == {"f:labels": {".": {}, "f:app": {}}}
