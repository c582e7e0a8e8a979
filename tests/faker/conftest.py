"""Fixtures of the faker's services."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.faker.scene import Scene, embedded


@pytest_asyncio.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """A scene on an embedded cluster of its own."""
    async with embedded(tmp_path) as (_, made):
        yield made
