"""The restart mode: the device plugin's pod on a Node is deleted, so that its successor reads the topology anew."""

from __future__ import annotations

import structlog

from nicrails.kube import KubeClient, NotFoundError, UnreachableError, core_path


class PluginRestart:
    """Deletes the device plugin's pods.

    Args:
        client: The API server.
        namespace: Where the pods are.
        selector: Their labels.
    """

    def __init__(self, client: KubeClient, namespace: str, selector: str) -> None:
        self._client = client
        self._namespace = namespace
        self._selector = selector

    async def restart(self, node: str) -> None:
        """Delete the device plugin's pods on a Node; their DaemonSet makes new ones.

        Raises:
            ApiError: A request failed.
        """
        query = {"labelSelector": self._selector, "fieldSelector": f"spec.nodeName={node}"}
        answer = await self._client.request("GET", core_path(self._namespace, "pods"), query=query)
        found = answer.object().get("items")
        if not isinstance(found, list):
            raise UnreachableError(answer.request, "the answer is not a list")
        if not found:
            structlog.get_logger().warning("no-device-plugin", node=node, selector=self._selector)
        for pod in found:
            metadata = pod["metadata"]
            options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": metadata["uid"]}}
            try:
                await self._client.request("DELETE", core_path(self._namespace, "pods", metadata["name"]), body=options)
            except NotFoundError:
                continue
            structlog.get_logger().info("device-plugin-restarted", node=node, pod=metadata["name"])
