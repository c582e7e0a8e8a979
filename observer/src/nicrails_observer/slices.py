"""Large things in small parts: for the event loop, and for a reader of the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

SLICE = 64 * 1024
"""Characters of documents that are parsed before others get to run: a few milliseconds."""
MAX_NAMES = 20
"""Names in one log line."""


async def sliced(records: Mapping[str, str]) -> AsyncIterator[list[tuple[str, str]]]:
    """The records in parts; other tasks run between two of them."""
    part: list[tuple[str, str]] = []
    length = 0
    for key, document in records.items():
        part.append((key, document))
        length += len(document)
        if length >= SLICE:
            yield part
            part, length = [], 0
            await asyncio.sleep(0)
    yield part


def some(names: Sequence[str]) -> str:
    """The first three names, and how many more there are."""
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown
