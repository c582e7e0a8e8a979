"""All plugins of a Node: one for each resource that it offers or has offered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from nicrails_faker.deviceplugin.allocation import Given
from nicrails_faker.deviceplugin.devices import MAX_SOCKET_PATH, STALE_SOCKETS, Device, socket_name
from nicrails_faker.deviceplugin.keeping import LOOK, Keeper
from nicrails_faker.deviceplugin.metrics import Metrics
from nicrails_faker.deviceplugin.plugin import Plugin
from nicrails_faker.mig import GPU_RESOURCE
from nicrails_faker.reporting import Report

STEP = "register-plugins"
MOST = 256
"""Plugins that are kept; resources that are offered are far fewer, and who writes documents can think of any number of names."""


class Plugins:
    """Keeps a plugin for each resource.

    A resource that is no longer offered keeps its plugin, with no device: then the kubelet counts 0 of it at once. Without
    a plugin it would go on counting them for minutes in the Node's capacity. Of too many the oldest such plugins end.

    Args:
        directory: The kubelet's folder of plugins.
        given: Says what containers get.
        report: How registering goes.
        metrics: The service's.
    """

    def __init__(self, directory: Path, given: Callable[[], Given], report: Report, metrics: Metrics) -> None:
        self._directory = directory
        self._given = given
        self._report = report
        self._metrics = metrics
        self._keepers: dict[str, Keeper] = {}
        self._troubles: dict[str, str] = {}
        self._fresh: list[Keeper] = []
        self._running: dict[str, asyncio.Task[None]] = {}
        self._more = asyncio.Event()

    async def offer(self, resources: Mapping[str, tuple[Device, ...]]) -> None:
        """This is all that the Node has; what the kubelet knows of is told to it at once.

        What goes is told before what comes: a GPU that is cut shall not count as whole besides. Streams of two resources
        have no common order, so this holds but for the moment that the kubelet takes to read.
        """
        gone = {resource: keeper for resource, keeper in self._keepers.items() if not resources.get(resource)}
        for keeper in gone.values():
            await keeper.plugin.offer(())
        for keeper in gone.values():
            await keeper.plugin.handed_over()
        surplus = len(self._keepers.keys() | resources.keys()) - MOST
        for resource in [one for one in gone if one != GPU_RESOURCE][: max(0, surplus)]:
            await self._retire(resource)
        for resource, devices in resources.items():
            await self._keeper(resource).plugin.offer(devices)
        for keeper in self._keepers.values():
            await keeper.plugin.handed_over()
        self._more.set()
        self._tell()

    async def run(self) -> None:
        """Serve and register for ever."""
        await self._clear()
        async with asyncio.TaskGroup() as group:
            while True:
                for keeper in self._fresh:
                    resource = keeper.plugin.resource
                    self._running[resource] = group.create_task(keeper.run(), name=f"plugin-{resource}")
                self._fresh.clear()
                self._more.clear()
                await self._more.wait()

    def _keeper(self, resource: str) -> Keeper:
        if (known := self._keepers.get(resource)) is not None:
            return known
        name = socket_name(
            resource,
            {keeper.plugin.socket.name for keeper in self._keepers.values()},
            longest=MAX_SOCKET_PATH - len(bytes(self._directory)) - 1,
        )
        wake = asyncio.Event()
        plugin = Plugin(resource, self._directory / name, self._given, self._metrics, changed=wake.set)

        def told(trouble: str) -> None:
            self._troubles[resource] = trouble
            self._tell(news=trouble)

        keeper = Keeper(plugin, self._directory, self._metrics, told=told, wake=wake)
        self._keepers[resource] = keeper
        self._troubles[resource] = f"{resource} is not registered yet"
        self._fresh.append(keeper)
        return keeper

    async def _retire(self, resource: str) -> None:
        keeper = self._keepers.pop(resource)
        if keeper in self._fresh:
            self._fresh.remove(keeper)
        if (running := self._running.pop(resource, None)) is not None:
            running.cancel()
            await asyncio.wait({running})
        self._troubles.pop(resource, None)
        self._metrics.forgotten(resource)

    def _tell(self, news: str = "") -> None:
        """Tell how registering goes; a failure is told when it happens, and again as long as it is the only reason."""
        first = next((trouble for trouble in self._troubles.values() if trouble), "")
        if news:
            self._report.failed(STEP, news)
        elif first:
            self._report.waits(STEP, first)
        else:
            self._report.succeeded()

    async def _clear(self) -> None:
        """Remove the sockets that a predecessor has left; the kubelet does not."""
        while True:
            try:
                for path in self._directory.iterdir():
                    if path.match(STALE_SOCKETS) and path.is_socket():
                        path.unlink(missing_ok=True)
                        structlog.get_logger().info("stale-socket-removed", socket=path.name)
            except OSError as error:
                self._report.failed(
                    "clear-sockets", f"can not clear {self._directory} ({error.strerror}); mount the kubelet's folder"
                )
                await asyncio.sleep(LOOK)
            else:
                return
