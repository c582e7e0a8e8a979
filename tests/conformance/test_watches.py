"""Watches: where they begin, what they show, how they end."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.conformance.speaking import PARTIAL, PARTIAL_LIST, Api

LIST_OPTIONS = 'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '


async def version(kube: Api) -> str:
    """The current version of the test's ConfigMaps."""
    return (await kube.get(kube.path("configmaps"))).revision


@pytest.mark.parametrize("start", [{}, {"resourceVersion": "0"}], ids=["no version", "version 0"])
async def test_without_a_version_the_current_objects_come_first(kube: Api, start: dict[str, str]) -> None:
    """A watch from nowhere begins with an ADDED for every object, then shows changes."""
    made = await kube.config_map("a")
    await kube.config_map("b")
    names = {"labelSelector": "x notin (y)"}
    async with kube.watch(kube.path("configmaps"), **start, **names) as watch:
        first = await watch.next()
        while first.name not in {"a", "b"}:  # what a real cluster publishes in every namespace
            first = await watch.next()
        assert (first.type, first.object) == ("ADDED", made)
        second = await watch.next()
        assert (second.type, second.name) == ("ADDED", "b")
        await kube.config_map("c")
        while (event := await watch.next()).name != "c":
            pass
        assert event.type == "ADDED"


async def test_from_a_version_only_later_events_come(kube: Api) -> None:
    """A watch from a version shows what happened after it: each change with the object's state and version."""
    made = await kube.config_map("a")
    start = await version(kube)
    path = kube.path("configmaps", "a")
    patched = (await kube.merge(path, {"data": {"x": "1"}})).json
    async with kube.watch(kube.path("configmaps"), resourceVersion=start, fieldSelector="metadata.name=a") as watch:
        modified = await watch.next()
        assert (modified.type, modified.object) == ("MODIFIED", patched)
        await kube.delete(path)
        deleted = await watch.next()
        assert deleted.type == "DELETED"
        assert deleted.object["data"] == {"x": "1"}
        assert deleted.revision > modified.revision > int(made["metadata"]["resourceVersion"])
        again = await kube.config_map("a")
        added = await watch.next()
        assert (added.type, added.object) == ("ADDED", again)


async def test_a_change_without_effect_is_no_event(kube: Api) -> None:
    """A no-op patch is not seen by watches."""
    await kube.config_map("a", data={"x": "1"})
    start = await version(kube)
    await kube.merge(kube.path("configmaps", "a"), {"data": {"x": "1"}})
    await kube.merge(kube.path("configmaps", "a"), {"data": {"x": "2"}})
    async with kube.watch(kube.path("configmaps"), resourceVersion=start, fieldSelector="metadata.name=a") as watch:
        assert (await watch.next()).object["data"] == {"x": "2"}


async def test_what_leaves_a_selection_is_deleted_and_what_enters_is_added(kube: Api) -> None:
    """A selecting watch sees transitions as ADDED and DELETED; DELETED shows the last state that was selected."""
    await kube.config_map("a", data={"x": "1"}, labels={"l": "in"})
    start = await version(kube)
    path = kube.path("configmaps", "a")
    for patch in (
        {"data": {"x": "2"}},
        {"metadata": {"labels": {"l": "out"}}},
        {"data": {"x": "3"}},
        {"metadata": {"labels": {"l": "in"}}},
    ):
        assert (await kube.merge(path, patch)).status == 200
    await kube.delete(path)
    await kube.config_map("other", labels={"l": "out"})
    await kube.config_map("b", labels={"l": "in"})
    async with kube.watch(kube.path("configmaps"), resourceVersion=start, labelSelector="l=in") as watch:
        events = [await watch.next() for _ in range(5)]
        assert [(event.type, event.name) for event in events] == [
            ("MODIFIED", "a"),
            ("DELETED", "a"),
            ("ADDED", "a"),
            ("DELETED", "a"),
            ("ADDED", "b"),
        ]
        assert [event.object.get("data", {}).get("x") for event in events[:4]] == ["2", "2", "3", "3"]
        assert events[1].object["metadata"]["labels"] == {"l": "in"}
        revisions = [event.revision for event in events]
        assert revisions == sorted(set(revisions))


