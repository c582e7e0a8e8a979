"""The objects that a scenario starts from, made over plain HTTP and removed afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Self

from tests.cluster.api import Api, Json
from tests.support.endpoint import ApiEndpoint

__all__ = ["Json", "World", "reference"]


class World:
    """A namespace of a unique name and what a scenario makes in and around it.

    Attributes:
        api: The administrator's client.
        namespace: The namespace's name.
    """

    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self._cluster_wide: list[str] = []

    @classmethod
    @contextlib.asynccontextmanager
    async def on(cls, endpoint: ApiEndpoint) -> AsyncIterator[Self]:
        """A world of its own on this API server; everything made through it goes afterwards."""
        async with Api.on(endpoint) as api:
            world = cls(api, f"test-{secrets.token_hex(4)}")
            await api.create("/api/v1/namespaces", _object("v1", "Namespace", world.namespace))
            try:
                # Pods need an account; the one that a controller makes comes later than the first pod.
                await world.service_account("workload")
                yield world
            finally:
                await world._remove()

    def path(self, resource: str, name: str = "", *, group: str = "api/v1") -> str:
        """The path of a namespaced collection or object: ``path("configmaps", "x")``."""
        return f"/{group}/namespaces/{self.namespace}/{resource}" + (f"/{name}" if name else "")

    def unique(self, stem: str) -> str:
        """A name that no other world uses, for what has no namespace."""
        return f"{stem}-{self.namespace.removeprefix('test-')}"

    async def node(
        self, name: str, *, kubelet_port: int | None = None, labels: Mapping[str, str] | None = None
    ) -> Json:
        """A Node of exactly this name (``unique`` makes one) whose kubelet, if any, listens on 127.0.0.1."""
        made = await self.api.create("/api/v1/nodes", _object("v1", "Node", name, labels=dict(labels or {})))
        self._cluster_wide.append(f"/api/v1/nodes/{name}")
        if kubelet_port is None:
            return made
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
        }
        return await self.api.merge_patch(f"/api/v1/nodes/{name}/status", {"status": status})

    async def delete_node(self, name: str) -> None:
        """Remove a Node."""
        await self.api.delete(f"/api/v1/nodes/{name}")

    async def deployment(self, name: str = "nicrails-observer") -> Json:
        """A Deployment, as the observer's own; nothing runs from it."""
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": _template({"app": name})}
        body = {**_object("apps/v1", "Deployment", name), "spec": spec}
        return await self.api.create(self.path("deployments", group="apis/apps/v1"), body)

    async def daemon_set(self, name: str = "nvidia-device-plugin-daemonset", *, selector: Json | None = None) -> Json:
        """A DaemonSet, as the GPU Operator's; nothing runs from it.

        Args:
            name: Its name.
            selector: Its full label selector; by default ``{"matchLabels": {"app": name}}``. Pods carry its
                ``matchLabels``.
        """
        selector = selector or {"matchLabels": {"app": name}}
        spec = {"selector": selector, "template": _template(selector.get("matchLabels", {}))}
        body = {**_object("apps/v1", "DaemonSet", name), "spec": spec}
        return await self.api.create(self.path("daemonsets", group="apis/apps/v1"), body)

    async def pod(
        self,
        daemon_set: Json,
        node: str,
        *,
        name: str | None = None,
        phase: str = "Running",
        ready: bool = True,
        labels: Mapping[str, str] | None = None,
        owned: bool = True,
        containers: Sequence[str] = ("nvidia-device-plugin",),
        service_account: str = "workload",
    ) -> Json:
        """A pod of this DaemonSet on this Node, with the status that a kubelet would have written.

        Args:
            daemon_set: What ``daemon_set`` returned.
            node: The Node's name.
            name: The pod's name; by default one that belongs to the DaemonSet and the Node.
            phase: The pod's phase; ``Pending`` leaves it without running containers.
            ready: Whether the Ready condition and the containers are.
            labels: Instead of the DaemonSet's ``matchLabels``.
            owned: Whether the DaemonSet is its controller.
            containers: The containers' names.
            service_account: The account it runs as.
        """
        owner = daemon_set["metadata"]
        name = name or f"{owner['name']}-{secrets.token_hex(3)}"
        matched = dict(daemon_set["spec"]["selector"].get("matchLabels", {})) if labels is None else dict(labels)
        body = _object("v1", "Pod", name, labels=matched)
        if owned:
            body["metadata"]["ownerReferences"] = [reference("apps/v1", "DaemonSet", daemon_set)]
        body["spec"] = {
            **_template({}, containers)["spec"],
            "nodeName": node,
            "serviceAccountName": service_account,
            "automountServiceAccountToken": False,
        }
        await self.api.create(self.path("pods"), body)
        return await self.pod_status(name, phase=phase, ready=ready, containers=containers)

    async def pod_status(
        self,
        name: str,
        *,
        phase: str = "Running",
        ready: bool = True,
        containers: Sequence[str] = ("nvidia-device-plugin",),
    ) -> Json:
        """Write a pod's status as its kubelet would."""
        running = phase == "Running"
        truth = "True" if ready and running else "False"
        now = "2026-01-01T00:00:00Z"
        state = {"running": {"startedAt": now}} if running else {"waiting": {"reason": "ContainerCreating"}}
        status = {
            "phase": phase,
            "conditions": [{"type": kind, "status": truth} for kind in ("ContainersReady", "Ready")],
            "containerStatuses": [
                {
                    "name": container,
                    "ready": truth == "True",
                    "restartCount": 0,
                    "image": "example.invalid/image",
                    "imageID": "",
                    "started": running,
                    "state": state,
                }
                for container in containers
            ],
        }
        return await self.api.merge_patch(self.path("pods", name) + "/status", {"status": status})

    async def delete_pod(self, name: str, *, grace: int = 0) -> None:
        """Remove a pod; with a grace period it stays, terminating, since no kubelet confirms its end."""
        await self.api.delete(self.path("pods", name), grace=grace)

    async def service_account(
        self, name: str, *, rules: Sequence[Json] = (), cluster_rules: Sequence[Json] = ()
    ) -> str:
        """A ServiceAccount with these RBAC rules in this namespace and in the whole cluster; returns its user name."""
        await self.api.create(self.path("serviceaccounts"), _object("v1", "ServiceAccount", name))
        rbac = "apis/rbac.authorization.k8s.io/v1"
        subjects = [{"kind": "ServiceAccount", "namespace": self.namespace, "name": name}]
        for kind, given, place, scoped in (
            ("Role", rules, f"/{rbac}/namespaces/{self.namespace}", name),
            ("ClusterRole", cluster_rules, f"/{rbac}", self.unique(name)),
        ):
            if not given:
                continue
            version = "rbac.authorization.k8s.io/v1"
            binding = {
                **_object(version, f"{kind}Binding", scoped),
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": scoped},
                "subjects": subjects,
            }
            await self.api.create(f"{place}/{kind.lower()}s", {**_object(version, kind, scoped), "rules": list(given)})
            await self.api.create(f"{place}/{kind.lower()}bindings", binding)
            if kind == "ClusterRole":
                self._cluster_wide += [f"{place}/{kind.lower()}{end}/{scoped}" for end in ("s", "bindings")]
        return f"system:serviceaccount:{self.namespace}:{name}"

    async def _remove(self) -> None:
        pods = await self.api.get(self.path("pods"))
        # Bound pods wait for a kubelet's word; without it the namespace would never go.
        await asyncio.gather(*(self.delete_pod(pod["metadata"]["name"]) for pod in pods["items"]))
        await asyncio.gather(*(self.api.delete(path) for path in self._cluster_wide))
        await self.api.delete(f"/api/v1/namespaces/{self.namespace}")


def reference(api_version: str, kind: str, owner: Json) -> Json:
    """A controller owner reference to ``owner``."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }


def _object(api_version: str, kind: str, name: str, *, labels: Mapping[str, str] | None = None) -> Json:
    metadata: Json = {"name": name}
    if labels:
        metadata["labels"] = dict(labels)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _template(labels: Mapping[str, str], containers: Sequence[str] = ("main",)) -> Json:
    return {
        "metadata": {"labels": dict(labels)},
        "spec": {"containers": [{"name": name, "image": "example.invalid/image"} for name in containers]},
    }
