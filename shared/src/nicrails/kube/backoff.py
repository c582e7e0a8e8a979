"""How long to wait before the next try."""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Backoff:
    """Exponential back-off with full jitter: the n-th delay is uniform between 0 and ``min(cap, initial * 2**n)``.

    Full jitter spreads many clients that failed at one moment over the whole window.

    Attributes:
        initial: The first upper bound, in seconds.
        cap: The greatest upper bound, in seconds.
        rng: Where the jitter comes from.
    """

    initial: float = 0.8
    cap: float = 30.0
    rng: random.Random = field(default_factory=random.Random)
    failures: int = 0

    def next(self, at_least: float | None = None) -> float:
        """The next delay in seconds; with a server's Retry-After, that and up to half as much again."""
        bound = min(self.cap, self.initial * 2.0 ** min(self.failures, 32))
        self.failures += 1
        if at_least is not None:
            return at_least + self.rng.uniform(0.0, max(at_least / 2, self.initial))
        return self.rng.uniform(0.0, bound)

    def reset(self) -> None:
        """Start over after a success."""
        self.failures = 0