async def test_a_watch_of_one_namespace_sees_no_other(kube: Api) -> None:
    """Events of other namespaces do not come."""
    start = await version(kube)
    other = f"{kube.namespace}-1"
    await kube.create("/api/v1/namespaces", {"metadata": {"name": other}})
    await kube.create(f"/api/v1/namespaces/{other}/configmaps", {"metadata": {"name": "elsewhere"}})
    await kube.config_map("here")
    async with kube.watch(kube.path("configmaps"), resourceVersion=start) as watch:
        while (event := await watch.next()).name != "here":
            assert event.object["metadata"]["namespace"] == kube.namespace
    await kube.delete(f"/api/v1/namespaces/{other}")


async def test_the_timeout_ends_a_watch_in_order(kube: Api) -> None:
    """After ``timeoutSeconds`` the stream ends as a complete answer."""
    start = await version(kube)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with kube.watch(kube.path("configmaps"), resourceVersion=start, timeoutSeconds="1") as watch:
        assert await watch.rest() == []
    assert 0.9 < loop.time() - begun < 5


async def test_bookmarks_tell_the_version_before_the_end(kube: Api) -> None:
    """With ``allowWatchBookmarks`` a watch that is about to end sends the version to go on from."""
    # The real server has a bookmark only for a version that its cache of the resource has seen: that of an object.
    start = (await kube.config_map("a"))["metadata"]["resourceVersion"]
    query = {"resourceVersion": start, "timeoutSeconds": "4", "allowWatchBookmarks": "true", "labelSelector": "l=x"}
    async with kube.watch(kube.path("configmaps"), **query) as watch:
        # What the selection leaves out shows in the version of the bookmark.
        unseen = await kube.config_map("b")
        events = await watch.rest()
    assert {event.type for event in events} == {"BOOKMARK"}
    last = events[-1]
    assert (last.object["kind"], last.object["apiVersion"]) == ("ConfigMap", "v1")
    assert set(last.object["metadata"]) == {"resourceVersion"}
    assert last.revision >= int(unseen["metadata"]["resourceVersion"])


async def test_without_being_asked_for_bookmarks_do_not_come(kube: Api) -> None:
    """A watch that did not ask for bookmarks gets none."""
    start = await version(kube)
    async with kube.watch(kube.path("configmaps"), resourceVersion=start, timeoutSeconds="3") as watch:
        assert [event for event in await watch.rest() if event.type == "BOOKMARK"] == []


