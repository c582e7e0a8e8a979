"""A program that a test runs in this process configures the log; the next test must not write to that program's stream.

This is a pytest plugin; ``tests/conftest.py`` loads it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _clean_logs() -> Iterator[None]:
    """Give structlog and the root logger back as they were."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)
