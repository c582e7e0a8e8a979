"""What an observer's scenario starts from: a Deployment, Nodes with records, and a broker's way to publish."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from tests.cluster.world import Json, World
from tests.observer.documents import record
from tests.observer.observing import CONFIG_MAP, DEPLOYMENT, Observing, observing
from tests.support.endpoint import ApiEndpoint
from tests.support.proxy import FaultProxy
from tests.support.waiting import eventually


class Scene:
    """A namespace with the observer's Deployment.

    Attributes:
        world: The namespace.
        proxy: What stands between the observers and the API server; judges go past it.
        config_map: The path of the ConfigMap.
    """

    def __init__(self, world: World, proxy: FaultProxy, folder: Path) -> None:
        self.world = world
        self.proxy = proxy
        self.config_map = world.path("configmaps", CONFIG_MAP)
        self._folder = folder

    @classmethod
    @contextlib.asynccontextmanager
    async def on(cls, endpoint: ApiEndpoint, folder: Path, *, deployment: bool = True) -> AsyncIterator[Self]:
        """A scene of its own on an API server.

        Args:
            endpoint: The API server.
            folder: For files, such as a kubeconfig.
            deployment: Whether the observer's Deployment is there.
        """
        async with World.on(endpoint) as world, FaultProxy(endpoint) as proxy:
            if deployment:
                await world.deployment()
            yield cls(world, proxy, folder)

    def kubeconfig(self, token: str | None = None) -> Path:
        """A kubeconfig that leads through the proxy."""
        return self.proxy.kubeconfig(self._folder / f"kubeconfig-{secrets.token_hex(4)}", token=token)

    @contextlib.asynccontextmanager
    async def observer(self, *, healthy: bool = True, **options: Any) -> AsyncIterator[Observing]:
        """An observer of this namespace; the options are those of :func:`observing`.

        Args:
            healthy: Wait until it is healthy.
            options: Of the observer.
        """
        access = options.pop("access", None) or self.kubeconfig()
        async with observing(access, self.world.namespace, **options) as observer:
            if healthy:
                await observer.until_healthy()
            yield observer

    async def object(self) -> Json | None:
        """The ConfigMap as it is."""
        return await self.world.api.get_or_none(self.config_map)

    async def records(self) -> dict[str, str]:
        """The ConfigMap's data; it must be there."""
        found = await self.world.api.get(self.config_map)
        return dict(found.get("data") or {})

    async def until_records(self, expected: Mapping[str, str], *, within: float = 20) -> None:
        """Wait until the data is exactly this, byte for byte."""

        async def stand() -> bool:
            found = await self.records()
            assert found.keys() == expected.keys(), sorted(found.keys() ^ expected.keys())[:10]
            assert found == expected
            return True

        await eventually(stand, within=within, what="exactly these records stand")

    async def publish(self, records: Mapping[str, str | None]) -> None:
        """Publish records as brokers do, without a look at whose the ConfigMap is."""
        await self.world.api.merge_patch(self.config_map, {"data": dict(records)})

    async def node(self, stem: str) -> tuple[str, str]:
        """A new Node; returns its name, unique to this scene, and its record."""
        name = self.world.unique(stem)
        made = await self.world.node(name)
        return name, record(made["metadata"]["uid"])

    async def published(self, stems: Iterable[str]) -> dict[str, str]:
        """New Nodes whose records stand in the ConfigMap."""
        records = dict([await self.node(stem) for stem in stems])
        await self.publish(records)
        return records

    async def collects(self, observer: Observing, records: dict[str, str]) -> None:
        """The observer does its work: a Node's record goes, the others stay; the Node is taken out of ``records``."""
        name = next(iter(records))
        await self.world.delete_node(name)
        del records[name]
        await self.until_records(records, within=40)
        await observer.until_healthy(within=40)

    async def deployment_uid(self) -> str:
        """The UID of the observer's Deployment."""
        found = await self.world.api.get(self.world.path("deployments", DEPLOYMENT, group="apis/apps/v1"))
        return str(found["metadata"]["uid"])

    @property
    def deployment(self) -> str:
        """The path of the observer's Deployment."""
        return self.world.path("deployments", DEPLOYMENT, group="apis/apps/v1")
