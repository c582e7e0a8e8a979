"""Writes to a Node, and Events about it."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping

import structlog

from nicrails.kube import MERGE_PATCH, ApiError, KubeClient, core_path, path
from nicrails.text import excerpt
from nicrails_faker.migfaker.seen import CONDITION, SeenNode
from nicrails_faker.reporting import explain
from nicrails_faker.working import Cache

STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
COMPONENT = "nicrails-faker"
EVENT_NAMESPACE = "default"
"""Where Events about what has no namespace are."""
MAX_MESSAGE = 1000
"""Characters; the API server takes 1024 bytes."""


class NodeWriter:
    """Patches Nodes so that nothing is said of a Node that has changed since it was seen.

    Args:
        client: The API server.
        nodes: What was seen; has what was written at once.
        field_manager: Who the API server says has written.
        now: The time of day.
    """

    def __init__(
        self,
        client: KubeClient,
        nodes: Cache[SeenNode],
        *,
        field_manager: str,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._field_manager = field_manager
        self._now = now

    async def patch(
        self, node: SeenNode, *, labels: Mapping[str, str | None], annotations: Mapping[str, str | None]
    ) -> None:
        """Write labels and annotations at once, and remove those that are None; nothing is sent where nothing differs.

        Raises:
            ConflictError: The Node has changed since it was seen.
            ApiError: The request failed.
        """
        labels = {key: value for key, value in labels.items() if node.labels.get(key) != value}
        annotations = {key: value for key, value in annotations.items() if node.annotations.get(key) != value}
        changes = {name: values for name, values in (("labels", labels), ("annotations", annotations)) if values}
        if not changes:
            return
        metadata = {"uid": node.uid, "resourceVersion": node.resource_version} | changes
        await self._send(path("api", "v1", "nodes", node.name), {"metadata": metadata})

    async def patch_resources(
        self,
        node: SeenNode,
        *,
        capacity: Mapping[str, str | None],
        allocatable: Mapping[str, str | None],
        annotations: Mapping[str, str | None],
    ) -> None:
        """Write resources of a Node without a kubelet, and remove those that are None.

        Others write the same status (KWOK's heartbeat), so it is bound to the Node's UID and not to its version.

        Raises:
            ConflictError: The Node is another one now.
            ApiError: The request failed.
        """
        metadata = {"uid": node.uid} | ({"annotations": dict(annotations)} if annotations else {})
        body = {"metadata": metadata, "status": {"capacity": dict(capacity), "allocatable": dict(allocatable)}}
        await self._send(path("api", "v1", "nodes", node.name, "status"), body)

    async def patch_condition(self, node: SeenNode, *, status: str, reason: str, message: str) -> None:
        """Write the condition :data:`CONDITION`; those of others (the kubelet's) stay.

        Raises:
            ConflictError: The Node is another one now.
            ApiError: The request failed.
        """
        now = self._time()
        condition = {
            "type": CONDITION,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
        }
        if node.warning is None or node.warning[0] != status:
            condition["lastTransitionTime"] = now
        body = {"metadata": {"uid": node.uid}, "status": {"conditions": [condition]}}
        # Conditions are a list that only this kind of patch merges by type.
        await self._send(path("api", "v1", "nodes", node.name, "status"), body, STRATEGIC_MERGE_PATCH)

    def _time(self) -> str:
        return self._now().isoformat(timespec="seconds").replace("+00:00", "Z")

    async def _send(self, at: str, body: Mapping[str, object], content_type: str = MERGE_PATCH) -> None:
        answer = await self._client.request(
            "PATCH", at, query={"fieldManager": self._field_manager}, content_type=content_type, body=body
        )
        self._nodes.changed(SeenNode.of(answer.object()))

    async def event(self, node: SeenNode, reason: str, message: str, *, warning: bool = False) -> None:
        """Make an Event about a Node; one that can not be made is told in the log, and that is all."""
        now = self._time()
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{node.name[:200]}-", "namespace": EVENT_NAMESPACE},
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid},
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "message": excerpt(message, MAX_MESSAGE),
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": COMPONENT,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await self._client.request("POST", core_path(EVENT_NAMESPACE, "events"), body=body)
        except ApiError as error:
            structlog.get_logger().warning("event-not-made", node=node.name, about=reason, reason=explain(error))
