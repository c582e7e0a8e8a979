"""What the faker's scenarios start from: a namespace with a cluster topology, Nodes, and clients of the services."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Self

import aiohttp

from nicrails.kube import JSON, MERGE_PATCH, Answer, ConflictError, KubeClient, KubeconfigAccess, NotFoundError
from nicrails_faker.api import EmbeddedCluster
from nicrails_faker.mig import NodeTopology, read_topology
from nicrails_faker.running import ServiceApp
from nicrails_faker.topologies.store import APPLY, TopologyStore
from tests.cluster.world import Json, World
from tests.support.endpoint import ApiEndpoint
from tests.support.waiting import eventually

TOPOLOGY = """\
nodePools:
  default:
    gpuProduct: NVIDIA-A100-SXM4-40GB
    gpuCount: 2
    gpuMemory: 40960
nodePoolLabelKey: run.ai/simulated-gpu-node-pool
migStrategy: mixed
"""
POOL = {"run.ai/simulated-gpu-node-pool": "default"}


class ApplyingClient(KubeClient):
    """A client that can apply on the embedded API, which has no server-side apply.

    It sends the merge patch that a forced apply of the same fields amounts to, and answers as the real API server does
    where the object is gone; ``tests/cluster/test_faker_topologies.py`` shows the same behaviour on that one.
    """

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        body: Any = None,
        content_type: str = JSON,
        **others: Any,
    ) -> Answer:
        if content_type != APPLY:
            return await super().request(method, path, query=query, body=body, content_type=content_type, **others)
        assert query is not None, "an apply names its field manager"
        assert query["force"] == "true", query
        assert query["fieldManager"], query
        try:
            return await super().request(
                method,
                path,
                query={"fieldManager": query["fieldManager"]},
                body=body,
                content_type=MERGE_PATCH,
                **others,
            )
        except NotFoundError as error:
            raise ConflictError(error.request, "uid mismatch: no existing object was found", status=409) from error


class Service:
    """A service that runs in this process.

    Attributes:
        app: It.
        stop: Ends it.
    """

    def __init__(self, app: ServiceApp, stop: asyncio.Event) -> None:
        self.app = app
        self.stop = stop

    async def get(self, path: str) -> tuple[int, Any]:
        """Status and body of an endpoint; a JSON body is decoded."""
        assert self.app.bound is not None
        url = f"http://{self.app.bound[0]}:{self.app.bound[1]}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            text = await response.text()
            return response.status, json.loads(text) if response.content_type == "application/json" else text

    @property
    def failure(self) -> str:
        """Why it is not healthy, or ""."""
        report = self.app.health.report()
        return f"{report['step']}: {report['reason']}" if report["status"] == "unhealthy" else ""

    async def until_healthy(self, *, within: float = 30) -> None:
        """Wait until all duties are done."""
        await eventually(lambda: not self.failure or _fail(self.failure), within=within, what="the service is healthy")

    async def until_unhealthy(self, part: str, *, within: float = 30) -> None:
        """Wait until it says this."""
        await eventually(
            lambda: part in self.failure or _fail(self.failure), within=within, what=f'the service says "{part}"'
        )


class Scene:
    """A namespace on an API server, and what the services need in it.

    Attributes:
        world: The namespace; judges go through it.
        store: The topologies, with a client of its own.
        client: That client.
    """

    def __init__(self, world: World, endpoint: ApiEndpoint, folder: Path) -> None:
        self.world = world
        self._access = KubeconfigAccess(_kubeconfig(endpoint, folder))
        self._kind = KubeClient if endpoint.real else ApplyingClient
        self.client = self.new_client()
        self.store = TopologyStore(self.client, world.namespace, "topology")

    @classmethod
    @contextlib.asynccontextmanager
    async def on(cls, endpoint: ApiEndpoint, folder: Path) -> AsyncIterator[Self]:
        """A scene of its own on an API server."""
        async with World.on(endpoint) as world:
            scene = cls(world, endpoint, folder)
            async with scene.client:
                yield scene

    def use(self, endpoint: ApiEndpoint, folder: Path) -> None:
        """The services that are yet to come speak to this endpoint, with its credentials."""
        self._access = KubeconfigAccess(_kubeconfig(endpoint, folder))

    def new_client(self) -> KubeClient:
        """Another client; close it."""
        return self._kind(self._access, user_agent="test/0")

    def node_name(self, stem: str) -> str:
        """A Node's name that no other test has."""
        return self.world.unique(stem)

    @contextlib.asynccontextmanager
    async def service(self, duties: tuple[str, ...], build: Callable[[ServiceApp], None]) -> AsyncIterator[Service]:
        """Run a service within the block."""
        app = ServiceApp("test", self.new_client(), duties)
        build(app)
        stop = asyncio.Event()
        running = asyncio.create_task(app.run(stop), name="service")
        serving = asyncio.create_task(app.serving.wait(), name="service-serving")
        try:
            await asyncio.wait({running, serving}, return_when=asyncio.FIRST_COMPLETED)
            yield Service(app, stop)
        finally:
            serving.cancel()
            stop.set()
            await running

    async def config_map(self, name: str, data: Mapping[str, str], **metadata: Any) -> Json:
        """Make a ConfigMap."""
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name} | metadata,
            "data": dict(data),
        }
        return await self.world.api.create(self.world.path("configmaps"), body)

    async def cluster_topology(self, text: str = TOPOLOGY) -> None:
        """Write the cluster's topology."""
        path = self.world.path("configmaps", "topology")
        if await self.world.api.get_or_none(path) is None:
            await self.config_map("topology", {"topology.yml": text})
        else:
            await self.world.api.merge_patch(path, {"data": {"topology.yml": text}})

    async def object(self, node: str) -> Json | None:
        """The ConfigMap of a Node's topology as it stands there, None if there is none."""
        return await self.world.api.get_or_none(self.world.path("configmaps", f"topology-{node}"))

    async def topology(self, node: str) -> NodeTopology:
        """The topology of a Node as it stands there."""
        found = await self.object(node)
        assert found is not None, f"{node} has no topology"
        return read_topology(found["data"]["topology.yml"])

    async def until_object(self, node: str, *, within: float = 30) -> Json:
        """Wait until a Node has a topology."""
        found = await eventually(lambda: self.object(node), within=within, what=f"{node} has a topology")
        assert found is not None
        return found


@contextlib.asynccontextmanager
async def embedded(folder: Path) -> AsyncIterator[tuple[EmbeddedCluster, Scene]]:
    """A scene on an embedded cluster."""
    async with EmbeddedCluster() as cluster, Scene.on(ApiEndpoint(url=cluster.url), folder) as scene:
        yield cluster, scene


def _fail(text: str) -> bool:
    raise AssertionError(text or "healthy")


def _kubeconfig(endpoint: ApiEndpoint, folder: Path) -> Path:
    cluster: Json = {"server": endpoint.url}
    if endpoint.ca_file is not None:
        cluster["certificate-authority"] = str(endpoint.ca_file)
    user = {"token": endpoint.token} if endpoint.token else {}
    path = folder / f"kubeconfig-{secrets.token_hex(4)}"
    path.touch(mode=0o600)
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "it", "cluster": cluster}],
                "users": [{"name": "it", "user": user}],
                "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
                "current-context": "it",
            }
        )
    )
    return path
