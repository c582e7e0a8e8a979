"""Following a collection: list it in pages, watch it from there, and list again whenever the thread may be lost.

Source: the contract of list and watch, https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import orjson

from nicrails.kube.backoff import Backoff
from nicrails.kube.client import METADATA, METADATA_LIST, KubeClient
from nicrails.kube.errors import ApiError, GoneError, UnreachableError, error_from_answer
from nicrails.text import excerpt

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

PAGE_SIZE = 50
"""Objects a page. Real Nodes carry several KB of metadata each; small pages keep both the memory that a page takes and
the time for which it holds the event loop small, and cost little, since the server answers them from its cache."""
SERVER_TIMEOUT = (240, 480)
"""Seconds after which the server ends a watch; jittered, or all watchers come back at one moment."""
SILENCE = 80.0
"""Seconds without a byte after which a watch counts as dead; the server sends a bookmark about once a minute."""
MAX_LIST_RESTARTS = 5


class Sink(Protocol[T_contra]):
    """Who is told about the collection."""

    def replaced(self, items: Sequence[T_contra]) -> None:
        """A complete list was read: these are all the objects there are."""

    def changed(self, item: T_contra) -> None:
        """An object was added or modified."""

    def removed(self, item: T_contra) -> None:
        """An object was deleted; this is its last state."""


class Observer(Protocol):
    """Who is told how it goes, for metrics, logs and health."""

    def listed(self, count: int, seconds: float) -> None:
        """A complete list was read."""

    def restarted(self, reason: str) -> None:
        """The watch ended: ``timeout``, ``gone``, ``cut``, ``silent``, ``refused``."""

    def failed(self, error: ApiError) -> None:
        """A list or a watch failed; it is tried again after a pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection(Generic[T]):
    """What to follow.

    Attributes:
        path: Of the collection, such as ``/api/v1/nodes``.
        extract: Makes what the sink gets of one JSON object; keeps only what is needed.
        field_selector: As in the API, or "".
        label_selector: As in the API, or "".
        metadata_only: Ask for ``PartialObjectMetadata`` instead of whole objects.
    """

    path: str
    extract: Callable[[Mapping[str, Any]], T]
    field_selector: str = ""
    label_selector: str = ""
    metadata_only: bool = True

    def query(self) -> dict[str, str | int]:
        """The selectors as query parameters."""
        query: dict[str, str | int] = {}
        if self.field_selector:
            query["fieldSelector"] = self.field_selector
        if self.label_selector:
            query["labelSelector"] = self.label_selector
        return query