async def test_initial_events_end_with_a_bookmark(kube: Api) -> None:
    """``sendInitialEvents`` gives the objects, then a bookmark with an annotation, then changes."""
    await kube.config_map("a", labels={"l": "x"})
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "labelSelector": "l=x",
    }
    async with kube.watch(kube.path("configmaps"), **query) as watch:
        assert [(await watch.next()).name] == ["a"]
        bookmark = await watch.next()
        assert bookmark.type == "BOOKMARK"
        assert bookmark.object["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        await kube.config_map("b", labels={"l": "x"})
        added = await watch.next()
        assert (added.type, added.name) == ("ADDED", "b")
        assert added.revision > bookmark.revision


async def test_watches_show_metadata_alone_where_that_is_asked_for(kube: Api) -> None:
    """With ``PartialObjectMetadata`` events and bookmarks have that kind, and no data."""
    made = await kube.config_map("a", data={"x": "1"}, labels={"l": "x"})
    query = {"labelSelector": "l=x", "allowWatchBookmarks": "true", "timeoutSeconds": "3"}
    async with kube.watch(kube.path("configmaps"), accept=PARTIAL, **query) as watch:
        events = await watch.rest()
    assert events[0].object == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": made["metadata"],
    }
    bookmark = next(event for event in events if event.type == "BOOKMARK")
    assert (bookmark.object["kind"], bookmark.object["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")


async def test_a_watch_can_not_be_a_list_of_metadata(kube: Api) -> None:
    """Asked for ``PartialObjectMetadataList``, a watch breaks off at its first object."""
    await kube.config_map("a")
    async with kube.watch(kube.path("configmaps"), accept=PARTIAL_LIST) as watch:
        assert await watch.rest(within=5) == []


async def test_a_watch_may_wait_for_the_future(kube: Api) -> None:
    """A version that is yet to come is not refused; nothing comes until then."""
    query = {"resourceVersion": "999999999", "timeoutSeconds": "1"}
    async with kube.watch(kube.path("configmaps"), **query) as watch:
        await kube.config_map("a")
        assert await watch.rest() == []


async def test_only_a_collection_can_be_watched(kube: Api) -> None:
    """``watch`` on a single object is a plain get."""
    made = await kube.config_map("a")
    answer = await kube.get(kube.path("configmaps", "a"), query={"watch": "1"})
    assert answer.json == made


async def test_a_watch_without_time_is_over_at_once(kube: Api) -> None:
    """A negative ``timeoutSeconds`` shows no object: the stream ends, mostly after one ERROR event."""
    await kube.config_map("a")
    async with kube.watch(kube.path("configmaps"), timeoutSeconds="-1") as watch:
        events = await watch.rest(within=5)
    # The real server is sometimes too late for its own error.
    outcome = [(event.type, event.object["code"], event.object["message"]) for event in events]
    assert outcome in ([], [("ERROR", 500, "context deadline exceeded")])


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        (
            {"resourceVersion": "x"},
            500,
            'resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax',
        ),
        ({"timeoutSeconds": "x"}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        (
            {"labelSelector": "a b"},
            400,
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
        ),
        (
            {"fieldSelector": "spec.x=y"},
            400,
            '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (
            {"sendInitialEvents": "true"},
            422,
            LIST_OPTIONS + "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            {"resourceVersionMatch": "NotOlderThan"},
            422,
            LIST_OPTIONS + "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
        ({"continue": "x"}, 422, LIST_OPTIONS + "resourceVersionMatch is forbidden when continue is provided"),
    ],
    ids=["version", "timeout", "label selector", "field selector", "initial events", "match", "token"],
)
async def test_watch_options_that_are_refused(kube: Api, query: dict[str, str], status: int, message: str) -> None:
    """A watch that makes no sense is refused before it begins."""
    answer = await kube.get(kube.path("configmaps"), query={"watch": "1", **query})
    assert (answer.status, answer.message) == (status, message)


@pytest.mark.parametrize("switch", ["1", "true", "True", "yes", ""])
async def test_a_switch_is_on_unless_it_says_no(kube: Api, switch: str) -> None:
    """``watch=`` is a watch for every value but ``0`` and ``false``."""
    query = {"watch": switch, "timeoutSeconds": "1", "resourceVersion": await version(kube)}
    assert (await kube.get(kube.path("configmaps"), query=query)).body == b""


@pytest.mark.parametrize("switch", ["0", "false", "False"])
async def test_a_switch_that_says_no_is_off(kube: Api, switch: str) -> None:
    """``watch=0`` and ``watch=false`` are lists."""
    answer = await kube.get(kube.path("configmaps"), query={"watch": switch})
    assert answer.json["kind"] == "ConfigMapList"


async def test_many_watches_see_every_change_in_order(kube: Api) -> None:
    """Fifty watches see a hundred changes, each in the same order and complete."""
    await kube.config_map("a", labels={"l": "x"})
    start = await version(kube)

    async def follow() -> list[int]:
        async with kube.watch(kube.path("configmaps"), resourceVersion=start, labelSelector="l=x") as watch:
            return [int((await watch.next(within=30)).object["data"]["n"]) for _ in range(100)]

    async with asyncio.TaskGroup() as group:
        followers = [group.create_task(follow()) for _ in range(50)]
        for number in range(100):
            answer = await kube.merge(kube.path("configmaps", "a"), {"data": {"n": str(number)}})
            assert answer.status == 200
    assert all(follower.result() == list(range(100)) for follower in followers)


async def test_a_watch_can_go_on_from_a_bookmark(kube: Api) -> None:
    """The version of a bookmark is a version to watch from."""
    start = (await kube.config_map("before"))["metadata"]["resourceVersion"]
    query = {"allowWatchBookmarks": "true", "timeoutSeconds": "3", "labelSelector": "l=x"}
    async with kube.watch(kube.path("configmaps"), resourceVersion=start, **query) as watch:
        bookmark = (await watch.rest())[-1]
    await kube.config_map("a", labels={"l": "x"})
    async with kube.watch(kube.path("configmaps"), resourceVersion=bookmark.revision, labelSelector="l=x") as watch:
        assert (await watch.next()).name == "a"


async def test_lines_are_one_event_each(kube: Api) -> None:
    """The stream is JSON objects of ``type`` and ``object``, one on a line."""
    await kube.config_map("a", labels={"l": "x"}, data={"x": "line\nbreak"})
    answer = await kube.get(
        kube.path("configmaps"), query={"watch": "1", "labelSelector": "l=x", "timeoutSeconds": "1"}
    )
    (line,) = answer.body.splitlines()
    assert set(json.loads(line)) == {"type", "object"}
    assert answer.headers["Content-Type"] == "application/json"
