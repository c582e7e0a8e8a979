"""Brings what a Node's annotation asks for into its topology, and says so when the Node advertises it.

Each look at a Node does the one step that is due, from what the watches show, so nothing is waited for and a restart goes on
where it was: the state ``pending``, then the topology, then, when the Node advertises it, labels, mapping and ``success`` in
one patch. A request that cannot be met, or that is not taken in time, ends as ``failed`` with the old state whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import structlog

from nicrails_faker.mig import MigError, NodeTopology
from nicrails_faker.migfaker.metrics import Metrics
from nicrails_faker.migfaker.requests import goal, restored, same_layout
from nicrails_faker.migfaker.seen import DYNAMIC_LABEL, SeenNode, difference
from nicrails_faker.migfaker.teller import SUCCESS, Options, Teller
from nicrails_faker.topologies.config_maps import ADVERTISED_ANNOTATION, Stored
from nicrails_faker.topologies.documents import Document, Unreadable
from nicrails_faker.topologies.store import TopologyStore
from nicrails_faker.working import Cache


class Restarts(Protocol):
    """Who makes a device plugin read the topology that does not follow it."""

    async def restart(self, node: str) -> None:
        """Restart the device plugin of a Node."""


@dataclass(slots=True, kw_only=True)
class _Wait:
    """A topology that was written and that the Node does not advertise yet.

    Attributes:
        uid: The Node's UID.
        config: The request.
        before: The topology before it; None after a restart.
        written: The topology with it.
        since: Monotonic seconds of the write.
        restarted: The device plugin was restarted, where it does not follow by itself.
        failure: It was not taken in time and has been taken back, which the Node has still to be told.
    """

    uid: str
    config: str | None
    before: NodeTopology | None
    written: NodeTopology
    since: float
    restarted: bool = False
    failure: str = ""


class Reconciler:
    """Serves the requests of Nodes.

    Args:
        store: The topologies.
        nodes: The Nodes as they are seen.
        documents: Their topologies as they are seen; has what was written at once.
        teller: Tells Nodes.
        options: How requests are served.
        metrics: Counts.
        wake: Has a Node looked at again after so many seconds.
        plugin: Restarts the device plugin after a write; None where it follows by itself.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        store: TopologyStore,
        nodes: Cache[SeenNode],
        documents: Cache[Document],
        teller: Teller,
        *,
        options: Options,
        metrics: Metrics,
        wake: Callable[[str, float], None],
        plugin: Restarts | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._nodes = nodes
        self._documents = documents
        self._teller = teller
        self._options = options
        self._metrics = metrics
        self._wake = wake
        self._plugin = plugin
        self._clock = clock
        # What is remembered between two looks; a restart may forget it.
        self._waits: dict[str, _Wait] = {}
        self._given_up: dict[str, tuple[str, str | None]] = {}
        self._told: set[str] = set()

    async def reconcile(self, name: str) -> str:
        """Do the step that is due for a Node.

        Returns:
            Why its state is not what it is to be, in one sentence; "" where nothing is wrong. A request that is refused is
            nothing wrong: the Node says so.

        Raises:
            ConflictError: The Node or its topology has changed since they were seen; look again.
            ApiError: A request failed.
        """
        node, document = self._nodes.items.get(name), self._documents.items.get(name)
        if node is None:
            self._waits.pop(name, None)
            self._given_up.pop(name, None)
            return ""
        if document is None:
            return f"there is no topology for it; give it the label of a pool that ConfigMap {self._store.name} has"
        if isinstance(document, Unreadable):
            return document.reason
        if node.is_dynamic and not (node.config is None and node.state is None):
            await self._serve(node, document)
            return ""
        if not node.is_dynamic and node.config is not None and node.uid not in self._told:
            self._told.add(node.uid)
            structlog.get_logger().info("mig-config-ignored", node=name, missing=f"{DYNAMIC_LABEL}=true")
        self._waits.pop(name, None)
        await self._teller.follow(node, document.topology)
        return ""

    async def _serve(self, node: SeenNode, document: Stored) -> None:
        name, request = node.name, (node.uid, node.config)
        if self._given_up.get(name, request) != request:
            del self._given_up[name]
        wait = self._waits.get(name)
        if wait is not None and (wait.uid != node.uid or (wait.failure and wait.config != node.config)):
            del self._waits[name]
            wait = None
        if wait is not None and wait.failure:
            await self._give_up(node, wait)
            return
        try:
            wanted = goal(document.topology, node.config)
        except MigError as error:
            self._waits.pop(name, None)
            await self._teller.failed(node, str(error), "refused")
            await self._teller.follow(self._nodes.items.get(name, node), document.topology)
            return
        if wanted != document.topology:
            if name in self._given_up:
                await self._teller.follow(node, document.topology)
            else:
                await self._write(node, document, wanted)
            return
        await self._written(node, document)

    async def _write(self, node: SeenNode, document: Stored, wanted: NodeTopology) -> None:
        await self._teller.pending(node)
        # Of several requests that were not taken yet, the state before the first one is the last whole one.
        wait = self._waits.get(node.name)
        self._begin(node, before=document.topology if wait is None else wait.before, written=wanted)
        self._documents.changed(await self._store.apply(document, wanted))
        structlog.get_logger().info("mig-written", node=node.name, off=node.config is None)
        await self._restart(node.name)

    async def _written(self, node: SeenNode, document: Stored) -> None:
        """The topology says what was asked for; it counts when the Node advertises it."""
        topology = document.topology
        handed_over = document.annotations.get(ADVERTISED_ANNOTATION) if self._options.plugin else None
        missing = difference(node, topology, strict=self._options.strict, handed_over=handed_over)
        if missing and node.name not in self._waits:
            if node.name in self._given_up:
                return
            if node.state == SUCCESS:
                # It was taken once; a kubelet that restarts shows none for a moment.
                await self._teller.follow(node, topology)
                return
            # This process has not written it: it goes on where another one ended.
            await self._teller.pending(node)
            self._begin(node, before=None, written=topology)
        await self._restart(node.name)
        if missing:
            await self._wait(node, self._waits[node.name], missing)
            return
        await self._teller.succeeded(node, topology)
        self._given_up.pop(node.name, None)
        if (wait := self._waits.pop(node.name, None)) is not None:
            self._metrics.duration.observe(self._clock() - wait.since)

    def _begin(self, node: SeenNode, *, before: NodeTopology | None, written: NodeTopology) -> None:
        self._waits[node.name] = _Wait(
            uid=node.uid, config=node.config, before=before, written=written, since=self._clock()
        )
        self._wake(node.name, self._options.taken_within)

    async def _restart(self, name: str) -> None:
        wait = self._waits.get(name)
        if self._plugin is not None and wait is not None and not wait.restarted:
            await self._plugin.restart(name)
            wait.restarted = True

    async def _wait(self, node: SeenNode, wait: _Wait, missing: str) -> None:
        wait.config = node.config
        left = wait.since + self._options.taken_within - self._clock()
        if left > 0:
            self._wake(node.name, left)
            return
        kept = "the slices stay as written"
        if (before := wait.before) is not None:
            now = await self._store.update(node.name, lambda now: restored(now, before=before, written=wait.written))
            if same_layout(now, before):
                kept = "the slices are as before"
            # For it may have been taken at last, just now.
            wait.restarted = False
            await self._restart(node.name)
        wait.failure = f"written, and not taken within {self._options.taken_within:g} s: {missing}; {kept}; check the device plugin"
        await self._give_up(node, wait)

    async def _give_up(self, node: SeenNode, wait: _Wait) -> None:
        await self._teller.failed(node, wait.failure, "not-taken")
        self._given_up[node.name] = (node.uid, wait.config)
        self._waits.pop(node.name, None)