class Reflector(Generic[T]):
    """Keeps a sink informed about a collection until it is cancelled.

    Args:
        client: The API server.
        collection: What to follow.
        sink: Gets the objects; its methods must not block.
        observer: Gets the events of the reflector itself.
        rng: For jitter.
        clock: Monotonic seconds.
        silence: Seconds of silence after which a watch counts as dead.
    """

    def __init__(
        self,
        client: KubeClient,
        collection: Collection[T],
        sink: Sink[T],
        observer: Observer,
        *,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
        silence: float = SILENCE,
    ) -> None:
        self._client = client
        self._collection = collection
        self._sink = sink
        self._observer = observer
        self._rng = rng or random.Random()  # noqa: S311  (jitter)
        self._clock = clock
        self._silence = silence

    async def run(self) -> None:
        """Follow the collection for ever; faults of the API are told to the observer and outlived."""
        backoff = Backoff(rng=self._rng)
        while True:
            started = self._clock()
            try:
                await self._watch(await self._list())
            except ApiError as error:
                # A watch that has expired is no fault, but all watchers of a restarted server are told so at one moment.
                if isinstance(error, GoneError):
                    self._observer.restarted("gone")
                else:
                    self._observer.failed(error)
                # Only a thread that held for a while makes this a fresh fault: a list may succeed each time while
                # every watch is refused or cut, and the whole collection must not be listed in a loop.
                if self._clock() - started > backoff.cap:
                    backoff.reset()
                await asyncio.sleep(backoff.next(error.retry_after))

    async def read_all(self) -> tuple[Sequence[T], str]:
        """Read the whole collection in pages.

        Returns:
            All objects and the resourceVersion to watch from.

        Raises:
            ApiError: A page failed; half a list is never returned.
        """
        for _ in range(MAX_LIST_RESTARTS - 1):
            try:
                return await self._pages()
            except GoneError:
                # The snapshot that the continue token named is gone; only a new list is consistent.
                continue
        return await self._pages()

    async def _list(self) -> str:
        started = self._clock()
        items, version = await self.read_all()
        self._observer.listed(len(items), self._clock() - started)
        self._sink.replaced(items)
        return version

    async def _pages(self) -> tuple[list[T], str]:
        items: list[T] = []
        query = self._collection.query() | {"limit": PAGE_SIZE}
        accept = METADATA_LIST if self._collection.metadata_only else "application/json"
        while True:
            answer = await self._client.request("GET", self._collection.path, query=query, accept=accept)
            page = answer.object()
            metadata = page.get("metadata")
            found = page.get("items")
            if not isinstance(metadata, dict) or not isinstance(found, (list, type(None))):
                raise UnreachableError(answer.request, f"the answer is not a list: {excerpt(answer.body)}")
            items.extend(self._extract(answer.request, item) for item in found or ())
            version = metadata.get("resourceVersion")
            if not isinstance(version, str) or not version:
                raise UnreachableError(answer.request, "a list without a resourceVersion")
            token = metadata.get("continue")
            if not token:
                return items, version
            query["continue"] = token
            # Pages may be large; let others run between two of them.
            await asyncio.sleep(0)

    async def _watch(self, version: str) -> None:
        """Watch until the thread is lost, which is an error; an end by the server's timeout is not.

        Raises:
            ApiError: The collection must be listed again.
        """
        while True:
            progressed = False
            query = self._collection.query() | {
                "watch": 1,
                "allowWatchBookmarks": "true",
                "resourceVersion": version,
                "timeoutSeconds": self._rng.randint(*SERVER_TIMEOUT),
            }
            started = self._clock()
            try:
                async with self._client.stream(
                    self._collection.path,
                    query=query,
                    accept=METADATA if self._collection.metadata_only else "application/json",
                    read_timeout=self._silence,
                ) as lines:
                    async for seen in self._events(lines):
                        version, progressed = seen, True
            except GoneError:
                raise
            except UnreachableError:
                silent = self._clock() - started >= self._silence
                self._observer.restarted("silent" if silent else "cut")
                raise
            except ApiError:
                self._observer.restarted("refused")
                raise
            self._observer.restarted("timeout")
            if not progressed and self._clock() - started < 1.0:
                # A server that ends every watch at once must not be asked in a loop.
                await asyncio.sleep(self._rng.uniform(0.5, 1.5))

    async def _events(self, lines: AsyncIterator[bytes]) -> AsyncIterator[str]:
        """Hand on events; yields the resourceVersion after each."""
        name = f"GET {self._collection.path}?watch"
        async for line in lines:
            try:
                event = orjson.loads(line)
                kind, item = event["type"], event["object"]
                metadata = item["metadata"] if kind != "ERROR" else {}
            except (orjson.JSONDecodeError, KeyError, TypeError) as error:
                raise UnreachableError(name, f"not a watch event: {excerpt(line)}") from error
            if kind == "ERROR":
                code = item.get("code") if isinstance(item, dict) else None
                raise error_from_answer(name, code if isinstance(code, int) else 500, {}, orjson.dumps(item))
            version = metadata.get("resourceVersion")
            if not isinstance(version, str) or not version:
                raise UnreachableError(name, f"a watch event without a resourceVersion: {excerpt(line)}")
            if kind in ("ADDED", "MODIFIED"):
                self._sink.changed(self._extract(name, item))
            elif kind == "DELETED":
                self._sink.removed(self._extract(name, item))
            elif kind != "BOOKMARK":
                raise UnreachableError(name, f"unknown type of watch event {excerpt(str(kind), 40)!r}")
            yield version

    def _extract(self, name: str, item: Any) -> T:  # noqa: ANN401  (JSON)
        try:
            return self._collection.extract(item)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UnreachableError(name, f"an object of an unexpected form: {type(error).__name__}: {error}") from error
