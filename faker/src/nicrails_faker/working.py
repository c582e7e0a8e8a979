"""What controllers are made of: caches that watches keep, and lists of names that need work."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from nicrails.kube import Backoff
from nicrails_faker.reporting import Report

T = TypeVar("T")


class Cache(Generic[T]):
    """A collection as its watch last showed it; what a reflector tells.

    Args:
        key: The name of an item.
        changed: Told each name whose item came, changed or went.
        version: The resourceVersion of an item, where answers to writes are put in besides what the watch shows: an older
            item then never takes the place of a newer one. "" is unknown.

    Attributes:
        items: By name.
        synced: Whether a complete list was read at least once; before that, absence means nothing.
    """

    def __init__(
        self, key: Callable[[T], str], changed: Callable[[str], None], *, version: Callable[[T], str] = lambda _: ""
    ) -> None:
        self._version = version
        self.items: dict[str, T] = {}
        self.synced = False
        self._key = key
        self._changed = changed

    def replaced(self, items: Sequence[T]) -> None:
        """These are all the items; the first time, each name is told."""
        before = dict(self.items)
        self.items.clear()  # who holds on to it sees what it becomes
        self.items.update((self._key(item), item) for item in items)
        first, self.synced = not self.synced, True
        for name in before.keys() | self.items.keys():
            if first or before.get(name) != self.items.get(name):
                self._changed(name)
        if first and not self.items:
            # Nothing to tell, but those who wait for the list have it now.
            self._changed("")

    def changed(self, item: T) -> None:
        """An item was added or modified."""
        name = self._key(item)
        before = self.items.get(name)
        if before is not None and (before == item or self._is_older(item, before)):
            return
        self.items[name] = item
        self._changed(name)

    def _is_older(self, one: T, other: T) -> bool:
        # They are numbers that can be compared: https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
        versions = self._version(one), self._version(other)
        return all(map(str.isdecimal, versions)) and int(versions[0]) < int(versions[1])

    def removed(self, item: T) -> None:
        """An item was deleted."""
        name = self._key(item)
        if self.items.pop(name, None) is not None:
            self._changed(name)


class Worklist:
    """Names that need work.

    A name is worked on by one worker at a time, once more if it was added meanwhile, and again after a pause if the work
    says that it is not done.

    Args:
        work: Does it; returns whether it is done.
        workers: How many names are worked on at once.
        rng: For jitter.
        initial: The first upper bound of the pause in seconds.
        cap: The greatest one.
    """

    def __init__(
        self,
        work: Callable[[str], Awaitable[bool]],
        *,
        workers: int,
        rng: random.Random | None = None,
        initial: float = 0.5,
        cap: float = 30.0,
    ) -> None:
        self._work = work
        self._workers = workers
        self._rng = rng or random.Random()  # noqa: S311  (jitter)
        self._initial, self._cap = initial, cap
        self._waiting: dict[str, None] = {}
        self._working: set[str] = set()
        self._again: set[str] = set()
        self._failing: dict[str, Backoff] = {}
        self._paused: dict[str, asyncio.TimerHandle] = {}
        self._alarms: dict[str, asyncio.TimerHandle] = {}
        self._ready = asyncio.Event()

    def __len__(self) -> int:
        """How many names wait, are worked on or are paused."""
        return len(self._waiting) + len(self._working) + len(self._paused)

    def add(self, name: str) -> None:
        """This name needs work, now."""
        if (timer := self._paused.pop(name, None)) is not None:
            timer.cancel()
        if name in self._working:
            self._again.add(name)
        else:
            self._waiting[name] = None
            self._ready.set()

    def add_later(self, name: str, seconds: float) -> None:
        """This name needs work after so many seconds, at the latest; what was said before of later work is forgotten."""
        if (timer := self._alarms.pop(name, None)) is not None:
            timer.cancel()
        self._alarms[name] = asyncio.get_running_loop().call_later(seconds, self._alarm, name)

    def _alarm(self, name: str) -> None:
        del self._alarms[name]
        self.add(name)

    async def run(self) -> None:
        """Work for ever."""
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self._worker(), name=f"worker-{number}")
        finally:
            for timers in (self._paused, self._alarms):
                for timer in timers.values():
                    timer.cancel()
                timers.clear()

    async def _worker(self) -> None:
        while True:
            while not self._waiting:
                self._ready.clear()
                await self._ready.wait()
            name = next(iter(self._waiting))
            del self._waiting[name]
            self._working.add(name)
            try:
                done = await self._work(name)
            finally:
                self._working.discard(name)
            self._worked(name, done=done)

    def _worked(self, name: str, *, done: bool) -> None:
        if done:
            self._failing.pop(name, None)
        if name in self._again:
            self._again.discard(name)
            self.add(name)
        elif not done:
            backoff = self._failing.setdefault(name, Backoff(initial=self._initial, cap=self._cap, rng=self._rng))
            # Full jitter may give next to nothing, which would be a loop.
            pause = self._initial / 4 + backoff.next()
            self._paused[name] = asyncio.get_running_loop().call_later(pause, self.add, name)


class Outcomes:
    """What became of the work on many names, as one duty: done while it is done for each of them.

    Args:
        report: The duty.
        step: What is done for a name.
    """

    def __init__(self, report: Report, step: str) -> None:
        self._report = report
        self._step = step
        self.failing: dict[str, str] = {}

    def done(self, name: str) -> None:
        """The work on a name is done, or the name is gone."""
        self.failing.pop(name, None)
        if self.failing:
            self._tell()
        else:
            self._report.succeeded()

    def failed(self, name: str, reason: str) -> None:
        """The work on a name failed, in one sentence."""
        self.failing[name] = reason
        self._tell()

    def _tell(self) -> None:
        name, reason = next(iter(self.failing.items()))
        others = len(self.failing) - 1
        more = f"; {others} other{'s' if others > 1 else ''} failed too" if others else ""
        self._report.failed(self._step, f"{name}: {reason}{more}" if name else f"{reason}{more}")
