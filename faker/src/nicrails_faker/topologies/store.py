"""The topology ConfigMaps: read, and changed so that nobody's change is lost.

A change is a server-side apply of ``topology.yml`` that carries the UID and the resourceVersion of what was read. Whoever
else has written in between makes the API server refuse it, and it is made anew from what stands there now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from nicrails.kube import Answer, Backoff, ConflictError, KubeClient, NotFoundError, UnreachableError, core_path
from nicrails.text import excerpt
from nicrails_faker.mig import ClusterTopology, NodeTopology, write_topology
from nicrails_faker.topologies.config_maps import (
    KEY,
    NODE_LABEL,
    TOPOLOGY_LABEL,
    NoTopologyError,
    Stored,
    TopologyError,
    cluster_topology,
    config_map_name,
    stored,
    texts,
)

FIELD_MANAGER = "nicrails-faker"
APPLY = "application/apply-patch+yaml"
MAX_TRIES = 200
"""Tries of one change while others write all the time."""


class TopologyStore:
    """The topology ConfigMaps of a cluster.

    Args:
        client: The API server.
        namespace: Where they are.
        name: The cluster's; that of a Node is ``<name>-<node>``.
        field_manager: Who the API server says has written; each service has its own, for what one has applied and then
            leaves out goes.
    """

    def __init__(self, client: KubeClient, namespace: str, name: str, *, field_manager: str = FIELD_MANAGER) -> None:
        self._client = client
        self._field_manager = field_manager
        self.namespace = namespace
        self.name = name

    def name_of(self, node: str) -> str:
        """The name of a Node's ConfigMap.

        Raises:
            TopologyError: No ConfigMap can have it.
        """
        return config_map_name(self.name, node)

    def path(self, name: str = "") -> str:
        """The API path of one of the ConfigMaps, or of their collection."""
        return core_path(self.namespace, "configmaps", *([name] if name else []))

    async def read_cluster(self) -> ClusterTopology:
        """The cluster's topology.

        Raises:
            TopologyError: It is missing or unreadable.
            ApiError: It could not be read.
        """
        config_map = await self._get(self.name)
        if config_map is None:
            raise NoTopologyError(
                f"ConfigMap {self.name} does not exist in namespace {self.namespace}; the chart makes it"
            )
        return cluster_topology(config_map)

    async def read(self, node: str) -> Stored | None:
        """The topology of a Node, None if there is none.

        Raises:
            TopologyError: The ConfigMap of that name is another one's, or its document is unreadable.
            ApiError: It could not be read.
        """
        config_map = await self._get(self.name_of(node))
        if config_map is None:
            return None
        found = stored(config_map)
        if found.node != node:
            raise TopologyError(
                f"ConfigMap {found.name} has the label {NODE_LABEL}={excerpt(found.node, 80)} and not {node}; correct"
                " the label, or remove the ConfigMap"
            )
        return found

    async def update(
        self, node: str, change: Callable[[NodeTopology], NodeTopology], *, tries: int = MAX_TRIES
    ) -> NodeTopology:
        """Change the topology of a Node; nothing is written where nothing changes.

        Args:
            node: The Node's name.
            change: Makes the new topology of the present one; called again when somebody else has written in between.
                What it raises ends the update, with nothing written.
            tries: How often at most.

        Returns:
            The topology as it stands there now.

        Raises:
            NoTopologyError: The Node has no topology.
            TopologyError: It is another one's or unreadable.
            ConflictError: Others have written in between each time.
            ApiError: A request failed; nothing is known of the last write only if ``outcome_unknown``.
        """
        backoff = Backoff(initial=0.01, cap=1.0)
        while True:
            found = await self.read(node)
            if found is None:
                raise NoTopologyError(f"Node {node} has no topology: ConfigMap {self.name_of(node)} does not exist")
            wanted = change(found.topology)
            if wanted == found.topology:
                return wanted
            tries -= 1
            try:
                await self.apply(found, wanted)
            except ConflictError as error:
                if tries <= 0:
                    raise
                await asyncio.sleep(backoff.next(error.retry_after))
            else:
                return wanted

    async def apply(
        self, found: Stored, wanted: NodeTopology, *, annotations: Mapping[str, str] | None = None
    ) -> Stored:
        """Write a topology in place of exactly the one that was read.

        Args:
            found: What was read.
            wanted: What is to stand there.
            annotations: Those of this field manager: what it has applied before and leaves out now, goes.

        Returns:
            What stands there now.

        Raises:
            ConflictError: Another one stands there, or none.
            ApiError: The request failed.
        """
        metadata: dict[str, Any] = {
            "name": found.name,
            "namespace": self.namespace,
            "uid": found.uid,
            "resourceVersion": found.resource_version,
        }
        if annotations:
            metadata["annotations"] = dict(annotations)
        # A document that stays as it is keeps its spelling.
        text = found.text if wanted == found.topology else write_topology(wanted)
        answer = await self._client.request(
            "PATCH",
            self.path(found.name),
            query={"fieldManager": self._field_manager, "force": "true"},
            content_type=APPLY,
            body={"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {KEY: text}},
        )
        written = _metadata(answer)
        return replace(
            found,
            topology=wanted,
            text=text,
            resource_version=str(written["resourceVersion"]),
            annotations=texts(written.get("annotations")),
        )

    async def create(self, node: str, topology: NodeTopology, *, annotations: Mapping[str, str]) -> bool:
        """Make the topology of a Node that has none.

        Returns:
            Whether it was made; False if there is one, whose content is left alone.

        Raises:
            TopologyError: No ConfigMap can have the name.
            ApiError: The request failed.
        """
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self.name_of(node),
                "namespace": self.namespace,
                "labels": {TOPOLOGY_LABEL: "true", NODE_LABEL: node},
                "annotations": dict(annotations),
            },
            "data": {KEY: write_topology(topology)},
        }
        try:
            await self._client.request("POST", self.path(), query={"fieldManager": self._field_manager}, body=body)
        except ConflictError:
            return False
        return True

    async def delete(self, name: str, uid: str, resource_version: str = "") -> bool:
        """Remove exactly the ConfigMap that was read.

        Args:
            name: The ConfigMap's name.
            uid: Its UID.
            resource_version: The version that was judged; "" takes any.

        Returns:
            Whether it was removed; False if it is gone already, is another one now or has changed.

        Raises:
            ApiError: The request failed.
        """
        preconditions = {"uid": uid} | ({"resourceVersion": resource_version} if resource_version else {})
        try:
            await self._client.request(
                "DELETE",
                self.path(name),
                body={"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions},
            )
        except (NotFoundError, ConflictError):
            return False
        return True

    async def _get(self, name: str) -> dict[str, Any] | None:
        try:
            answer = await self._client.request("GET", self.path(name))
        except NotFoundError as error:
            if error.reason != "NotFound":
                raise UnreachableError(error.request, f"a 404 that is not the API server's: {error.message}") from error
            return None
        _metadata(answer)
        return answer.object()


def _metadata(answer: Answer) -> Mapping[str, Any]:
    """The metadata of an object that was answered.

    Raises:
        UnreachableError: It has not what every object has, so this is not the answer of an API server.
    """
    metadata = answer.object().get("metadata")
    wanted = ("name", "uid", "resourceVersion")
    if not isinstance(metadata, dict) or not all(isinstance(metadata.get(key), str) for key in wanted):
        raise UnreachableError(answer.request, "the answer is an object without name, UID or resourceVersion")
    return metadata
