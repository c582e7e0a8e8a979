"""JSON patches, merge patches and strategic merge patches."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.speaking import STRATEGIC, Api, pod

UNPROCESSABLE = "the server rejected our request due to an error in our request"


def add(path: str, value: Any) -> dict[str, Any]:
    """An ``add`` operation."""
    return {"op": "add", "path": path, "value": value}


def expect(path: str, value: Any) -> dict[str, Any]:
    """A ``test`` operation."""
    return {"op": "test", "path": path, "value": value}


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param([expect("/data/x", "no")], id="failed test"),
        pytest.param([expect("/data/missing", "x")], id="test of a missing key against a value"),
        pytest.param([expect("/mis/sing", None)], id="test below a missing parent"),
        pytest.param([{"op": "remove", "path": "/data/missing"}], id="remove of a missing key"),
        pytest.param([{"op": "remove", "path": "/mis/sing"}], id="remove below a missing parent"),
        pytest.param([add("/metadata/labels/x", "1")], id="add below a missing parent"),
        pytest.param([{"op": "move", "from": "/data/missing", "path": "/data/y"}], id="move of a missing key"),
        pytest.param([{"op": "bogus", "path": "/data/x"}], id="unknown operation"),
        pytest.param([{"path": "/data/x", "value": "1"}], id="no operation"),
        pytest.param([{"op": "add", "value": "1"}], id="no path"),
        pytest.param([add("", {})], id="add of the whole document"),
        pytest.param([{"op": "replace", "path": "", "value": "x"}], id="replacement of the document by text"),
        pytest.param([expect("", {})], id="failed test of the whole document"),
        pytest.param([None], id="null for an operation"),
        pytest.param([add("/data/y", "1"), expect("/data/x", "no")], id="a change, then a failed test"),
    ],
)
async def test_a_json_patch_that_does_not_apply_is_one_and_the_same_422(kube: Api, operations: list[Any]) -> None:
    """Whatever fails in a JSON patch: 422 with empty details, and nothing of it is applied."""
    made = await kube.config_map("a", data={"x": "1"})
    answer = await kube.json_patch(kube.path("configmaps", "a"), *operations)
    assert answer.code_and_reason == (422, "Invalid")
    assert answer.message == UNPROCESSABLE
    assert answer.json["details"] == {}
    assert (await kube.get(kube.path("configmaps", "a"))).json == made


@pytest.mark.parametrize(
    ("operations", "data"),
    [
        pytest.param([add("/data/y", "2")], {"x": "1", "y": "2"}, id="add"),
        pytest.param([add("/data/x", "2")], {"x": "2"}, id="add over"),
        pytest.param([{"op": "replace", "path": "/data/y", "value": "2"}], {"x": "1", "y": "2"}, id="replace creates"),
        pytest.param([expect("/data/missing", None)], {"x": "1"}, id="test of a missing key against null passes"),
        pytest.param([{"op": "test", "path": "/data/missing"}], {"x": "1"}, id="test without value passes"),
        pytest.param([{"op": "copy", "from": "/data/x", "path": "/data/y"}], {"x": "1", "y": "1"}, id="copy"),
        pytest.param(
            [{"op": "copy", "from": "/data/no", "path": "/data/y"}], {"x": "1", "y": ""}, id="copy of nothing"
        ),
        pytest.param([{"op": "move", "from": "/data/x", "path": "/data/y"}], {"y": "1"}, id="move"),
        pytest.param([add("/data/y", None)], {"x": "1", "y": ""}, id="add of null"),
        pytest.param([{"op": "add", "path": "/data/y"}], {"x": "1", "y": ""}, id="add without value"),
        pytest.param(
            [{"op": "remove", "path": "/data"}, add("/data", {"z": "1"})], {"z": "1"}, id="remove and add all"
        ),
        pytest.param([expect("/data/x", "1"), {"op": "remove", "path": "/data/x"}], None, id="test and remove"),
        pytest.param([add("x/data/y", "2")], {"x": "1", "y": "2"}, id="what is before the first slash does not count"),
        pytest.param([], {"x": "1"}, id="nothing"),
    ],
)
async def test_json_patches_apply_as_the_servers_library_does(
    kube: Api, operations: list[Any], data: dict[str, str] | None
) -> None:
    """A JSON patch has the outcome that kube-apiserver's library gives it, quirks included."""
    await kube.config_map("a", data={"x": "1"})
    answer = await kube.json_patch(kube.path("configmaps", "a"), *operations)
    assert answer.status == 200
    assert answer.json.get("data") == data


