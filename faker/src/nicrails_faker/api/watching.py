"""Watches: the events of a collection from a revision on, as a client with selectors sees them.

A watch keeps no queue of its own: it reads on in the collection's window. One that falls behind the window ends, as the
server ends a watch that can not keep up.

Source: k8s.io/apiserver, pkg/storage/cacher/cache_watcher.go and pkg/endpoints/handlers/watch.go.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from nicrails_faker.api import status
from nicrails_faker.api.label_selectors import Predicate, everything
from nicrails_faker.api.negotiation import PARTIAL_LIST, Form
from nicrails_faker.api.store import Collection, Event, Store, Stored

Json = dict[str, Any]

LAST_BOOKMARKS = (2.0, 1.0)
"""Seconds before the end of a watch at which bookmarks are due besides the regular ones."""
DEFAULT_TIMEOUT = 1800.0
"""Seconds until a watch ends for which the client has set no time; the real server takes 30 to 60 minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """What a watch request asks for.

    Attributes:
        namespace: Only this one; empty: all.
        revision: Events after this one; 0: the current objects first, as if they were just added.
        selector: Which objects.
        bookmarks: Whether the client wants bookmarks.
        initial_events: The current objects first whatever ``revision`` is, then a bookmark that says so.
        timeout: Seconds until the server ends the watch.
        bookmark_interval: Seconds between bookmarks.
    """

    namespace: str = ""
    revision: int = 0
    selector: Predicate = everything
    bookmarks: bool = False
    initial_events: bool = False
    timeout: float = DEFAULT_TIMEOUT
    bookmark_interval: float = 60.0


def frame(kind: str, encoded: bytes) -> bytes:
    """One line of a watch."""
    return b'{"type":"' + kind.encode() + b'","object":' + encoded + b"}\n"


def error(refusal: status.StatusError) -> bytes:
    """An ``ERROR`` event."""
    return frame("ERROR", orjson.dumps(refusal.status))


class Watch:
    """One watch under way.

    Args:
        store: For the current revision.
        collection: What is watched.
        form: How objects are shown.
        options: What is asked for.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        store: Store,
        collection: Collection,
        form: Form,
        options: WatchOptions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._collection = collection
        self._form = form
        self._options = options
        self._clock = clock
        self._changed = asyncio.Event()
        self._stopped = False
        self._sent = options.revision
        self._ends = clock() + options.timeout
        self._due = self._next_bookmark()

    def stop(self) -> None:
        """End the watch in order, as a server that goes down does."""
        self._stopped = True
        self._changed.set()

    async def lines(self) -> AsyncGenerator[bytes]:
        """The lines of the answer; ends at the timeout."""
        if self._options.timeout < 0:
            yield error(status.StatusError(500, "InternalError", "context deadline exceeded"))
            return
        if self._options.revision < self._collection.floor and not self._from_the_beginning:
            yield error(self._too_old())
            return
        self._collection.listen(self._changed.set)
        try:
            for line in self._beginning():
                if self._form.kind == PARTIAL_LIST:
                    # The server finds out only here that one object is no list, and hangs up.
                    return
                yield line
            while True:
                self._changed.clear()
                for line in self._news():
                    yield line
                if self._stopped or self._clock() >= self._ends:
                    return
                await self._wait(min(self._ends, self._due or self._ends) - self._clock())
        finally:
            self._collection.ignore(self._changed.set)

    def _news(self) -> Iterator[bytes]:
        events = self._collection.following(self._sent)
        if events is None:
            yield error(self._too_old())
            self._stopped = True
            return
        for event in events:
            self._sent = event.revision
            if line := self._line(event):
                yield line
        if self._due is not None and self._clock() >= self._due:
            self._due = self._next_bookmark()
            # A client may wait for a revision that is yet to come.
            if self._sent <= self._store.revision:
                self._sent = self._store.revision
                yield self._bookmark()

    @property
    def _from_the_beginning(self) -> bool:
        return not self._options.revision or self._options.initial_events

    def _beginning(self) -> Iterator[bytes]:
        options = self._options
        if not self._from_the_beginning:
            return
        self._sent = self._store.revision
        for stored in self._collection.current():
            if self._inside(stored) and options.selector(stored.document):
                yield frame("ADDED", self._form.encode(stored))
        if options.initial_events and options.bookmarks:
            yield self._bookmark({"k8s.io/initial-events-end": "true"})

    def _line(self, event: Event) -> bytes:
        if not self._inside(event.stored):
            return b""
        selects = self._options.selector
        was = event.previous is not None and selects(event.previous.document)
        if event.kind == "DELETED":
            return frame("DELETED", self._form.encode(event.stored)) if was else b""
        if selects(event.stored.document):
            return frame("MODIFIED" if was else "ADDED", self._form.encode(event.stored))
        if was and event.previous is not None:
            return frame("DELETED", self._form.encode(_as_of(event.previous, event.revision)))
        return b""

    def _inside(self, stored: Stored) -> bool:
        return not self._options.namespace or stored.key[0] == self._options.namespace

    def _bookmark(self, annotations: Json | None = None) -> bytes:
        meta: Json = {"resourceVersion": str(self._sent)}
        if annotations:
            meta["annotations"] = annotations
        head = self._form.object_head(self._collection.resource)
        return frame("BOOKMARK", orjson.dumps({**head, "metadata": meta}))

    def _next_bookmark(self) -> float | None:
        if not self._options.bookmarks:
            return None
        now = self._clock()
        last = (self._ends - seconds for seconds in LAST_BOOKMARKS)
        due = [now + self._options.bookmark_interval, *last]
        return min((moment for moment in due if now < moment < self._ends), default=None)

    def _too_old(self) -> status.StatusError:
        return status.expired(f"too old resource version: {self._sent} ({self._collection.floor})")

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._changed.wait()
        except TimeoutError:
            return


def _as_of(stored: Stored, revision: int) -> Stored:
    """An object that has left a selection, as its watchers see it go."""
    metadata = {**stored.document["metadata"], "resourceVersion": str(revision)}
    return Stored(stored.key, {**stored.document, "metadata": metadata}, revision)
