from __future__ import annotations

import asyncio
import random

import pytest

from nicrails.kube import ApiError, Collection, ForbiddenError, Reflector, UnreachableError
from nicrails_observer.nodes import NODES, LiveNodes, NodeCache, NodeFollower, NodeIdentity, identity
from tests.observer.answers import HOST, MISSING, prepared, status
from tests.support.waiting import eventually


class _Bell:
    def __init__(self) -> None:
        self.rung: list[str] = []

    def all_changed(self) -> None:
        self.rung.append("all")

    def node_lost(self) -> None:
        self.rung.append("lost")


def test_the_cache_follows_the_watch() -> None:
    """Additions are kept silently; a deletion and a new UID under an old name ring; equal news are no news."""
    bell = _Bell()
    cache = NodeCache(bell)
    assert not cache.synced
    cache.replaced([("a", "1"), ("b", "1")])
    assert (cache.synced, cache.uids, bell.rung) == (True, {"a": "1", "b": "1"}, ["all"])
    cache.changed(("c", "1"))
    cache.changed(("a", "1"))
    assert bell.rung == ["all"]
    cache.changed(("a", "2"))
    assert bell.rung == ["all", "lost"]
    cache.removed(("b", "1"))
    assert (cache.uids, bell.rung) == ({"a": "2", "c": "1"}, ["all", "lost", "lost"])


@pytest.mark.fault("O12")
def test_a_late_deletion_does_not_remove_the_successor() -> None:
    """O12: a deletion that is told after the Node was made anew concerns its former self."""
    bell = _Bell()
    cache = NodeCache(bell)
    cache.replaced([("a", "new")])
    cache.removed(("a", "old"))
    cache.removed(("never", "seen"))
    assert (cache.uids, bell.rung) == ({"a": "new"}, ["all"])


@pytest.mark.parametrize(
    "node",
    [{}, {"metadata": {"name": "a"}}, {"metadata": {"name": "a", "uid": 1}}, {"metadata": {"name": "", "uid": "u"}}],
)
def test_an_object_without_identity_is_no_node(node: dict[str, object]) -> None:
    """What has no name or no UID is refused instead of being kept half."""
    with pytest.raises((KeyError, TypeError)):
        identity(node)


async def _nothing() -> tuple[list[NodeIdentity], str]:
    return [], "1"


async def test_reads_nodes_by_name() -> None:
    """A Node that exists has its UID, one that the API server does not know has none."""
    async with prepared() as (client, api):
        api.get(f"{HOST}/api/v1/nodes/a", payload={"metadata": {"name": "a", "uid": "1"}})
        api.get(f"{HOST}/api/v1/nodes/b", **MISSING)
        assert await LiveNodes(client, _nothing).each(["a", "b"]) == {"a": "1", "b": None}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"status": 404, "body": "404 page not found"}, UnreachableError),
        ({"status": 200, "body": "<html>"}, UnreachableError),
        ({"status": 200, "payload": {"metadata": {"name": "other", "uid": "1"}}}, UnreachableError),
        ({"status": 200, "payload": {"metadata": {"name": "a"}}}, UnreachableError),
        (status(403, "Forbidden"), ForbiddenError),
    ],
)
async def test_anything_but_a_plain_answer_is_no_absence(answer: dict[str, object], error: type[ApiError]) -> None:
    """Only the API server's own NotFound counts as absence; all else is an error, and nothing is removed on it."""
    async with prepared() as (client, api):
        api.get(f"{HOST}/api/v1/nodes/a", **answer)
        with pytest.raises(error):
            await LiveNodes(client, _nothing).each(["a"])


async def test_lists_anew_on_demand() -> None:
    """Where its view has proved wrong the follower starts the reflector over, as often as it is told to."""

    class _Reflecting(Reflector[NodeIdentity]):
        runs = 0

        async def run(self) -> None:
            self.runs += 1
            await asyncio.Event().wait()

    class _Silent:
        def listed(self, count: int, seconds: float) -> None: ...
        def restarted(self, reason: str) -> None: ...
        def failed(self, error: ApiError) -> None: ...

    async with prepared() as (client, _):
        cache = NodeCache(_Bell())
        reflector = _Reflecting(
            client, Collection(path=NODES, extract=identity), cache, _Silent(), rng=random.Random(1)
        )
        follower = NodeFollower(reflector, cache)
        follower.relist()
        task = asyncio.create_task(follower.run())
        await eventually(lambda: reflector.runs == 1, within=5, what="the first run")
        follower.relist()
        follower.relist()
        await eventually(lambda: reflector.runs == 2, within=5, what="the second run")
        follower.relist()
        await eventually(lambda: reflector.runs == 3, within=5, what="the third run")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