@pytest.mark.parametrize("data", [None, {}], ids=["no data", "empty data"])
async def test_json_patch_can_not_add_to_an_empty_config_map(kube: Api, data: dict[str, str] | None) -> None:
    """``add /data/<key>`` is a 422 while there is no data, also where it was created empty."""
    await kube.config_map("a", data=data)
    answer = await kube.json_patch(kube.path("configmaps", "a"), add("/data/x", "1"))
    assert (answer.code_and_reason, answer.json["details"]) == ((422, "Invalid"), {})


async def test_json_patch_can_not_add_after_the_last_key_went(kube: Api) -> None:
    """Removing the last key removes ``data``, so the next ``add`` is a 422."""
    await kube.config_map("a", data={"x": "1"})
    path = kube.path("configmaps", "a")
    assert "data" not in (await kube.json_patch(path, {"op": "remove", "path": "/data/x"})).json
    assert (await kube.json_patch(path, add("/data/x", "1"))).status == 422


async def test_json_patch_counts_list_items_from_both_ends(kube: Api) -> None:
    """``-`` appends, a number inserts, a negative number counts from the end, one too large is refused."""
    await kube.config_map("a", finalizers=["a.b/1"])
    path = kube.path("configmaps", "a")
    at = "/metadata/finalizers"
    answer = await kube.json_patch(path, add(f"{at}/-", "a.b/2"), add(f"{at}/0", "a.b/0"), add(f"{at}/-1", "a.b/3"))
    assert answer.json["metadata"]["finalizers"] == ["a.b/0", "a.b/1", "a.b/2", "a.b/3"]
    answer = await kube.json_patch(path, {"op": "remove", "path": f"{at}/-1"}, {"op": "remove", "path": f"{at}/1"})
    assert answer.json["metadata"]["finalizers"] == ["a.b/0", "a.b/2"]
    for operation in (add(f"{at}/9", "a.b/9"), {"op": "remove", "path": f"{at}/2"}, add(f"{at}/x", "a.b/9")):
        assert (await kube.json_patch(path, operation)).json["details"] == {}
    await kube.merge(path, {"metadata": {"finalizers": None}})


async def test_a_json_patch_copies_three_megabytes_at_most(kube: Api) -> None:
    """Copying a megabyte three times is a patch that does not apply; fewer copies apply."""
    made = await kube.config_map("a", data={"x": "1"})
    path = kube.path("configmaps", "a")
    value = add("/data/big", "y" * 1024 * 1024)
    copies = [{"op": "copy", "from": "/data/big", "path": f"/copy{number}"} for number in range(3)]
    refused = await kube.json_patch(path, value, *copies, {"op": "remove", "path": "/data/big"})
    assert (refused.code_and_reason, refused.json["details"]) == ((422, "Invalid"), {})
    applied = await kube.json_patch(path, value, *copies[:2], {"op": "remove", "path": "/data/big"})
    assert (applied.status, applied.revision) == (200, made["metadata"]["resourceVersion"])


async def test_json_patch_unescapes_paths(kube: Api) -> None:
    """``~1`` is a slash and ``~0`` is a tilde."""
    await kube.config_map("a", annotations={"x/y": "1"})
    path = kube.path("configmaps", "a")
    answer = await kube.json_patch(
        path, expect("/metadata/annotations/x~1y", "1"), add("/metadata/annotations/x~1z", "2")
    )
    assert answer.json["metadata"]["annotations"] == {"x/y": "1", "x/z": "2"}


