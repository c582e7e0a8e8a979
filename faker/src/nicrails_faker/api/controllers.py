"""The controllers without which an API server does not behave like a cluster, and the task that runs them."""

from __future__ import annotations

import asyncio

from nicrails_faker.api import deletion
from nicrails_faker.api.garbage import GarbageCollector, Target
from nicrails_faker.api.operations import Operations
from nicrails_faker.api.options import Call, DeleteOptions
from nicrails_faker.api.resources import Resource, Table
from nicrails_faker.api.status import StatusError
from nicrails_faker.api.store import Event, Key

_AT_ONCE = 100
"""How many objects are settled before requests get their turn."""


class Controllers:
    """The garbage collector, and the controller that empties namespaces; ``run`` works until it is cancelled.

    Args:
        operations: Changes objects.
        table: The resources.
        delay: Seconds between a change and what follows from it: the real controllers are not at once either.
    """

    def __init__(self, operations: Operations, table: Table, *, delay: float) -> None:
        self._operations = operations
        self._collector = GarbageCollector(operations, table)
        self._namespaces = table.of_kind("v1", "Namespace")
        self._delay = delay
        self._pending: dict[Target, None] = {}
        self._emptying: dict[str, None] = {}
        self._work = asyncio.Event()
        operations.store.observe(self._observe)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._work.wait()
            await asyncio.sleep(self._delay)
            self._work.clear()
            pending, self._pending = self._pending, {}
            emptying, self._emptying = self._emptying, {}
            for number, target in enumerate(pending, 1):
                self._collector.settle(target)
                if number % _AT_ONCE == 0:
                    await asyncio.sleep(0)
            for name in emptying:
                await self._empty(name)

    def _observe(self, resource: Resource, event: Event) -> None:
        self._pending.update(dict.fromkeys(self._collector.concerned(resource, event)))
        if resource is self._namespaces:
            if event.kind != "DELETED" and self._is_dying(event.stored.key[1]):
                self._emptying[event.stored.key[1]] = None
        elif event.kind == "DELETED" and self._is_dying(event.stored.key[0]):
            self._emptying[event.stored.key[0]] = None
        if self._pending or self._emptying:
            self._work.set()

    def _is_dying(self, namespace: str) -> bool:
        found = self._operations.store.find(self._namespaces, ("", namespace)) if self._namespaces else None
        return found is not None and "deletionTimestamp" in found.document["metadata"]

    async def _empty(self, namespace: str) -> None:
        """Delete what is in a namespace, and the namespace itself once nothing is."""
        left = False
        for collection in self._operations.store:
            mine = [key for key in collection.objects if key[0] == namespace and collection.resource.namespaced]
            for number, key in enumerate(mine, 1):
                left = not self._delete(collection.resource, key) or left
                if number % _AT_ONCE == 0:
                    await asyncio.sleep(0)
        if not left and self._namespaces is not None and self._is_dying(namespace):
            self._operations.store.remove(self._namespaces, ("", namespace))

    def _delete(self, resource: Resource, key: Key) -> bool:
        found = self._operations.store.find(resource, key)
        if found is None:
            return True
        if "deletionTimestamp" in found.document["metadata"]:
            return False
        try:
            return deletion.delete(self._operations, resource, key, DeleteOptions(), Call()).gone
        except StatusError:
            return False
