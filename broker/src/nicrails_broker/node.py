"""The broker's own Node in the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nicrails import NodeUid
from nicrails.kube import MERGE_PATCH, METADATA, ApiError, KubeClient, NotFoundError, path
from nicrails_broker.failures import NodeError, api_failure

FIELD_MANAGER = "nicrails-broker"


class ApiNode:
    """The Node of a name, read as metadata only: a whole Node can be 25 KB and more.

    Args:
        client: The API server.
        name: The Node's name.
    """

    def __init__(self, client: KubeClient, name: str) -> None:
        self._client = client
        self._path = path("api", "v1", "nodes", name)
        self.name = name

    async def uid(self) -> NodeUid:
        """See :class:`nicrails_broker.discovery.OwnNode`."""
        metadata = await self._metadata()
        try:
            return NodeUid.parse(metadata["uid"] if isinstance(metadata.get("uid"), str) else "")
        except ValueError as error:
            raise NodeError(f"Node {self.name}: {error}") from error

    async def annotation(self, key: str) -> str | None:
        """The value of an annotation, or None.

        Raises:
            NodeError: The Node could not be read.
        """
        annotations = (await self._metadata()).get("annotations")
        value = annotations.get(key) if isinstance(annotations, dict) else None
        return value if isinstance(value, str) else None

    async def annotate(self, key: str, value: str) -> None:
        """Set an annotation and leave everything else alone.

        Raises:
            NodeError: It was not set, or it is not known whether it was.
        """
        try:
            await self._client.request(
                "PATCH",
                self._path,
                query={"fieldManager": FIELD_MANAGER},
                body={"metadata": {"annotations": {key: value}}},
                content_type=MERGE_PATCH,
                accept=METADATA,
            )
        except ApiError as error:
            raise self._failure(error, "can not annotate", "patch on nodes") from error

    async def _metadata(self) -> Mapping[str, Any]:
        try:
            answer = await self._client.request("GET", self._path, accept=METADATA)
            metadata = answer.object().get("metadata")
        except NotFoundError as error:
            raise NodeError(f"Node {self.name} does not exist; NODE_NAME must be the pod's spec.nodeName") from error
        except ApiError as error:
            raise self._failure(error, "can not read", "get on nodes") from error
        return metadata if isinstance(metadata, dict) else {}

    def _failure(self, error: ApiError, doing: str, grant: str) -> NodeError:
        reason, retry, after = api_failure(error, f"{doing} Node {self.name}", grant=grant)
        return NodeError(reason, retry=retry, retry_after=after)


class GivenNode:
    """A Node of which only the UID is known, for a discovery without an API server."""

    def __init__(self, uid: NodeUid) -> None:
        self._uid = uid

    async def uid(self) -> NodeUid:
        """See :class:`nicrails_broker.discovery.OwnNode`."""
        return self._uid
