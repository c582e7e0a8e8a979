"""Confirms by live reads which suspects go, with a brake against mass removal."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Protocol

import structlog

from nicrails_observer.brake import engages
from nicrails_observer.metrics import Metrics
from nicrails_observer.settings import BrakeSettings
from nicrails_observer.slices import some
from nicrails_observer.verdicts import Confirmation, Removal, confirm

EACH_AT_MOST = 20
"""Suspects that are read one by one; more are looked up in one complete list, and so many of them are read as well."""


class Live(Protocol):
    """The Nodes as they are now."""

    async def all(self) -> dict[str, str]:
        """The UIDs of all Nodes by name, from one complete list."""

    async def each(self, names: Sequence[str]) -> dict[str, str | None]:
        """The UIDs of these Nodes; None for one that does not exist."""


class DisagreementError(Exception):
    """Two reads of the Nodes contradict each other, so neither is acted on.

    Attributes:
        step: ``confirm`` or ``brake``.
    """

    def __init__(self, step: str, nodes: Sequence[str], but: str) -> None:
        super().__init__(
            f"Nodes exist as their records say ({some(nodes)}), but {but}; no record was removed: "
            "check whether a proxy or an authorizer in front of the API server hides Nodes from the observer"
        )
        self.step = step


class Confirmer:
    """Asks the API server itself about suspects, and twice if they are suspiciously many.

    A few suspects are read by name. Many are looked up in one complete list, and a sample of those that it lacks is
    read by name: something between the observer and the storage may filter lists, but seldom reads in the same way.

    Args:
        live: The Nodes as they are now.
        brake: When removals are suspiciously many.
        metrics: The observer's metrics.
        rng: For the sample.
    """

    def __init__(self, live: Live, brake: BrakeSettings, metrics: Metrics, rng: random.Random) -> None:
        self._live = live
        self._brake = brake
        self._metrics = metrics
        self._rng = rng

    async def confirm(self, suspected: Sequence[Removal], *, records: int, nodes: int) -> Confirmation:
        """Find out which suspects go.

        Args:
            suspected: Records that would go by the watch's view, read before this call.
            records: Records that there are.
            nodes: Nodes that the watch shows.

        Raises:
            DisagreementError: The reads contradict each other.
            ApiError: A read failed.
        """
        if not suspected:
            return Confirmation(removals=(), contradicted=())
        if len(suspected) <= EACH_AT_MOST:
            found = await self._live.each([suspect.node for suspect in suspected])
            confirmation = confirm(suspected, found)
        else:
            confirmation, nodes = await self._by_list("confirm", suspected)
        removals = len(confirmation.removals)
        if not engages(self._brake, removals=removals, records=records, nodes=nodes):
            return confirmation
        removed = await self._again(confirmation.removals, records=records, nodes=nodes)
        return Confirmation(removals=removed, contradicted=confirmation.contradicted)

    async def _again(self, removals: Sequence[Removal], *, records: int, nodes: int) -> tuple[Removal, ...]:
        self._metrics.brake_engaged.set(1)
        self._metrics.brake_engagements.inc()
        structlog.get_logger().warning(
            "brake-engaged", removals=len(removals), records=records, nodes=nodes, seconds=float(self._brake.delay)
        )
        await asyncio.sleep(self._brake.delay)
        second, nodes = await self._by_list("brake", removals)
        if second.contradicted:
            # A Node never comes back under its old UID, so the first answer was false.
            raise self._disagreement("brake", second.contradicted, "a list a moment ago lacked them")
        structlog.get_logger().warning("brake-released", removals=len(second.removals), records=records, nodes=nodes)
        return second.removals

    async def _by_list(self, step: str, suspected: Sequence[Removal]) -> tuple[Confirmation, int]:
        """Judge suspects by one complete list; also returns the number of Nodes."""
        everything = await self._live.all()
        confirmation = confirm(suspected, everything)
        sample = self._rng.sample(confirmation.removals, min(EACH_AT_MOST, len(confirmation.removals)))
        checked = confirm(sample, await self._live.each([removal.node for removal in sample]))
        if checked.contradicted:
            raise self._disagreement(step, checked.contradicted, f"a list of {len(everything)} Nodes lacks them")
        return confirmation, len(everything)

    def _disagreement(self, step: str, nodes: Sequence[str], but: str) -> DisagreementError:
        self._metrics.contradictions.inc(len(nodes))
        if step == "brake":
            self._metrics.brake_refusals.inc()
        return DisagreementError(step, nodes, but)
