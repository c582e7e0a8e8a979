"""Content negotiation: whole objects, metadata alone, nothing."""

from __future__ import annotations

import pytest

from tests.conformance.speaking import JSON, MERGE, PARTIAL, PARTIAL_LIST, Api

TYPES = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


def metadata_of(document: dict[str, object]) -> dict[str, object]:
    """The object as PartialObjectMetadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": document["metadata"]}


async def test_metadata_alone_can_be_had_of_an_object(kube: Api) -> None:
    """GET, POST, PUT and PATCH answer with metadata alone if that is what is accepted."""
    path = kube.path("configmaps", "a")
    posted = await kube.ask(
        "POST", kube.path("configmaps"), {"metadata": {"name": "a"}, "data": {"x": "1"}}, accept=PARTIAL
    )
    assert posted.status == 201
    assert posted.json == metadata_of((await kube.get(path)).json)
    assert posted.headers["Content-Type"] == "application/json"
    put = await kube.ask("PUT", path, {"metadata": {"name": "a"}, "data": {"x": "2"}}, accept=PARTIAL)
    patched = await kube.merge(path, {"data": {"x": "3"}}, accept=PARTIAL)
    got = await kube.get(path, accept=PARTIAL)
    assert [answer.json["kind"] for answer in (put, patched, got)] == ["PartialObjectMetadata"] * 3
    assert patched.json == got.json == metadata_of((await kube.get(path)).json)


async def test_metadata_alone_can_be_had_of_a_list(kube: Api) -> None:
    """A list of metadata has items with kind and version, and pages as any list."""
    for name in ("a", "b"):
        await kube.config_map(name, data={"x": "1"}, labels={"l": "x"})
    answer = await kube.get(kube.path("configmaps"), accept=PARTIAL_LIST, query={"labelSelector": "l=x", "limit": 1})
    assert (answer.json["kind"], answer.json["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    (item,) = answer.json["items"]
    assert item == metadata_of((await kube.get(kube.path("configmaps", "a"))).json)
    assert answer.json["metadata"]["continue"]


async def test_the_older_version_of_metadata_is_served_too(kube: Api) -> None:
    """``v=v1beta1`` gives the same in that version."""
    await kube.config_map("a")
    answer = await kube.get(kube.path("configmaps", "a"), accept=PARTIAL.replace("v=v1", "v=v1beta1"))
    assert answer.json["apiVersion"] == "meta.k8s.io/v1beta1"


async def test_a_publication_costs_as_much_as_its_record_however_large_the_object_is(kube: Api) -> None:
    """The answer to a patch that forgets the managers is a few hundred bytes, with a megabyte of data in the object."""
    await kube.config_map("a", data={f"node-{number}": "x" * 1000 for number in range(1000)})
    body = {"metadata": {"managedFields": [{}]}, "data": {"node-1": "y"}}
    answer = await kube.merge(kube.path("configmaps", "a"), body, accept=PARTIAL)
    assert answer.status == 200
    assert len(answer.body) < 500


@pytest.mark.parametrize(
    "accept", ["*/*", "text/html, application/json;q=0.5", "application/json, application/json;as=X"]
)
async def test_json_is_chosen_where_it_can_be(kube: Api, accept: str) -> None:
    """Wildcards and weights lead to plain JSON."""
    made = await kube.config_map("a")
    answer = await kube.get(kube.path("configmaps", "a"), accept=accept)
    assert answer.json == made


async def test_the_first_form_that_can_be_made_is_chosen(kube: Api) -> None:
    """A client that accepts metadata or JSON gets what it names first; an unknown form is passed over."""
    await kube.config_map("a")
    path = kube.path("configmaps", "a")
    first = await kube.get(path, accept=f"{PARTIAL},{JSON}")
    assert first.json["kind"] == "PartialObjectMetadata"
    second = await kube.get(path, accept=f"application/json;as=Nonsense;g=meta.k8s.io;v=v1,{JSON}")
    assert second.json["kind"] == "ConfigMap"


@pytest.mark.parametrize(
    ("collection", "accept", "message"),
    [
        (False, "text/html", f"406: Not Acceptable\n\nAvailable representations: {TYPES}"),
        (False, "application/*", f"406: Not Acceptable\n\nAvailable representations: {TYPES}"),
        (
            False,
            "application/json;as=Nonsense;g=meta.k8s.io;v=v1",
            f"only the following media types are accepted: {TYPES}",
        ),
        (
            False,
            PARTIAL_LIST,
            "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)",
        ),
        (
            True,
            PARTIAL,
            "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)",
        ),
    ],
    ids=["type", "wildcard", "form", "list of an object", "object of a list"],
)
async def test_what_can_not_be_made_is_not_acceptable(kube: Api, collection: bool, accept: str, message: str) -> None:
    """A form that the answer can not have is a 406."""
    await kube.config_map("a")
    answer = await kube.get(kube.path("configmaps", "" if collection else "a"), accept=accept)
    assert answer.code_and_reason == (406, "NotAcceptable")
    assert answer.message == message


async def test_what_is_not_acceptable_is_not_done(kube: Api) -> None:
    """A write whose answer would not be accepted is refused before it happens."""
    answer = await kube.ask("POST", kube.path("configmaps"), {"metadata": {"name": "a"}}, accept="text/html")
    assert answer.status == 406
    assert (await kube.get(kube.path("configmaps", "a"))).status == 404


async def test_a_watch_names_its_streams(kube: Api) -> None:
    """The 406 of a watch lists the stream types too."""
    answer = await kube.get(kube.path("configmaps"), accept="text/html", query={"watch": "1"})
    streams = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
    assert answer.message == f"406: Not Acceptable\n\nAvailable representations: {TYPES}, {streams}"


async def test_refusals_are_whole_in_every_form(kube: Api) -> None:
    """A client that accepts metadata alone gets a Status when it is refused."""
    got = await kube.get(kube.path("configmaps", "x"), accept=PARTIAL)
    assert got.code_and_reason == (404, "NotFound")
    patched = await kube.ask("PATCH", kube.path("configmaps", "x"), {}, content_type=MERGE, accept=PARTIAL)
    assert patched.message == 'configmaps "x" not found'


async def test_a_deletion_is_answered_with_a_status_in_every_form(kube: Api) -> None:
    """DELETE of an object that goes at once is a Status also for who accepts metadata alone."""
    made = await kube.config_map("a")
    answer = await kube.delete(kube.path("configmaps", "a"), accept=PARTIAL)
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]},
    }
