"""Objects, the one revision that counts through all of them, and the window of recent events.

The store has one writer in one event loop: every method is a single step, so nothing needs a lock. A document is never
changed once it is stored; whoever wants another one stores a new one.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from nicrails_faker.api.resources import Resource

Json = dict[str, Any]
Key = tuple[str, str]
"""Namespace (empty for what has none) and name."""

KEEP_BYTES = 64 * 1024
"""Encoded objects up to this size stay in memory as long as the object is known at all."""


WINDOW_BYTES = 512 * 1024 * 1024
"""JSON of all objects in the window of one resource. In memory it is a fraction: versions share what did not change."""


class NotStorableError(ValueError):
    """The object can not be written as JSON: it is nested too deeply, or has an integer that is too long."""


class Stored:
    """One version of one object.

    Attributes:
        key: Namespace and name.
        document: The object; not to be changed.
        revision: Its ``metadata.resourceVersion`` as a number.
        size: Bytes of its JSON.

    Raises:
        NotStorableError: The document can not be written as JSON.
    """

    __slots__ = ("_forms", "document", "key", "revision", "size")

    def __init__(self, key: Key, document: Json, revision: int) -> None:
        self.key = key
        self.document = document
        self.revision = revision
        try:
            self._forms = {"": orjson.dumps(document)}
        except (orjson.JSONEncodeError, RecursionError) as exc:
            raise NotStorableError(str(exc)) from exc
        self.size = len(self._forms[""])

    def encoded(self) -> bytes:
        """The whole object as JSON."""
        return self.form("", lambda document: document)

    def form(self, name: str, build: Callable[[Json], Json]) -> bytes:
        """The JSON of ``build(document)``, remembered under ``name``."""
        found = self._forms.get(name)
        if found is None:
            found = self._forms[name] = orjson.dumps(build(self.document))
        return found

    def retire(self) -> None:
        """Another version has taken its place: large encodings are not worth their memory any more."""
        self._forms = {name: data for name, data in self._forms.items() if len(data) <= KEEP_BYTES}


EventType = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True)
class Event:
    """One change of one object.

    Attributes:
        kind: What happened.
        stored: The object afterwards; for a deletion its last state, with the revision of the deletion.
        previous: The object before, if there was one.
    """

    kind: EventType
    stored: Stored
    previous: Stored | None

    @property
    def revision(self) -> int:
        """The revision of the change."""
        return self.stored.revision


class Collection:
    """All objects of one resource.

    Attributes:
        objects: The current ones.
        floor: Nobody can go on from before this revision.
    """

    def __init__(self, resource: Resource, window: int) -> None:
        self.resource = resource
        self.objects: dict[Key, Stored] = {}
        self.floor = 0
        self._lost = 0
        self._window = window
        self._events: deque[Event] = deque()
        self._size = 0
        self._order: list[Key] | None = None
        self._listeners: set[Callable[[], None]] = set()

    def following(self, revision: int) -> list[Event] | None:
        """The events after ``revision``, oldest first, or None if some of them have left the window.

        For readers who were at ``revision`` already: a compaction does not stop them.
        """
        if revision < self._lost:
            return None
        events = self._events
        if not events or events[-1].revision <= revision:
            return []
        first = bisect.bisect_right(events, revision, key=lambda event: event.revision)
        return [events[index] for index in range(first, len(events))]

    def current(self) -> list[Stored]:
        """The current objects, in order."""
        if self._order is None:
            self._order = sorted(self.objects, key=path)
        return [self.objects[key] for key in self._order]

    def at(self, revision: int) -> list[Stored] | None:
        """The objects as they were at ``revision``, in order, or None if that is forgotten."""
        events = None if revision < self.floor else self.following(revision)
        if not events:
            return None if events is None else self.current()
        past = dict(self.objects)
        for event in reversed(events):
            if event.previous is None:
                past.pop(event.stored.key, None)
            else:
                past[event.stored.key] = event.previous
        return [past[key] for key in sorted(past, key=path)]

    def listen(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` after every change; it must not fail."""
        self._listeners.add(listener)

    def ignore(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` no more."""
        self._listeners.discard(listener)

    def record(self, event: Event) -> None:
        """Take a change over; for the store alone."""
        if event.previous is not None:
            event.previous.retire()
        if event.kind == "DELETED":
            del self.objects[event.stored.key]
            event.stored.retire()
        else:
            self.objects[event.stored.key] = event.stored
        if event.kind != "MODIFIED":
            self._order = None
        self._events.append(event)
        self._size += event.stored.size
        while len(self._events) > self._window or (self._size > WINDOW_BYTES and len(self._events) > 1):
            oldest = self._events.popleft()
            self._size -= oldest.stored.size
            self._lost = oldest.revision
        self.floor = max(self.floor, self._lost)
        for listener in tuple(self._listeners):
            listener()


class Store:
    """All collections under one revision.

    Args:
        resources: What can be stored.
        window: How many events each resource remembers.

    Attributes:
        revision: The revision of the last change.
    """

    def __init__(self, resources: tuple[Resource, ...], *, window: int) -> None:
        self.revision = 1
        self._collections = {resource.identity: Collection(resource, window) for resource in resources}
        self._observers: list[Callable[[Resource, Event], None]] = []

    def __iter__(self) -> Iterator[Collection]:
        return iter(self._collections.values())

    def collection(self, resource: Resource) -> Collection:
        """The objects of a resource."""
        return self._collections[resource.identity]

    def find(self, resource: Resource, key: Key) -> Stored | None:
        """A current object."""
        return self._collections[resource.identity].objects.get(key)

    def observe(self, observer: Callable[[Resource, Event], None]) -> None:
        """Call ``observer`` after every change of any resource; it must not fail."""
        self._observers.append(observer)

    def put(self, resource: Resource, key: Key, document: Json) -> Stored:
        """Store a new object or a new version of one; ``metadata.resourceVersion`` is set here.

        Args:
            resource: What it is an object of.
            key: Its key.
            document: The object, given away to the store with ``metadata`` of its own.

        Raises:
            NotStorableError: It can not be written as JSON; nothing has changed.
        """
        previous = self.find(resource, key)
        stored = self._next(key, document)
        self._record(resource, Event("MODIFIED" if previous else "ADDED", stored, previous))
        return stored

    def remove(self, resource: Resource, key: Key) -> Stored:
        """Remove an object; returns its last state with the revision of the removal."""
        previous = self.collection(resource).objects[key]
        stored = self._next(key, {**previous.document, "metadata": dict(previous.document["metadata"])})
        self._record(resource, Event("DELETED", stored, previous))
        return stored

    def compact(self) -> None:
        """Let nobody go on from before now, as etcd's compaction and a restart of the server do together."""
        for collection in self:
            collection.floor = self.revision

    def _next(self, key: Key, document: Json) -> Stored:
        document["metadata"]["resourceVersion"] = str(self.revision + 1)
        stored = Stored(key, document, self.revision + 1)
        self.revision += 1
        return stored

    def _record(self, resource: Resource, event: Event) -> None:
        self.collection(resource).record(event)
        for observer in self._observers:
            observer(resource, event)


def path(key: Key) -> str:
    """A key as etcd orders it, where ``a-b/x`` comes before ``a/x``."""
    return "/".join(key)
