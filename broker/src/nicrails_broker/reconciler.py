"""Keeping the published record true: discover, publish, look after it, and begin again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from nicrails import NodeRecord, PciAddress, RecordError, encode
from nicrails_broker.discovery import Discovery
from nicrails_broker.events import Emit, Publication, Published
from nicrails_broker.failures import BrokerError, PublishError, Step, StepError
from nicrails_broker.loop import FOREVER, jittered
from nicrails_broker.publisher import RecordStore


class Reconciler:
    """One Node's record.

    A discovery is due at the start and every refresh interval. While it fails nothing is written, so the previous record
    stays as it is; only a discovery that succeeded and found no rail removes it. A record that could not be published is
    published again without another discovery, until the next one is due.

    A discovery that finds less than the one before is published like any other, but the next one comes soon: an lldpd
    that was restarted knows no neighbour until each has announced itself again.

    Args:
        discovery: Makes the record.
        store: Takes it.
        refresh: Seconds between two discoveries; 0 for one at the start only.
        verify: Seconds between two looks at the store.
        settle: Seconds to the next discovery after one that lost a NIC, if that is sooner.
        emit: Is told what was published.
        rng: For jitter.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        discovery: Discovery,
        store: RecordStore,
        refresh: float,
        verify: float,
        settle: float,
        emit: Emit,
        rng: random.Random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._discovery = discovery
        self._store = store
        self._refresh = refresh
        self._verify = verify
        self._settle = settle
        self._emit = emit
        self._rng = rng
        self._clock = clock
        self._due = -FOREVER
        self._record: NodeRecord | None = None
        self._published: bytes | None = None
        self._standing = False

    async def once(self) -> float:
        """Do what is due; returns the seconds until something is due again.

        Raises:
            StepError: A step failed.
        """
        if self._clock() >= self._due:
            before, self._record = self._record, await self._discovery.discover()
            self._due = self._next_discovery(lost=before is not None and not _nics(before) <= _nics(self._record))
            await self._publish()
        elif not self._standing or not await self._holds():
            if self._record is not None:
                self._record = await self._discovery.renewed(self._record)
            await self._publish()
        else:
            self._tell(Publication.UNCHANGED)
        return max(0.0, min(self._due - self._clock(), jittered(self._verify, self._rng)))

    def _next_discovery(self, *, lost: bool) -> float:
        if not self._refresh:
            return FOREVER
        return self._clock() + jittered(min(self._refresh, self._settle) if lost else self._refresh, self._rng)

    async def _publish(self) -> None:
        try:
            document = None if self._record is None else encode(self._record)
        except RecordError as error:
            self._due = -FOREVER
            raise StepError(Step.JOIN, BrokerError(f"the record contradicts itself: {error}")) from error
        try:
            result = await self._store.put(document)
        except PublishError as error:
            self._standing = False
            self._emit(Published(result=Publication.FAILED, size=0, rails=0, nics=0, gpus=0))
            raise StepError(Step.PUBLISH, error) from error
        self._published = document
        self._standing = True
        self._tell(result)

    async def _holds(self) -> bool:
        try:
            return await self._store.holds(self._published)
        except PublishError as error:
            raise StepError(Step.PUBLISH, error) from error

    def _tell(self, result: Publication) -> None:
        record = self._record
        self._emit(
            Published(
                result=result,
                size=len(self._published or b""),
                rails=0 if record is None else len(record.rails),
                nics=0 if record is None else len(record.nics),
                gpus=0 if record is None else len(record.gpus),
            )
        )


def _nics(record: NodeRecord | None) -> frozenset[PciAddress]:
    return frozenset(record.nics) if record is not None else frozenset()
