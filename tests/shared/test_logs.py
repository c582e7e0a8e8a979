from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import orjson
import pytest
import structlog

from nicrails.service import logs


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What is logged."""
    stream = io.StringIO()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    logs.configure("info", stream)
    yield stream
    structlog.reset_defaults()
    root.handlers[:], root.level = handlers, level


def test_one_json_object_a_line(lines: io.StringIO) -> None:
    """Each event is one line of JSON with its level and a UTC time."""
    structlog.get_logger().info("published", node="node1", size=5)
    structlog.get_logger().debug("not shown")
    (line,) = lines.getvalue().splitlines()
    event = orjson.loads(line)
    assert (event["event"], event["level"], event["node"], event["size"]) == ("published", "info", "node1", 5)
    assert event["timestamp"].endswith("Z")


def test_foreign_text_can_not_reach_the_terminal(lines: io.StringIO) -> None:
    """No value and no key brings a control character, a terminal escape or a new line into the log."""
    structlog.get_logger().info("neighbour", **{"na\x1bme": "x\n\x1b[2J\x9b1m\u202e", "large": "y" * 100_000})
    text = lines.getvalue()
    assert text.count("\n") == 1
    assert text.strip("\n").isprintable()
    assert len(text) < 3000


def test_floods_are_held_back() -> None:
    """F14: the same failure is written once a minute, with the number of those held back in between."""
    seconds = 0.0
    keep = logs.RepeatFilter(clock=lambda: seconds)
    event = {"event": "failed", "step": "publish", "reason": "no"}
    assert keep(None, "warning", dict(event)) == event
    for _ in range(500):
        with pytest.raises(structlog.DropEvent):
            keep(None, "warning", dict(event))
    assert keep(None, "warning", event | {"reason": "other"})["reason"] == "other"
    assert keep(None, "info", dict(event)) == event
    seconds = 61.0
    assert keep(None, "warning", dict(event)) == event | {"repeated": 500}


def test_memory_of_repeats_is_bounded() -> None:
    """Endlessly different failures do not make the filter grow."""
    keep = logs.RepeatFilter(clock=lambda: 0.0)
    for number in range(10_000):
        keep(None, "error", {"event": "failed", "reason": str(number)})
    assert len(keep._seen) <= logs.MAX_REMEMBERED


def test_libraries_log_in_our_form(lines: io.StringIO) -> None:
    """What a library logs through the standard library comes out as one of our lines."""
    logging.getLogger("aiohttp").warning("odd\x1b")
    event = orjson.loads(lines.getvalue())
    assert (event["event"], event["logger"], event["reason"]) == ("library-message", "aiohttp", "odd\\x1b")
