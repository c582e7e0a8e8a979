"""An observer in this process, and what tests see of it from outside: its endpoints."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from nicrails.kube import Access, KubeClient, KubeconfigAccess
from nicrails.settings import Duration, ServerSettings
from nicrails_observer.app import ObserverApp
from nicrails_observer.settings import (
    BrakeSettings,
    Identity,
    NodeMetadataSettings,
    ObserverSettings,
    PluginsSettings,
    RailMappingSettings,
    Settings,
)
from tests.support.waiting import eventually

DEPLOYMENT = "nicrails-observer"
CONFIG_MAP = "topograph-nic-rails"
QUICK_BRAKE = BrakeSettings(delay=Duration(0.2))


def quick_settings(
    *,
    brake: BrakeSettings = QUICK_BRAKE,
    batch_size: int = 500,
    enabled: bool = True,
    check_interval: float = 0.2,
    port: int = 0,
) -> Settings:
    """Settings with short intervals, on a free port of loopback."""
    mapping = RailMappingSettings(enabled=enabled, config_map_name=CONFIG_MAP)
    return Settings(
        node_metadata=NodeMetadataSettings(plugins=PluginsSettings(gpu_nic_rail_mapping=mapping)),
        observer=ObserverSettings(check_interval=Duration(check_interval), batch_size=batch_size, brake=brake),
        server=ServerSettings(address="127.0.0.1", port=port),
    )


class Observing:
    """A running observer.

    Attributes:
        app: The observer itself.
        stop: Set it, and the observer ends.
        task: Its run; done when it has ended.
    """

    def __init__(self, app: ObserverApp, stop: asyncio.Event, task: asyncio.Task[None]) -> None:
        self.app = app
        self.stop = stop
        self.task = task
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5))

    @property
    def url(self) -> str:
        """Where its endpoints are."""
        assert self.app.bound is not None
        return "http://{}:{}".format(*self.app.bound)

    async def close(self) -> None:
        """End the connections to it."""
        await self._session.close()

    async def get(self, path: str) -> tuple[int, bytes]:
        """An endpoint's status and body."""
        async with self._session.get(self.url + path) as response:
            return response.status, await response.read()

    async def health(self) -> tuple[int, dict[str, Any]]:
        """What ``/healthz`` says; ``/livez`` must be well whatever that is."""
        assert (await self.get("/livez"))[0] == 200
        async with self._session.get(self.url + "/healthz") as response:
            return response.status, await response.json()

    async def metric(self, name: str, **labels: str) -> float:
        """A sample of ``/metrics``; ``name`` without the common prefix.

        Raises:
            KeyError: There is none.
        """
        _, text = await self.get("/metrics")
        for family in text_string_to_metric_families(text.decode()):
            for sample in family.samples:
                if sample.name == f"nicrails_observer_{name}" and sample.labels == labels:
                    return float(sample.value)
        raise KeyError(f"{name}{labels}")

    async def until_healthy(self, within: float = 20) -> None:
        """Wait until ``/healthz`` is 200."""

        async def healthy() -> bool:
            status, report = await self.health()
            assert status == 200, report
            return True

        await eventually(healthy, within=within, what="the observer is healthy")

    async def until_unhealthy(self, duty: str, *words: str, within: float = 20) -> dict[str, Any]:
        """Wait until ``/healthz`` is 503 since a duty fails whose step and reason contain these words.

        Returns:
            What it says of that duty.
        """

        async def unhealthy() -> dict[str, Any]:
            status, report = await self.health()
            said: dict[str, Any] = report["duties"][duty]
            text = f"{said.get('step')}: {said.get('reason')}"
            assert status == 503, report
            assert said["status"] == "unhealthy", report
            assert all(word in text for word in words), text
            assert said["since"].endswith("Z")
            return said

        return await eventually(unhealthy, within=within, what=f"the observer's duty {duty} fails with {words}")

    async def until_metric(self, name: str, expected: float, *, within: float = 20, **labels: str) -> None:
        """Wait until a sample has at least this value."""

        async def reached() -> bool:
            value = await self.metric(name, **labels)
            assert value >= expected, value
            return True

        await eventually(reached, within=within, what=f"{name}{labels} is at least {expected}")


@contextlib.asynccontextmanager
async def observing(
    access: Access | Path,
    namespace: str,
    *,
    settings: Settings | None = None,
    deployment: str = DEPLOYMENT,
    silence: float = 80.0,
    seed: int = 1,
) -> AsyncIterator[Observing]:
    """A running observer, stopped afterwards.

    Args:
        access: The API server and credentials, or a kubeconfig file.
        namespace: Where its Deployment and the ConfigMap are.
        settings: Its settings.
        deployment: Its Deployment's name.
        silence: Seconds until a silent watch counts as dead.
        seed: For its jitter.
    """
    if isinstance(access, Path):
        access = KubeconfigAccess(access)
    client = KubeClient(access, user_agent="nicrails-observer/test")
    app = ObserverApp(
        settings or quick_settings(),
        Identity(namespace=namespace, deployment=deployment),
        client,
        rng=random.Random(seed),
        silence=silence,
    )
    stop = asyncio.Event()
    task = asyncio.create_task(app.run(stop), name="observer")
    serving = asyncio.create_task(app.serving.wait())
    try:
        async with asyncio.timeout(10):
            await asyncio.wait({task, serving}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        observer = Observing(app, stop, task)
        try:
            yield observer
        finally:
            await observer.close()
    finally:
        serving.cancel()
        stop.set()
        async with asyncio.timeout(10):
            await asyncio.gather(task, serving, return_exceptions=True)
        if not task.cancelled() and task.exception() is not None:
            await task
