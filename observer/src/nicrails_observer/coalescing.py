"""When to look at the records: soon after a Node is lost, once after many are."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How long to wait for more of the same.

    Attributes:
        quiet: Seconds without another lost Node after which it is over.
        limit: Seconds after which it is over anyhow.
    """

    quiet: float
    limit: float


FEW = Window(quiet=0.01, limit=0.05)
"""A Node or a few: the record is to be gone within a quarter of a second, the reads and the patch included."""
MANY = Window(quiet=0.5, limit=5.0)
"""A mass removal, which a server serves for seconds: a patch rewrites the whole ConfigMap, so few patches are better
than early ones."""
MANY_ARE_MORE_THAN = 10
"""Lost Nodes in one window."""


class Coalescer:
    """Collects what happens into as few looks as is sensible.

    Args:
        interval: Seconds after which to look although nothing is known to have happened, give or take a tenth.
        rng: For jitter.
        few: The window for a few lost Nodes.
        many: The window for many.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        interval: float,
        rng: random.Random,
        few: Window = FEW,
        many: Window = MANY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval = interval
        self._rng = rng
        self._few = few
        self._many = many
        self._clock = clock
        self._rung = asyncio.Event()
        self._all = False
        self._lost = 0

    def all_changed(self) -> None:
        """Every record must be looked at, now."""
        self._all = True
        self._rung.set()

    def node_lost(self) -> None:
        """A Node is gone or was replaced; more may follow."""
        self._lost += 1
        self._rung.set()

    async def wait(self) -> None:
        """Return when it is time to look: after something has happened, or at the end of the interval.

        What happens from then on counts for the next look.
        """
        if await self._ring(self._interval * self._rng.uniform(0.9, 1.1)):
            started = self._clock()
            while not self._all:
                window = self._many if self._lost > MANY_ARE_MORE_THAN else self._few
                left = started + window.limit - self._clock()
                self._rung.clear()
                if left <= 0 or not await self._ring(min(left, window.quiet)):
                    break
        self._all = False
        self._lost = 0
        self._rung.clear()

    async def _ring(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            return False
        return True
