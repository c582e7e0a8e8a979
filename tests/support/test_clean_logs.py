"""The log is as it was after each test."""

from __future__ import annotations

import io

import structlog

from nicrails.service.logs import configure


def test_a_test_may_configure_the_log() -> None:
    """What one test does to the log ends with it: here it writes to a stream that is closed afterwards."""
    stream = io.StringIO()
    configure(stream=stream)
    structlog.get_logger().warning("written")
    assert "written" in stream.getvalue()
    stream.close()


def test_the_next_test_can_log() -> None:
    """The closed stream of the test before is not written to any more."""
    structlog.get_logger().warning("still there")
    assert not structlog.is_configured()
