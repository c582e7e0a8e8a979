from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable

from prometheus_client import CollectorRegistry

from nicrails.service import Health
from nicrails_faker.reporting import Metrics, Report
from nicrails_faker.working import Cache, Outcomes, Worklist
from tests.support.waiting import eventually


def _cache() -> tuple[Cache[tuple[str, int]], list[str]]:
    told: list[str] = []
    return Cache(lambda item: item[0], told.append), told


def test_a_cache_tells_what_differs() -> None:
    """The first list tells each name; after that only names whose item came, changed or went are told."""
    cache, told = _cache()
    cache.replaced([("a", 1), ("b", 1)])
    assert sorted(told) == ["a", "b"]
    told.clear()
    cache.replaced([("a", 1), ("b", 2), ("c", 1)])
    assert sorted(told) == ["b", "c"]
    told.clear()
    cache.changed(("a", 1))
    cache.changed(("a", 2))
    cache.removed(("c", 1))
    cache.removed(("d", 1))
    assert told == ["a", "c"]
    assert cache.items == {"a": ("a", 2), "b": ("b", 2)}


def test_an_empty_first_list_is_told_too() -> None:
    """Who waits for the first list learns of it also when it is empty."""
    cache, told = _cache()
    cache.replaced([])
    assert cache.synced
    assert told == [""]
    cache.replaced([])
    assert told == [""]


def test_an_older_version_never_takes_the_place_of_a_newer_one() -> None:
    """What an answer to a write has put in stays when the watch shows what was before; unknown versions are all taken."""
    told: list[str] = []
    cache: Cache[tuple[str, str]] = Cache(lambda item: item[0], told.append, version=lambda item: item[1])
    cache.changed(("a", "9"))
    cache.changed(("a", "10"))
    cache.changed(("a", "9"))
    assert cache.items == {"a": ("a", "10")}
    assert told == ["a", "a"]
    cache.changed(("a", "x"))
    cache.removed(("a", "9"))
    cache.changed(("a", "8"))
    assert cache.items == {"a": ("a", "8")}


@contextlib.asynccontextmanager
async def _working(work: Callable[[str], Awaitable[bool]], *, workers: int = 2) -> AsyncIterator[Worklist]:
    worklist = Worklist(work, workers=workers, rng=random.Random(1), initial=0.02, cap=0.05)
    task = asyncio.create_task(worklist.run())
    try:
        yield worklist
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_name_is_worked_on_once_however_often_it_was_added() -> None:
    """Names that wait are worked on once, in the order in which they came."""
    seen: list[str] = []

    async def work(name: str) -> bool:
        seen.append(name)
        return True

    async with _working(work) as worklist:
        for name in ("a", "b", "a", "a"):
            worklist.add(name)
        await eventually(lambda: not len(worklist), within=10, what="all is done")
    assert seen == ["a", "b"]


async def test_a_name_added_during_its_work_is_worked_on_again_by_itself() -> None:
    """What changes while a name is worked on is looked at afterwards, and never by two workers at once."""
    at_once, most, rounds = 0, 0, 0
    began, go_on = asyncio.Event(), asyncio.Event()

    async def work(_: str) -> bool:
        nonlocal at_once, most, rounds
        at_once += 1
        most = max(most, at_once)
        began.set()
        await go_on.wait()
        at_once -= 1
        rounds += 1
        return True

    async with _working(work) as worklist:
        worklist.add("a")
        await began.wait()
        worklist.add("a")
        worklist.add("a")
        go_on.set()
        await eventually(lambda: not len(worklist), within=10, what="all is done")
    assert (rounds, most) == (2, 1)


async def test_different_names_are_worked_on_at_once_but_no_more_than_the_workers() -> None:
    """As many names are in work as there are workers."""
    inside: set[str] = set()
    most = 0
    full = asyncio.Event()

    async def work(name: str) -> bool:
        nonlocal most
        inside.add(name)
        most = max(most, len(inside))
        if most == 3:
            full.set()
        await full.wait()
        inside.discard(name)
        return True

    async with _working(work, workers=3) as worklist:
        for name in "abcdef":
            worklist.add(name)
        await eventually(lambda: not len(worklist), within=10, what="all is done")
    assert most == 3


async def test_what_is_not_done_comes_back() -> None:
    """Work that is not done is done again after a pause, until it is; an add in between does not wait for the pause."""
    tries = 0

    async def work(_: str) -> bool:
        nonlocal tries
        tries += 1
        return tries >= 4

    async with _working(work) as worklist:
        worklist.add("a")
        await eventually(lambda: tries >= 2, within=10, what="it was tried again")
        worklist.add("a")
        await eventually(lambda: not len(worklist), within=10, what="all is done")
    assert tries >= 4


def test_outcomes_are_one_duty() -> None:
    """The duty is done while the work on each name is, and says one name and how many others failed."""
    health = Health(["duty"])
    report = Report("duty", health, Metrics(CollectorRegistry()))
    outcomes = Outcomes(report, "step")
    outcomes.done("a")
    assert health.healthy
    outcomes.failed("a", "broken")
    assert report.reason == "a: broken"
    outcomes.failed("b", "broken too")
    outcomes.failed("c", "broken too")
    assert report.reason == "a: broken; 2 others failed too"
    outcomes.done("a")
    assert report.reason == "b: broken too; 1 other failed too"
    outcomes.done("b")
    outcomes.done("c")
    assert health.healthy
