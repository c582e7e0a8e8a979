"""Keeping who holds what in the topology: the kubelet says it, the document has it."""

from __future__ import annotations

import asyncio
import contextlib
import random

from nicrails.kube import ApiError, Backoff
from nicrails_faker.dcgm.holders import with_holders
from nicrails_faker.dcgm.series import Series, series_of
from nicrails_faker.kubelet import Held, KubeletError, PodResources
from nicrails_faker.mig import NodeTopology
from nicrails_faker.reporting import Report
from nicrails_faker.topologies.config_maps import NoTopologyError, TopologyError
from nicrails_faker.topologies.documents import Unreadable, document_cache
from nicrails_faker.topologies.store import TopologyStore

BREATH = 0.2
"""Seconds that pass at least between two rounds, however often the document changes: somebody may write against us."""

ASK, READ, WRITE = "ask-kubelet", "read-topology", "write-holders"


class Accountant:
    """Asks the kubelet again and again, and writes down what has changed.

    Args:
        node: The Node's name.
        store: The topologies.
        kubelet: Says who holds what.
        asked: How asking goes.
        written: How writing goes.
        interval: Seconds between two questions.
        rng: For jitter.

    Attributes:
        cache: What a reflector tells of the Node's document.
    """

    def __init__(
        self,
        node: str,
        store: TopologyStore,
        kubelet: PodResources,
        *,
        asked: Report,
        written: Report,
        interval: float,
        rng: random.Random | None = None,
    ) -> None:
        self._changed = asyncio.Event()
        self.cache = document_cache(lambda _: self._changed.set())
        self._node = node
        self._store = store
        self._kubelet = kubelet
        self._asked = asked
        self._written = written
        self._interval = interval
        self._backoff = Backoff(initial=interval, rng=rng or random.Random())  # noqa: S311  (jitter)
        self._held: list[Held] | None = None
        self._topology: NodeTopology | None = None

    def series(self) -> tuple[Series, ...]:
        """The Node's series, by the last answer of the kubelet and the last document that could be read."""
        if self._topology is None:
            return ()
        topology = self._topology if self._held is None else with_holders(self._topology, self._held)
        return series_of(topology, self._node)

    async def run(self) -> None:
        """Keep it for ever."""
        while True:
            self._changed.clear()
            pause = self._interval
            await self._ask()
            if self.cache.synced:
                pause += await self._follow()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._changed.wait()
                    await asyncio.sleep(BREATH)

    async def _ask(self) -> None:
        try:
            self._held = await self._kubelet.list()
        except KubeletError as error:
            # What was known stays: a kubelet that is started anew has not lost its pods.
            self._asked.failed(ASK, str(error))
        else:
            self._asked.succeeded()

    async def _follow(self) -> float:
        """Take the document, and write into it; returns the seconds to wait besides."""
        document = self.cache.items.get(self._node)
        if document is None:
            self._topology = None
            self._written.waits(READ, f"Node {self._node} has no topology (yet)")
            return 0.0
        if isinstance(document, Unreadable):
            self._written.failed(READ, document.reason)
            return 0.0
        self._topology = document.topology
        held = self._held
        if held is None:
            self._written.waits(ASK, "the kubelet has not said yet who holds what")
            return 0.0
        if with_holders(document.topology, held) != document.topology:
            try:
                self._topology = await self._store.update(self._node, lambda present: with_holders(present, held))
            except NoTopologyError:
                return 0.0  # deleted at this moment, which the watch tells
            except ApiError as error:
                self._written.api_failed(WRITE, error)
                return self._backoff.next()
            except TopologyError as error:
                self._written.failed(READ, str(error))
                return self._backoff.next()
        self._backoff.reset()
        self._written.succeeded()
        return 0.0
