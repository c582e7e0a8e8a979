"""The Nodes: a cache of name and UID that a watch keeps, and live reads that do not trust it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from nicrails.kube import METADATA, ApiError, KubeClient, Reflector, UnreachableError, path
from nicrails_observer.api import get_or_none

LIVE_READS = 8
"""Nodes that are read at once."""

NODES = path("api", "v1", "nodes")

NodeIdentity = tuple[str, str]
"""A Node's name and UID: all that is kept of it."""


def identity(node: Mapping[str, Any]) -> NodeIdentity:
    """The name and the UID of a Node object.

    Raises:
        KeyError: It has none.
        TypeError: They are no strings.
    """
    name, uid = node["metadata"]["name"], node["metadata"]["uid"]
    if not (isinstance(name, str) and isinstance(uid, str) and name and uid):
        raise TypeError("a Node without name or UID")
    return name, uid


class Bell(Protocol):
    """Who is told that records may have lost their Nodes."""

    def all_changed(self) -> None:
        """Every record must be looked at."""

    def node_lost(self) -> None:
        """A Node is gone or was replaced."""


class NodeCache:
    """The Nodes as the watch last showed them; what the reflector tells.

    Attributes:
        uids: Node UIDs by name.
        synced: Whether a complete list was read at least once; before that, absence means nothing.
    """

    def __init__(self, bell: Bell) -> None:
        self.uids: dict[str, str] = {}
        self.synced = False
        self._bell = bell

    def replaced(self, items: Sequence[NodeIdentity]) -> None:
        """These are all the Nodes."""
        self.uids = dict(items)
        self.synced = True
        self._bell.all_changed()

    def changed(self, item: NodeIdentity) -> None:
        """A Node was added or modified."""
        name, uid = item
        before = self.uids.get(name)
        if before == uid:
            return
        self.uids[name] = uid
        if before is not None:
            self._bell.node_lost()

    def removed(self, item: NodeIdentity) -> None:
        """A Node was deleted; an event that comes late must not remove its successor."""
        name, uid = item
        if self.uids.get(name) == uid:
            del self.uids[name]
            self._bell.node_lost()


class NodeFollower:
    """Runs the reflector, and starts it over where its view has proved wrong.

    Args:
        reflector: Fills the cache.
        cache: What the watch shows.
    """

    def __init__(self, reflector: Reflector[NodeIdentity], cache: NodeCache) -> None:
        self._reflector = reflector
        self._cache = cache
        self._limit: asyncio.Timeout | None = None

    @property
    def uids(self) -> Mapping[str, str]:
        """Node UIDs by name, as the watch shows them."""
        return self._cache.uids

    @property
    def synced(self) -> bool:
        """Whether a complete list was read at least once."""
        return self._cache.synced

    def relist(self) -> None:
        """List all Nodes anew."""
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Follow the Nodes for ever."""
        while True:
            try:
                async with asyncio.timeout(None) as self._limit:
                    await self._reflector.run()
            except TimeoutError:
                # relist() ended it; the reflector begins with a list.
                continue


class LiveNodes:
    """Reads of the Nodes as they are now, from the API server's storage."""

    def __init__(
        self, client: KubeClient, read_all: Callable[[], Awaitable[tuple[Iterable[NodeIdentity], str]]]
    ) -> None:
        self._client = client
        self._read_all = read_all

    async def all(self) -> dict[str, str]:
        """The UIDs of all Nodes by name, from one complete, consistent list.

        Raises:
            ApiError: A page failed.
        """
        items, _ = await self._read_all()
        return dict(items)

    async def each(self, names: Collection[str]) -> dict[str, str | None]:
        """The UIDs of these Nodes; None for one that does not exist.

        Raises:
            ApiError: One of them could not be read.
        """
        gate = asyncio.Semaphore(LIVE_READS)

        async def read(name: str) -> str | None:
            async with gate:
                return await self._read(name)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = {name: group.create_task(read(name), name=f"read-node-{name}") for name in names}
        except ExceptionGroup as errors:
            first = errors.exceptions[0]
            if isinstance(first, ApiError):
                raise first from errors
            raise
        return {name: task.result() for name, task in tasks.items()}

    async def _read(self, name: str) -> str | None:
        node = await get_or_none(self._client, path("api", "v1", "nodes", name), accept=METADATA)
        if node is None:
            return None
        found, uid = identity(node)
        if found != name:
            raise UnreachableError(f"GET {NODES}/{name}", f"the answer is another Node: {found[:253]!r}")
        return uid
