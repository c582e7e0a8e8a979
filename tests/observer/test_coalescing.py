from __future__ import annotations

import asyncio
import random
import time

import pytest

from nicrails_observer.coalescing import Coalescer, Window

FEW, MANY = Window(quiet=0.05, limit=0.15), Window(quiet=0.3, limit=5.0)


def _coalescer(interval: float = 60.0) -> Coalescer:
    return Coalescer(interval=interval, rng=random.Random(1), few=FEW, many=MANY)


async def _seconds(coalescer: Coalescer) -> float:
    started = time.monotonic()
    async with asyncio.timeout(10):
        await coalescer.wait()
    return time.monotonic() - started


async def test_a_complete_list_is_acted_on_at_once() -> None:
    """After a list there is nothing to wait for but the shortest quiet time."""
    coalescer = _coalescer()
    coalescer.all_changed()
    assert await _seconds(coalescer) < MANY.quiet


async def test_one_lost_node_waits_only_a_moment() -> None:
    """A single Node is looked at after the short quiet time."""
    coalescer = _coalescer()
    coalescer.node_lost()
    assert FEW.quiet * 0.9 <= await _seconds(coalescer) < MANY.quiet


@pytest.mark.fault("O16")
async def test_a_mass_removal_is_one_look() -> None:
    """O16: while many Nodes go one after the other there is one look, after the last of them."""
    coalescer = _coalescer()
    looks = 0

    async def look() -> None:
        nonlocal looks
        while True:
            await coalescer.wait()
            looks += 1

    async with asyncio.TaskGroup() as group:
        looking = group.create_task(look())
        for number in range(100):
            coalescer.node_lost()
            if number % 20 == 19:
                # The ConfigMap has changed as well, which is no reason to begin early.
                coalescer.all_changed()
            await asyncio.sleep(0.005)
        assert looks == 0
        await asyncio.sleep(MANY.quiet * 2)
        looking.cancel()
    assert looks == 1


async def test_a_slow_stream_of_single_nodes_is_not_held_up() -> None:
    """Nodes that go one by one are looked at within the short limit, however long the stream is."""
    coalescer = _coalescer()

    async def lose() -> None:
        while True:
            coalescer.node_lost()
            await asyncio.sleep(0.03)

    async with asyncio.TaskGroup() as group:
        losing = group.create_task(lose())
        for _ in range(5):
            assert await _seconds(coalescer) < FEW.limit * 2
        losing.cancel()


async def test_what_happens_during_a_look_causes_one_more() -> None:
    """An event after the wait is not lost, and causes exactly one look."""
    coalescer = _coalescer()
    coalescer.all_changed()
    await coalescer.wait()
    coalescer.node_lost()
    coalescer.all_changed()
    assert coalescer.pending
    assert await _seconds(coalescer) < 1
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await coalescer.wait()


async def test_looks_at_intervals_without_cause() -> None:
    """Nothing needs to happen for a look now and then."""
    assert 0.09 <= await _seconds(_coalescer(interval=0.1)) < 1


@pytest.mark.fault("O16")
async def test_a_mass_removal_by_a_slow_server_is_few_looks() -> None:
    """O16: a look that takes its time between Nodes that go slowly but steadily does not make it one look for each few."""
    coalescer = _coalescer()
    looks = 0

    async def look() -> None:
        nonlocal looks
        while True:
            await coalescer.wait()
            looks += 1
            await asyncio.sleep(0.1)

    async with asyncio.TaskGroup() as group:
        looking = group.create_task(look())
        for _ in range(30):
            coalescer.node_lost()
            # Slower than the quiet time for a few, and fewer than many within one look.
            await asyncio.sleep(FEW.quiet * 0.5)
        await asyncio.sleep(MANY.quiet * 2)
        looking.cancel()
    assert looks <= 3