@pytest.mark.parametrize(
    ("patch", "data"),
    [
        pytest.param({"data": {"y": "2"}}, {"x": "1", "y": "2"}, id="set"),
        pytest.param({"data": {"x": None}}, None, id="null removes the last key and data with it"),
        pytest.param({"data": {"nope": None}}, {"x": "1"}, id="null of a missing key"),
        pytest.param({"data": None}, None, id="null for all"),
        pytest.param({"data": {"x": None, "y": "2"}}, {"y": "2"}, id="remove and set"),
        pytest.param({}, {"x": "1"}, id="nothing"),
    ],
)
async def test_merge_patches_follow_rfc_7386(kube: Api, patch: Any, data: dict[str, str] | None) -> None:
    """A merge patch sets what it names, and null removes."""
    await kube.config_map("a", data={"x": "1"})
    answer = await kube.merge(kube.path("configmaps", "a"), patch)
    assert answer.status == 200
    assert answer.json.get("data") == data


@pytest.mark.parametrize("data", [None, {}], ids=["no data", "empty data"])
async def test_merge_patch_adds_to_an_empty_config_map(kube: Api, data: dict[str, str] | None) -> None:
    """A merge patch makes the data that is not there."""
    await kube.config_map("a", data=data)
    assert (await kube.merge(kube.path("configmaps", "a"), {"data": {"x": "1"}})).json["data"] == {"x": "1"}


async def test_merge_patch_replaces_lists(kube: Api) -> None:
    """A list in a merge patch takes the place of the old one."""
    await kube.config_map("a", finalizers=["a.b/1", "a.b/2"])
    path = kube.path("configmaps", "a")
    answer = await kube.merge(path, {"metadata": {"finalizers": ["a.b/3"]}})
    assert answer.json["metadata"]["finalizers"] == ["a.b/3"]
    await kube.merge(path, {"metadata": {"finalizers": None}})


@pytest.mark.parametrize(
    "patch",
    [
        {"data": {"x": "1"}},
        {"data": {"missing": None}},
        {},
        {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}},
        {"metadata": {"generation": 5}},
        {"unknown": 1},
    ],
    ids=["same value", "null of a missing key", "empty", "creation time", "generation", "unknown field"],
)
async def test_a_patch_that_changes_nothing_is_no_new_version(kube: Api, patch: Any) -> None:
    """A patch without effect succeeds and leaves the version alone."""
    made = await kube.config_map("a", data={"x": "1"})
    answer = await kube.merge(kube.path("configmaps", "a"), patch)
    assert (answer.status, answer.revision) == (200, made["metadata"]["resourceVersion"])
    assert answer.json == made


async def test_a_version_in_a_patch_is_a_precondition(kube: Api) -> None:
    """A patch that names an old version is a conflict; one that names the current version applies."""
    made = await kube.config_map("a", data={"x": "1"})
    path = kube.path("configmaps", "a")
    version = made["metadata"]["resourceVersion"]
    assert (await kube.merge(path, {"metadata": {"resourceVersion": version}, "data": {"x": "2"}})).status == 200
    answer = await kube.merge(path, {"metadata": {"resourceVersion": version}, "data": {"x": "3"}})
    assert answer.code_and_reason == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to '
        "the latest version and try again"
    )
    assert answer.json["details"] == {"name": "a", "kind": "configmaps"}


