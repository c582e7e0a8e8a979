"""Keeps the ConfigMap there and knows whether it is ours; never patches or deletes it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from nicrails.kube import (
    METADATA,
    ApiError,
    Backoff,
    ConflictError,
    ForbiddenError,
    KubeClient,
    controller_reference,
    core_path,
    path,
)
from nicrails_observer.api import get_or_none, metadata_of
from nicrails_observer.duties import Report
from nicrails_observer.metrics import Metrics
from nicrails_observer.ownership import KEEP, Action, Decision, Owner, decide
from nicrails_observer.reasons import namespace_terminating
from nicrails_observer.settings import Identity

LABELS = {"app.kubernetes.io/managed-by": "nicrails-observer", "app.kubernetes.io/part-of": "nicrails"}
FIELD_MANAGER = "nicrails-observer"
TERMINATING_PAUSE = 60.0
"""Seconds until a namespace that was being deleted is looked at again; somebody may have made it anew."""
MAX_TRIES = 3
"""Looks in a row when another observer is faster each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """The ConfigMap that is ours.

    Attributes:
        owner_uid: UID of the Deployment that controls it.
        uid: Its own UID.
        version: Its resourceVersion.
    """

    owner_uid: str
    uid: str
    version: str


class Keeper:
    """Ensures the ConfigMap again and again.

    Args:
        client: The API server.
        identity: This observer's Deployment.
        name: The ConfigMap's name.
        report: The duty ``configmap``.
        metrics: The observer's metrics.
        changed: Called when the ConfigMap has changed in any way since the last look.
        interval: Seconds between two looks while all is well.
        rng: For jitter.
    """

    def __init__(
        self,
        client: KubeClient,
        identity: Identity,
        name: str,
        *,
        report: Report,
        metrics: Metrics,
        changed: Callable[[], None],
        interval: float,
        rng: random.Random,
    ) -> None:
        self._client = client
        self._identity = identity
        self._name = name
        self._report = report
        self._metrics = metrics
        self._changed = changed
        self._interval = interval
        self._rng = rng
        self._again = asyncio.Event()
        self._waiting = Backoff(initial=0.5, cap=15.0, rng=rng)
        self._refusing = Backoff(initial=5.0, cap=60.0, rng=rng)
        self._failing = Backoff(rng=rng)
        self.path = core_path(identity.namespace, "configmaps", name)
        self.owned: Owned | None = None

    def look_again(self) -> None:
        """Look now instead of at the end of the interval: somebody has found the ConfigMap changed."""
        self._again.set()

    def decide(self, metadata: Mapping[str, Any] | None, owner: Owner | None) -> Decision:
        """What to do about a ConfigMap of this metadata."""
        return decide(self._name, metadata, self._identity.deployment, owner)

    def is_ours(self, metadata: Mapping[str, Any]) -> bool:
        """Whether a ConfigMap that was just read is ours, going by the owner that was last seen."""
        if self.owned is None:
            return False
        owner = Owner(name=self._identity.deployment, uid=self.owned.owner_uid, terminating=False)
        return self.decide(metadata, owner).action is Action.KEEP

    async def run(self) -> None:
        """Keep the ConfigMap for ever."""
        while True:
            self._again.clear()
            pause = await self._look()
            if self.owned is None:
                await asyncio.sleep(pause)
                continue
            try:
                async with asyncio.timeout(pause):
                    await self._again.wait()
            except TimeoutError:
                continue

    async def _look(self) -> float:
        """Look once; returns the seconds until the next look."""
        try:
            decision = await self.ensure()
        except ApiError as error:
            return self._failed(error)
        self._failing.reset()
        if decision.action is Action.REFUSE:
            self._waiting.reset()
            self._report.failed("ownership", decision.reason, level="error")
            return 1.0 + self._refusing.next()
        self._refusing.reset()
        if decision.action is Action.WAIT:
            self._report.failed("ownership", decision.reason)
            return 0.1 + self._waiting.next()
        self._waiting.reset()
        self._report.succeeded()
        return self._interval * self._rng.uniform(0.9, 1.1)

    async def ensure(self) -> Decision:
        """Look at the ConfigMap and at the Deployment, and create the ConfigMap if it is to be.

        Returns:
            KEEP when it is there and ours, or what keeps it from that.

        Raises:
            ApiError: A request failed.
        """
        for _ in range(MAX_TRIES):
            metadata = await self._metadata(self.path)
            # Read in this order, and just before a create: the garbage collector removes what a former owner has.
            owner = await self._owner()
            decision = self.decide(metadata, owner)
            if decision.action is Action.CREATE and owner is not None:
                try:
                    metadata = await self._create(owner)
                except ConflictError:
                    # Somebody was faster, perhaps another observer; whose it is shows in the next round.
                    continue
                decision = KEEP
            self._remember(metadata if decision.action is Action.KEEP else None, owner)
            return decision
        self._remember(None, None)
        return Decision(
            action=Action.WAIT, reason=f"ConfigMap {self._name} comes and goes; somebody else makes and removes it"
        )

    def _remember(self, metadata: Mapping[str, Any] | None, owner: Owner | None) -> None:
        before = self.owned
        self.owned = None
        if metadata is not None and owner is not None:
            self.owned = Owned(
                owner_uid=owner.uid, uid=str(metadata.get("uid")), version=str(metadata.get("resourceVersion"))
            )
        self._metrics.owned.set(self.owned is not None)
        if self.owned != before:
            self._changed()

    def _failed(self, error: ApiError) -> float:
        if namespace_terminating(error):
            self._remember(None, None)
            self._report.waits(
                "namespace", f"namespace {self._identity.namespace} is being deleted, so nothing is created in it"
            )
            return TERMINATING_PAUSE
        self._report.api_failed("ensure-configmap", error)
        pause = self._failing.next(error.retry_after)
        # A missing permission is granted by people, if at all.
        return pause + 5.0 if isinstance(error, ForbiddenError) else pause

    async def _metadata(self, at: str) -> Mapping[str, Any] | None:
        document = await get_or_none(self._client, at, accept=METADATA)
        return None if document is None else metadata_of(document, at)

    async def _owner(self) -> Owner | None:
        name = self._identity.deployment
        metadata = await self._metadata(
            path("apis", "apps", "v1", "namespaces", self._identity.namespace, "deployments", name)
        )
        if metadata is None:
            return None
        return Owner(name=name, uid=str(metadata["uid"]), terminating=bool(metadata.get("deletionTimestamp")))

    async def _create(self, owner: Owner) -> Mapping[str, Any]:
        answer = await self._client.request(
            "POST",
            core_path(self._identity.namespace, "configmaps"),
            query={"fieldManager": FIELD_MANAGER},
            accept=METADATA,
            body={
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": self._name,
                    "namespace": self._identity.namespace,
                    "labels": LABELS,
                    "ownerReferences": [controller_reference(owner.name, owner.uid)],
                },
            },
        )
        metadata = metadata_of(answer.object(), answer.request)
        self._metrics.creations.inc()
        structlog.get_logger().info("configmap-created", name=self._name, uid=metadata["uid"], owner=owner.uid)
        return metadata
