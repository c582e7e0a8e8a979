"""What can go wrong with a request on demand: what an API server, or a proxy before it, does on a bad day."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from nicrails_faker.api import status, watching

Json = dict[str, Any]


class CutConnectionError(Exception):
    """The connection is to be cut here, after what was sent so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Respond:
    """Answer with this instead of serving the request; nothing is applied.

    Attributes:
        status: HTTP status.
        body: The answer's body; a mapping is sent as JSON.
        headers: Further headers, such as ``Retry-After``.
        content_type: Its type; by default JSON for a mapping and plain text for the rest.
    """

    status: int
    body: str | bytes | Mapping[str, Any] = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = ""

    @property
    def encoded(self) -> bytes:
        """The body as bytes."""
        if isinstance(self.body, str):
            return self.body.encode()
        return self.body if isinstance(self.body, bytes) else orjson.dumps(dict(self.body))

    @property
    def media_type(self) -> str:
        """The body's type."""
        return self.content_type or ("application/json" if isinstance(self.body, Mapping) else "text/plain")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseAnswer:
    """Serve the request, then answer with something else: the client can not know what happened.

    Attributes:
        instead: The answer that the client gets; None: the connection is cut.
    """

    instead: Respond | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """Do not answer for a while, then serve the request.

    Attributes:
        seconds: How long; None: until the client gives up.
    """

    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Cut the connection before any answer; nothing is applied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchAction:
    """Something that happens within a watch, when the line after ``after`` others is due.

    Attributes:
        after: How many lines are sent in order before.
    """

    after: int = 0

    async def apply(self, lines: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
        """The lines that are really sent.

        Raises:
            CutConnectionError: The connection is to be cut.
        """
        sent = 0
        async for line in lines:
            if sent == self.after:
                async for changed in self.strike(line):
                    yield changed
                return
            sent += 1
            yield line

    async def strike(self, line: bytes) -> AsyncGenerator[bytes]:
        """What is sent instead of ``line``; the watch ends afterwards."""
        yield line


@dataclass(frozen=True, slots=True, kw_only=True)
class CutEvent(WatchAction):
    """Send the event up to its middle, then cut the connection."""

    async def strike(self, line: bytes) -> AsyncGenerator[bytes]:
        """Half a line."""
        yield line[: len(line) // 2]
        raise CutConnectionError


@dataclass(frozen=True, slots=True, kw_only=True)
class EndWatch(WatchAction):
    """End the watch in order, in the place of the event.

    Attributes:
        line: Sent as the last line, such as garbage or an ``ERROR`` event; may be empty.
    """

    line: bytes = b""

    async def strike(self, line: bytes) -> AsyncGenerator[bytes]:
        """The last line."""
        del line
        if self.line:
            yield self.line


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall(WatchAction):
    """Send nothing any more, though there are events, and keep the connection open."""

    async def strike(self, line: bytes) -> AsyncGenerator[bytes]:
        """Nothing, for ever."""
        await asyncio.Event().wait()
        yield line


@dataclass(frozen=True, slots=True, kw_only=True)
class NoBookmarks(WatchAction):
    """Leave bookmarks out, as a server may."""

    async def apply(self, lines: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
        """All lines but the bookmarks."""
        async for line in lines:
            if not line.startswith(b'{"type":"BOOKMARK"'):
                yield line


def error_event(code: int, reason: str, message: str) -> bytes:
    """An ``ERROR`` event, for :class:`EndWatch`."""
    return watching.error(status.StatusError(code, reason, message))


Action = Respond | LoseAnswer | Hang | Cut | WatchAction
"""What a fault does."""
