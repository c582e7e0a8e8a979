"""One discovery: rails, then GPUs, then the Node, joined into its record."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from nicrails import NodeRecord, NodeUid
from nicrails.text import excerpt
from nicrails_broker.events import Emit, Found, SourceLooked
from nicrails_broker.failures import BrokerError, NodeError, SourceError, Step, StepError
from nicrails_broker.join import GpuView, JoinError, join
from nicrails_broker.sources.gpus import GpuSource
from nicrails_broker.sources.rails import Rails, RailSource

T = TypeVar("T")


class OwnNode(Protocol):
    """The Node that the broker runs on."""

    async def uid(self) -> NodeUid:
        """Its present UID.

        Raises:
            NodeError: It could not be read.
        """


class Discovery:
    """Makes the record of this Node.

    Args:
        rails: Where rails come from.
        gpus: Where GPUs come from, asked only when there are rails; None if GPUs are not to be recorded.
        node: Whose record it is.
        emit: Is told how each source did.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        rails: RailSource,
        gpus: GpuSource | None,
        node: OwnNode,
        emit: Emit,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rails = rails
        self._gpus = gpus
        self._node = node
        self._emit = emit
        self._clock = clock

    async def discover(self) -> NodeRecord | None:
        """Look at everything; None when this Node is on no rail, so that there is nothing to record.

        Raises:
            StepError: A step failed; there is no record then, not half of one.
        """
        rails = await self._look(Step.DISCOVER_RAILS, "rails", self._rails.name, self._rails.discover)
        if not rails:
            return None
        gpus = None
        if self._gpus is None:
            self._emit(SourceLooked(kind="gpus", source="none", found=Found.DISABLED, seconds=0.0))
        else:
            gpus = await self._look(Step.DISCOVER_GPUS, "gpus", self._gpus.name, self._gpus.discover)
        return self._joined(await self._node_uid(), rails, gpus)

    async def renewed(self, record: NodeRecord) -> NodeRecord:
        """The same record with the Node's present UID, for a Node may be made anew while the broker's pod lives.

        Raises:
            StepError: The Node could not be read.
        """
        return dataclasses.replace(record, node_uid=await self._node_uid())

    async def _look(self, step: Step, kind: str, source: str, look: Callable[[], Awaitable[T]]) -> T:
        started = self._clock()
        found = Found.FAILED
        try:
            result = await look()
            found = Found.FOUND if result else Found.NOTHING
        except SourceError as error:
            raise StepError(step, error) from error
        except OSError as error:
            raise StepError(step, SourceError(f"can not read what the host shows: {excerpt(str(error))}")) from error
        finally:
            self._emit(SourceLooked(kind=kind, source=source, found=found, seconds=self._clock() - started))
        return result

    async def _node_uid(self) -> NodeUid:
        try:
            return await self._node.uid()
        except NodeError as error:
            raise StepError(Step.READ_NODE, error) from error

    def _joined(self, uid: NodeUid, rails: Rails, gpus: GpuView | None) -> NodeRecord:
        try:
            return join(node_uid=uid, rail_source=self._rails.name, rails=rails, gpus=gpus)
        except JoinError as error:
            raise StepError(Step.JOIN, BrokerError(str(error))) from error