async def test_a_uid_in_a_patch_is_an_immutable_field(kube: Api) -> None:
    """A patch that names another UID is a 422 with a cause, and not a conflict; its own UID applies."""
    made = await kube.config_map("a", data={"x": "1"})
    path = kube.path("configmaps", "a")
    for send in (kube.merge(path, {"metadata": {"uid": "other"}, "data": {"x": "2"}}),
                 kube.ask("PATCH", path, {"metadata": {"uid": "other"}}, content_type=STRATEGIC)):  # fmt: skip
        answer = await send
        assert answer.code_and_reason == (422, "Invalid")
        assert answer.message == 'ConfigMap "a" is invalid: metadata.uid: Invalid value: "other": field is immutable'
        assert answer.causes == {("metadata.uid", "FieldValueInvalid", 'Invalid value: "other": field is immutable')}
    applied = await kube.merge(path, {"metadata": {"uid": made["metadata"]["uid"]}, "data": {"x": "2"}})
    assert applied.json["data"] == {"x": "2"}


async def test_the_type_of_a_patch_may_have_parameters(kube: Api) -> None:
    """``application/merge-patch+json; charset=utf-8`` is a merge patch."""
    await kube.config_map("a")
    answer = await kube.ask(
        "PATCH",
        kube.path("configmaps", "a"),
        {"data": {"x": "1"}},
        content_type="application/merge-patch+json; charset=utf-8",
    )
    assert answer.json["data"] == {"x": "1"}


@pytest.mark.parametrize(
    ("patch", "data"),
    [
        pytest.param({"data": {"y": "2"}}, {"x": "1", "y": "2"}, id="set"),
        pytest.param({"data": {"x": None}}, None, id="null removes"),
        pytest.param({"data": {"$patch": "replace", "z": "3"}}, {"z": "3"}, id="replace"),
        pytest.param({"data": {"$patch": "delete"}}, None, id="delete"),
        pytest.param({}, {"x": "1"}, id="nothing"),
    ],
)
async def test_strategic_merge_patches_of_maps(kube: Api, patch: Any, data: dict[str, str] | None) -> None:
    """On a map a strategic merge patch is a merge patch with directives."""
    await kube.config_map("a", data={"x": "1"})
    answer = await kube.ask("PATCH", kube.path("configmaps", "a"), patch, content_type=STRATEGIC)
    assert answer.status == 200
    assert answer.json.get("data") == data


async def test_strategic_merge_patches_of_sets(kube: Api) -> None:
    """Finalizers are a set: a patch adds to them, and takes away only by its directive."""
    await kube.config_map("a", finalizers=["a.b/1"])
    path = kube.path("configmaps", "a")
    added = await kube.ask("PATCH", path, {"metadata": {"finalizers": ["a.b/2"]}}, content_type=STRATEGIC)
    assert added.json["metadata"]["finalizers"] == ["a.b/2", "a.b/1"]
    removed = await kube.ask(
        "PATCH", path, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/1"]}}, content_type=STRATEGIC
    )
    assert removed.json["metadata"]["finalizers"] == ["a.b/2"]
    await kube.merge(path, {"metadata": {"finalizers": None}})


async def test_strategic_merge_patches_of_keyed_lists(kube: Api) -> None:
    """Conditions are told apart by their type: a patch changes, adds and deletes single ones."""
    await kube.create(kube.path("pods"), pod("a"))
    path = kube.path("pods", "a") + "/status"

    async def conditions(*patches: dict[str, str]) -> list[tuple[str, str]]:
        patch = {"status": {"conditions": list(patches)}}
        answer = await kube.ask("PATCH", path, patch, content_type=STRATEGIC)
        assert answer.status == 200, answer
        return [(found["type"], found["status"]) for found in answer.json["status"].get("conditions", [])]

    assert await conditions({"type": "Ready", "status": "False"}) == [("Ready", "False")]
    assert await conditions({"type": "Other", "status": "True"}) == [("Other", "True"), ("Ready", "False")]
    assert await conditions({"type": "Ready", "status": "True"}) == [("Other", "True"), ("Ready", "True")]
    assert await conditions({"type": "Other", "$patch": "delete"}) == [("Ready", "True")]
    answer = await kube.ask("PATCH", path, {"status": {"conditions": [{"status": "x"}]}}, content_type=STRATEGIC)
    assert answer.code_and_reason == (500, None)
    assert answer.message == "map: map[status:x] does not contain declared merge key: type"
