"""A fault of the embedded API: a watch that goes silent and, when told to, ends because it was too slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from nicrails_faker.api import Stall, error_event


@dataclass(frozen=True, slots=True, kw_only=True)
class Curtain(Stall):
    """Show the first events of a watch and no more, though there are some.

    Attributes:
        rises: When set, the watch ends with 410, so that its client has to list again.
    """

    rises: asyncio.Event

    async def strike(self, line: bytes) -> AsyncGenerator[bytes]:
        """Nothing, and then the end."""
        del line
        await self.rises.wait()
        yield error_event(410, "Expired", "too old resource version")
