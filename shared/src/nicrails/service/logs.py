"""Logs: one JSON object a line on standard error, one event a fact, nothing unprintable, no floods."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, MutableMapping
from typing import Any, TextIO

import orjson
import structlog

from nicrails.text import excerpt

MAX_VALUE = 1024
REPEAT_PERIOD = 60.0
"""Seconds within which the same warning or error is written once and then counted."""
MAX_REMEMBERED = 256

EventDict = MutableMapping[str, Any]


class RepeatFilter:
    """Lets the same warning or error through once a minute and says how many were held back in between."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[tuple[object, ...], tuple[float, int]] = {}

    def __call__(self, _logger: object, method: str, event: EventDict) -> EventDict:
        """A structlog processor."""
        if method not in ("warning", "error"):
            return event
        key = (event.get("event"), event.get("step"), str(event.get("reason", ""))[:MAX_VALUE])
        now = self._clock()
        written, held = self._seen.get(key, (-REPEAT_PERIOD, 0))
        if now - written < REPEAT_PERIOD:
            self._seen[key] = (written, held + 1)
            raise structlog.DropEvent
        if held:
            event["repeated"] = held
        self._seen.pop(key, None)
        if len(self._seen) >= MAX_REMEMBERED:
            self._seen.pop(next(iter(self._seen)))
        self._seen[key] = (now, 0)
        return event


def _printable(_logger: object, _method: str, event: EventDict) -> EventDict:
    # Neighbours, commands and servers choose parts of these texts.
    return {
        excerpt(str(key), 64): excerpt(value, MAX_VALUE) if isinstance(value, str) else value
        for key, value in event.items()
    }


def _serialize(_logger: object, _method: str, event: EventDict) -> str:
    return orjson.dumps(
        event, default=lambda value: excerpt(str(value), MAX_VALUE), option=orjson.OPT_NON_STR_KEYS
    ).decode()


class _Foreign(logging.Handler):
    """What libraries log, in our form."""

    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger().log(
            record.levelno if record.levelno in (10, 20, 30, 40, 50) else logging.WARNING,
            "library-message",
            logger=record.name,
            reason=record.getMessage(),
        )


def configure(level: str = "info", stream: TextIO | None = None) -> None:
    """Set up structlog, and route the standard library's loggers into it.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``.
        stream: Where lines go; standard error by default.
    """
    threshold = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            RepeatFilter(),
            structlog.processors.format_exc_info,
            _printable,
            _serialize,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(file=stream or sys.stderr),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers[:] = [_Foreign()]
    root.setLevel(max(threshold, logging.WARNING))
