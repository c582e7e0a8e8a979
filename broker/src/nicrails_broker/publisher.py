"""Bringing a Node's record to its place and keeping it there.

The place is one key of a ConfigMap that all brokers share. What makes that work on a real API server:

* A merge patch names this Node's key only. Two hundred brokers may patch at once; none can touch another's key.
* The patch carries the ConfigMap's UID, so it never lands in an object that was not looked at. The server refuses another
  UID as a change of an immutable field: 422 with a cause on ``metadata.uid``, where a PUT would get a 409.
* The patch empties ``metadata.managedFields``. The server would note there who wrote which key, one entry a Node, and
  send all of it back in every answer. Once emptied, it stays empty until somebody uses server-side apply.
* Every answer is asked for as metadata only, so a publication moves as many bytes as the record has, not the ConfigMap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from nicrails.kube import (
    MERGE_PATCH,
    METADATA,
    ApiError,
    ConflictError,
    InvalidError,
    KubeClient,
    NotFoundError,
    controller,
    core_path,
    is_observers,
)
from nicrails.text import excerpt
from nicrails_broker.events import Publication
from nicrails_broker.failures import PublishError, Retry, api_failure
from nicrails_broker.node import FIELD_MANAGER

PATCHING = "can not patch"


class RecordStore(Protocol):
    """Where the record of this Node is published."""

    async def put(self, record: bytes | None) -> Publication:
        """Make the store hold a record, or none; a repetition is harmless and, where nothing changed, sends nothing.

        Raises:
            PublishError: It is not known to hold it; what it held before, it may still hold.
        """

    async def holds(self, record: bytes | None) -> bool:
        """Whether the record that was put last is certainly still there.

        Raises:
            PublishError: The store can not be asked, or is in no state to hold a record.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A key of the shared ConfigMap.

    Attributes:
        namespace: Of the ConfigMap, and of the observer.
        config_map: Its name.
        key: The Node's name.
        observer: The Deployment that must control the ConfigMap.
    """

    namespace: str
    config_map: str
    key: str
    observer: str

    def __str__(self) -> str:
        return f"ConfigMap {self.namespace}/{self.config_map}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """The identity and the version of the ConfigMap."""

    uid: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """What was sent last with success, and what the ConfigMap became by it."""

    record: bytes | None
    state: _State


class ConfigMapStore:
    """The record as one key of the observer's ConfigMap.

    While the ConfigMap's version is the one that our own patch made, the key is there and nothing is sent. Any other
    version may have lost it, though as a rule another broker has just written its own key; there is no way to ask for
    one key, so the patch is repeated, which heals a lost key and costs the server no write if nothing was lost.

    Args:
        client: The API server.
        target: Where the record goes.
    """

    def __init__(self, *, client: KubeClient, target: Target) -> None:
        self._client = client
        self._target = target
        self._path = core_path(target.namespace, "configmaps", target.config_map)
        self._sent: _Sent | None = None

    async def put(self, record: bytes | None) -> Publication:
        """See :class:`RecordStore`."""
        state = await self._look()
        if state is None:
            return self._absent(record)
        if self._stands(record, state):
            return Publication.UNCHANGED
        repeated = self._sent is not None and self._sent.record == record and self._sent.state.uid == state.uid
        # Until the answer is here nothing is known about what the ConfigMap holds.
        self._sent = None
        after = await self._patch(record, state)
        self._sent = _Sent(record=record, state=after)
        if repeated:
            return Publication.REPEATED
        return Publication.REMOVED if record is None else Publication.WRITTEN

    async def holds(self, record: bytes | None) -> bool:
        """See :class:`RecordStore`."""
        state = await self._look()
        if state is None:
            self._absent(record)
            return True
        return self._stands(record, state)

    def _stands(self, record: bytes | None, state: _State) -> bool:
        sent = self._sent
        if sent is None or sent.record != record or sent.state.uid != state.uid:
            return False
        return sent.state.version == state.version

    def _absent(self, record: bytes | None) -> Publication:
        if record is None:
            return Publication.UNCHANGED
        raise PublishError(
            f"{self._target} does not exist; the observer makes it: see whether Deployment {self._target.observer} runs "
            "in that namespace and is healthy"
        )

    async def _look(self) -> _State | None:
        try:
            answer = await self._client.request("GET", self._path, accept=METADATA)
            metadata = answer.object().get("metadata")
        except NotFoundError:
            return None
        except ApiError as error:
            raise self._failure(error, "can not read", "get on that ConfigMap") from error
        return self._judge(metadata if isinstance(metadata, dict) else {})

    def _judge(self, metadata: Mapping[str, Any]) -> _State:
        owner = controller(metadata)
        if not is_observers(owner, self._target.observer):
            whose = f"controlled by {owner}" if owner is not None else "controlled by nobody"
            raise PublishError(
                f"{self._target} is {whose}, not by Deployment {self._target.observer}, so it is left alone; "
                "delete it, or give another configMapName or observerDeployment",
                retry=Retry.SLOWLY,
            )
        if metadata.get("deletionTimestamp") is not None:
            raise PublishError(f"{self._target} is being deleted; the observer makes a new one when it is gone")
        return _state(metadata)

    async def _patch(self, record: bytes | None, state: _State) -> _State:
        try:
            answer = await self._client.request(
                "PATCH",
                self._path,
                query={"fieldManager": FIELD_MANAGER},
                body={
                    "metadata": {"uid": state.uid, "managedFields": [{}]},
                    "data": {self._target.key: None if record is None else record.decode()},
                },
                content_type=MERGE_PATCH,
                accept=METADATA,
            )
            metadata = answer.object().get("metadata")
        except InvalidError as error:
            self._refused(error)
        except (ConflictError, NotFoundError) as error:
            raise self._replaced() from error
        except ApiError as error:
            raise self._failure(error, PATCHING, "patch on that ConfigMap") from error
        return _state(metadata if isinstance(metadata, dict) else {})

    def _refused(self, error: InvalidError) -> NoReturn:
        if any(cause.startswith("metadata.uid:") for cause in error.causes):
            raise self._replaced() from error
        causes = excerpt("; ".join(error.causes) or error.message, 400)
        advice = "somebody has to change the ConfigMap or the record's size; it is tried again every few minutes"
        if "FieldValueTooLong" in causes:
            advice = "the records of all Nodes together pass 1 MiB, the limit of a ConfigMap: give groups of Nodes ConfigMaps of their own"
        elif "immutable" in causes:
            advice = "somebody has made it immutable: delete it, and the observer makes a new one"
        raise PublishError(
            f"the server refuses this Node's record in {self._target}: {causes}; {advice}",
            retry=Retry.RARELY if error.causes else Retry.SLOWLY,
        ) from error

    def _replaced(self) -> PublishError:
        return PublishError(f"{self._target} was replaced at this moment; it is looked at again")

    def _failure(self, error: ApiError, doing: str, grant: str) -> PublishError:
        reason, retry, after = api_failure(error, f"{doing} {self._target}", grant=grant)
        if error.outcome_unknown and doing == PATCHING:
            reason += "; whether it was done is not known, so it is sent again"
        return PublishError(reason, retry=retry, retry_after=after)


def _state(metadata: Mapping[str, Any]) -> _State:
    return _State(uid=str(metadata.get("uid", "")), version=str(metadata.get("resourceVersion", "")))
