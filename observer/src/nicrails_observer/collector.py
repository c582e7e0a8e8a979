"""Garbage collection: looks at all records and removes those whose Nodes are gone or were replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import structlog

from nicrails.kube import ApiError, Backoff, ForbiddenError
from nicrails_observer.coalescing import Coalescer
from nicrails_observer.confirming import EACH_AT_MOST, Confirmer, DisagreementError
from nicrails_observer.duties import Report
from nicrails_observer.inspector import Inspector
from nicrails_observer.keeper import Keeper
from nicrails_observer.metrics import Metrics
from nicrails_observer.nodes import NodeFollower
from nicrails_observer.reasons import explain
from nicrails_observer.slices import MAX_NAMES, sliced, some
from nicrails_observer.store import NotOursError, RecordStore
from nicrails_observer.verdicts import Removal, suspects

SLOW = 5.0
"""Seconds added to a pause after what only people can change."""
DOUBTS_UNTIL_RELIST = 3
"""Looks in a row that found the watch's view wrong, until the Nodes are listed anew."""


class Collector:
    """One look at a time, as often as the coalescer says.

    Args:
        keeper: Knows whether the ConfigMap is ours.
        store: The records.
        nodes: The Nodes as the watch shows them.
        confirmer: The Nodes as they are.
        inspector: Tells what still stands.
        coalescer: Says when to look.
        report: The duty ``garbage-collection``.
        metrics: The observer's metrics.
        backoff: Pauses after failures.
    """

    def __init__(
        self,
        *,
        keeper: Keeper,
        store: RecordStore,
        nodes: NodeFollower,
        confirmer: Confirmer,
        inspector: Inspector,
        coalescer: Coalescer,
        report: Report,
        metrics: Metrics,
        backoff: Backoff,
    ) -> None:
        self._keeper = keeper
        self._store = store
        self._nodes = nodes
        self._confirmer = confirmer
        self._inspector = inspector
        self._coalescer = coalescer
        self._report = report
        self._metrics = metrics
        self._backoff = backoff
        self._doubts = 0
        self._step = ""

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await self._coalescer.wait()
            pause = await self.look()
            if pause > 0:
                # What happens meanwhile does not shorten the pause: the API server may have asked for it.
                await asyncio.sleep(pause)
                self._coalescer.all_changed()

    async def look(self) -> float:
        """Look once, outliving every fault of the API.

        Returns:
            Seconds after which to look again though nothing has happened, or 0.
        """
        if self._keeper.owned is None:
            self._report.waits("configmap", "waits until the ConfigMap is there and this observer's")
            return 0.0
        if not self._nodes.synced:
            self._report.waits("nodes", "waits for the first complete list of the Nodes")
            return 0.0
        try:
            with self._metrics.pass_time.time():
                contradicted = await self._look()
        except NotOursError as error:
            self._keeper.look_again()
            self._report.waits("configmap", str(error))
            return 0.2 + self._backoff.next()
        except DisagreementError as error:
            self._nodes.relist()
            return self._failed(error.step, str(error), SLOW)
        except ApiError as error:
            # Causes tell of something permanent, such as a ConfigMap that was made immutable.
            slow = isinstance(error, ForbiddenError) or error.causes
            return self._failed(self._step, explain(error), SLOW if slow else 0.0, error.retry_after)
        self._backoff.reset()
        self._metrics.passes.labels("done").inc()
        self._metrics.brake_engaged.set(0)
        return self._judge_view(contradicted)

    def _failed(self, step: str, reason: str, slow: float, at_least: float | None = None) -> float:
        self._metrics.passes.labels("failed").inc()
        self._report.failed(step, reason)
        return slow + self._backoff.next(at_least)

    async def _look(self) -> Sequence[str]:
        """Look once; returns the Nodes about which the watch's view was wrong."""
        self._step = "read-records"
        snapshot = await self._store.read()
        suspected: list[Removal] = []
        async for part in sliced(snapshot.records):
            suspected += suspects(part, self._nodes.uids)
        self._step = "confirm"
        confirmation = await self._confirmer.confirm(
            suspected, records=len(snapshot.records), nodes=len(self._nodes.uids)
        )
        self._step = "remove"
        removed: set[str] = set()
        async for gone, changed in self._store.remove(snapshot.uid, confirmation.removals):
            removed |= {removal.node for removal in gone}
            self._tell(gone, changed)
        standing = {node: document for node, document in snapshot.records.items() if node not in removed}
        await self._inspector.inspect(replace(snapshot, records=standing), hurried=self._coalescer.pending)
        return confirmation.contradicted

    def _tell(self, gone: Sequence[Removal], changed: Sequence[Removal]) -> None:
        for verdict in sorted({removal.verdict for removal in gone}):
            names = [removal.node for removal in gone if removal.verdict is verdict]
            structlog.get_logger().info(
                "records-removed", reason=verdict.value, count=len(names), nodes=names[:MAX_NAMES]
            )
        if changed:
            names = [removal.node for removal in changed]
            structlog.get_logger().info("removal-refused", count=len(names), nodes=names[:MAX_NAMES])
            self._coalescer.all_changed()

    def _judge_view(self, contradicted: Sequence[str]) -> float:
        """Draw the consequences of a watch that does not show what is; returns the pause until the next look."""
        if not contradicted:
            self._doubts = 0
            self._report.succeeded()
            return 0.0
        self._metrics.contradictions.inc(len(contradicted))
        self._doubts += 1
        structlog.get_logger().info("watch-is-behind", nodes=list(contradicted[:MAX_NAMES]), looks=self._doubts)
        if self._doubts % DOUBTS_UNTIL_RELIST == 0 or len(contradicted) > EACH_AT_MOST:
            self._nodes.relist()
        if self._doubts > DOUBTS_UNTIL_RELIST:
            self._report.failed(
                "confirm",
                f"Nodes exist as their records say ({some(contradicted)}), but lists and watches keep missing them; "
                "check whether a proxy or an authorizer in front of the API server hides Nodes from the observer",
            )
        else:
            self._report.succeeded()
        return float(min(60.0, 2.0 ** (self._doubts - 1)))
