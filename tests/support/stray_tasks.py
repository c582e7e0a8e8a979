"""An asynchronous test fails when a task outlives it: a task without an owner is a fault of the code under test.

This is a pytest plugin; ``tests/conftest.py`` loads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio


@pytest.fixture(autouse=True)
def _no_stray_tasks(request: pytest.FixtureRequest) -> None:
    # Set up before a test's own fixtures and so torn down after them: what they clean up is not stray.
    if pytest_asyncio.is_async_test(request.node):
        request.getfixturevalue("_watch_tasks")


@pytest_asyncio.fixture
async def _watch_tasks() -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    yield
    stray = asyncio.all_tasks() - before - {asyncio.current_task()}
    if stray:
        # What is just finishing (a connection's clean-up) may finish.
        _, stray = await asyncio.wait(stray, timeout=1)
    if stray:
        pytest.fail(f"tasks outlived the test: {', '.join(sorted(map(repr, stray)))[:2000]}", pytrace=False)
