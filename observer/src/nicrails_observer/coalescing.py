"""When to look at the records: soon after a Node is lost, once after many are."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
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


FEW = Window(quiet=0.002, limit=0.02)
"""A Node or a few: the record is to be gone within a quarter of a second, the reads and the patch included. What goes
while the ConfigMap is being read is looked at as well, so there is no need to wait for it."""
MANY = Window(quiet=0.5, limit=5.0)
"""A mass removal, which a server serves for seconds: a patch rewrites the whole ConfigMap, so few patches are better
than early ones."""
MANY_ARE_MORE_THAN = 10
"""Lost Nodes within the quiet time of the window for many: a rate, so that a slow server's mass removal is one, too."""


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
        self._another = asyncio.Event()
        self._lost: deque[float] = deque(maxlen=MANY_ARE_MORE_THAN + 1)

    @property
    def pending(self) -> bool:
        """Whether something has happened since the last :meth:`wait`."""
        return self._rung.is_set()

    def all_changed(self) -> None:
        """Every record must be looked at; this does not wait for more, but lets others that do have their time."""
        self._rung.set()

    def node_lost(self) -> None:
        """A Node is gone or was replaced; more may follow."""
        self._lost.append(self._clock())
        self._another.set()
        self._rung.set()

    async def wait(self) -> None:
        """Return when it is time to look: after something has happened, or at the end of the interval.

        What happens from then on counts for the next look.
        """
        if await _set_within(self._rung, self._interval * self._rng.uniform(0.9, 1.1)):
            started = self._clock()
            while True:
                window = self._many if self._many_lately() else self._few
                left = started + window.limit - self._clock()
                self._another.clear()
                if left <= 0 or not await _set_within(self._another, min(left, window.quiet)):
                    break
        self._rung.clear()

    def _many_lately(self) -> bool:
        full = len(self._lost) == self._lost.maxlen
        return full and self._clock() - self._lost[0] < self._many.quiet


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
