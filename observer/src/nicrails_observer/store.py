"""The records in the ConfigMap: reading all of them, and removing some by test-and-remove."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nicrails.kube import (
    JSON_PATCH,
    METADATA,
    ApiError,
    ConflictError,
    InvalidError,
    KubeClient,
    NotFoundError,
    UnreachableError,
)
from nicrails_observer.api import get_or_none, metadata_of
from nicrails_observer.keeper import FIELD_MANAGER
from nicrails_observer.metrics import Metrics
from nicrails_observer.verdicts import Removal, batches, patch


class NotOursError(Exception):
    """The ConfigMap is not there or not ours, so its records are none of our business."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The ConfigMap at one moment.

    Attributes:
        uid: Its UID.
        records: Documents by Node name.
        binary: Bytes of ``binaryData``, which counts against the same limit.
    """

    uid: str
    records: Mapping[str, str]
    binary: int

    def size(self) -> int:
        """Bytes of all values, as the API server counts them."""
        return self.binary + sum(
            len(value) if value.isascii() else len(value.encode()) for value in self.records.values()
        )


class RecordStore:
    """The ConfigMap's records.

    Args:
        client: The API server.
        path: The ConfigMap.
        is_ours: Tells by an object's metadata whether it is ours.
        batch_size: The most records that one patch removes.
        metrics: The observer's metrics.
    """

    def __init__(
        self,
        client: KubeClient,
        path: str,
        *,
        is_ours: Callable[[Mapping[str, Any]], bool],
        batch_size: int,
        metrics: Metrics,
    ) -> None:
        self._client = client
        self._path = path
        self._is_ours = is_ours
        self._batch_size = batch_size
        self._metrics = metrics

    async def read(self) -> Snapshot:
        """Read all records.

        Raises:
            NotOursError: There is no such ConfigMap, or it is not ours.
            ApiError: It could not be read.
        """
        document = await get_or_none(self._client, self._path)
        if document is None:
            raise NotOursError("the ConfigMap is gone")
        metadata = metadata_of(document, self._path)
        if not self._is_ours(metadata):
            raise NotOursError("the ConfigMap is not this observer's")
        return Snapshot(
            uid=metadata["uid"],
            records=_values(document, "data", self._path),
            # Base64 has four characters for three bytes.
            binary=sum(len(value) * 3 // 4 for value in _values(document, "binaryData", self._path).values()),
        )

    async def remove(
        self, uid: str, removals: Iterable[Removal]
    ) -> AsyncIterator[tuple[tuple[Removal, ...], tuple[Removal, ...]]]:
        """Remove records that still stand exactly as they were read, in few patches.

        Args:
            uid: The ConfigMap that the documents were read from.
            removals: What goes.

        Yields:
            For each batch what went, and what did not since its document had changed.

        Raises:
            NotOursError: It is another ConfigMap by now.
            ApiError: The API server could not be asked, or has an objection that a second look does not explain.
        """
        for batch in batches(removals, self._batch_size):
            changed = await self._remove(uid, batch)
            yield tuple(removal for removal in batch if removal not in changed), changed

    async def _remove(self, uid: str, batch: tuple[Removal, ...]) -> tuple[Removal, ...]:
        """Remove one batch; returns what did not go.

        A refused patch has changed nothing: somebody has published, removed or replaced something. Then the records are
        read again, those that have changed are left for the next look, and the others are tried once more; a refusal
        that this does not explain is narrowed down by halves. An answer that never came is settled by reading, too.
        """
        pending = [batch]
        changed: list[Removal] = []
        unexplained: ApiError | None = None
        while pending:
            now = pending.pop()
            try:
                await self._patch(uid, now)
            except (InvalidError, ConflictError, NotFoundError) as error:
                if error.causes:
                    # Causes come with what is wrong for good, an immutable ConfigMap for example.
                    self._metrics.patches.labels("failed").inc()
                    raise
                self._metrics.patches.labels("refused").inc()
                still, others = await self._after_refusal(uid, now)
                changed += others
                if others or len(still) > 1:
                    pending += _parts(still, halve=not others)
                else:
                    unexplained = error
            except ApiError as error:
                self._metrics.patches.labels("unknown" if error.outcome_unknown else "failed").inc()
                if error.outcome_unknown:
                    await self._settle(uid, now, error)
                raise
            else:
                self._metrics.patches.labels("done").inc()
                self._count(now)
        if unexplained is not None:
            raise unexplained
        return tuple(changed)

    async def _patch(self, uid: str, batch: Sequence[Removal]) -> None:
        await self._client.request(
            "PATCH",
            self._path,
            query={"fieldManager": FIELD_MANAGER},
            body=patch(uid, batch),
            content_type=JSON_PATCH,
            accept=METADATA,
        )

    async def _after_refusal(
        self, uid: str, batch: Sequence[Removal]
    ) -> tuple[tuple[Removal, ...], tuple[Removal, ...]]:
        """Divide a refused batch into what still stands as it was read and what has changed."""
        records = await self._reread(uid)
        still = tuple(removal for removal in batch if records.get(removal.node) == removal.document)
        changed = tuple(removal for removal in batch if records.get(removal.node) != removal.document)
        self._metrics.refused.inc(len(changed))
        return still, changed

    async def _settle(self, uid: str, batch: Sequence[Removal], error: ApiError) -> None:
        """Count what an unanswered patch has done after all."""
        try:
            records = await self._reread(uid)
        except ApiError:
            raise error from None
        self._count([removal for removal in batch if removal.node not in records])

    async def _reread(self, uid: str) -> Mapping[str, str]:
        snapshot = await self.read()
        if snapshot.uid != uid:
            raise NotOursError("the ConfigMap was replaced by another one")
        return snapshot.records

    def _count(self, removed: Sequence[Removal]) -> None:
        for removal in removed:
            self._metrics.removals.labels(removal.verdict.value).inc()


def _parts(batch: tuple[Removal, ...], *, halve: bool) -> list[tuple[Removal, ...]]:
    middle = len(batch) // 2 if halve else 0
    return [part for part in (batch[:middle], batch[middle:]) if part]


def _values(document: Mapping[str, Any], section: str, request: str) -> dict[str, str]:
    # ``data`` is absent or null in an empty ConfigMap.
    values = document.get(section) or {}
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise UnreachableError(request, f"the answer is a ConfigMap whose {section} does not map to strings")
    return values
