"""A device plugin: the server that the kubelet talks to about one resource."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from nicrails_faker.deviceplugin.allocation import AllocationError, Given, preferred
from nicrails_faker.deviceplugin.devices import Device
from nicrails_faker.deviceplugin.metrics import Metrics
from nicrails_faker.kubelet.api import (
    ALLOCATE,
    DEVICE_PLUGIN,
    HEALTHY,
    LIST_AND_WATCH,
    OPTIONS,
    PRE_START,
    PREFERRED_ALLOCATION,
)
from nicrails_faker.kubelet.generated import deviceplugin_pb2 as messages
from nicrails_faker.kubelet.rpc import service

HANDING_OVER = 0.5
"""Seconds; a kubelet that takes longer is one that hangs."""


class PluginError(Exception):
    """The plugin can not serve; the message is one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketIdentity:
    """Tells one socket from another of the same path: inodes are used again, so the time of the change counts too."""

    device: int
    inode: int
    changed: int

    @classmethod
    def of(cls, path: Path) -> SocketIdentity | None:
        """The identity of what is there now, None if nothing is."""
        try:
            status = path.stat()
        except OSError:
            return None
        return cls(device=status.st_dev, inode=status.st_ino, changed=status.st_ctime_ns)


class Plugin:
    """The server for one resource. At most one serves on a path: the end of the one before removes the socket.

    Args:
        resource: Such as ``nvidia.com/gpu``.
        socket: Where it serves.
        given: Says what containers get.
        metrics: The service's.
        changed: Called when a stream of the kubelet begins or ends.
        clock: Monotonic seconds.

    Attributes:
        begun: How many streams of devices the kubelet has begun.
        alone_since: The time at which the last stream ended, or the plugin was made; None while the kubelet follows.
    """

    def __init__(
        self,
        resource: str,
        socket: Path,
        given: Callable[[], Given],
        metrics: Metrics,
        *,
        changed: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.resource = resource
        self.socket = socket
        self.begun = 0
        self.alone_since: float | None = clock()
        self._given = given
        self._metrics = metrics
        self._changed = changed
        self._clock = clock
        self._devices: dict[str, Device] = {}
        self._version = self._handed_over = 0
        self._news = asyncio.Condition()
        self._streams = 0
        self._server: aio.Server | None = None
        self._identity: SocketIdentity | None = None

    async def offer(self, devices: tuple[Device, ...]) -> None:
        """These are all the devices; the kubelet is told at once if they are others than before."""
        self._metrics.offered(self.resource, len(devices))
        wanted = {device.id: device for device in devices}
        if list(wanted.values()) == list(self._devices.values()):
            return
        self._devices = wanted
        await self._tell()

    async def handed_over(self) -> None:
        """Wait until a kubelet that follows has been sent what was offered last; not for long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HANDING_OVER), self._news:
                while self._streams and self._handed_over < self._version:
                    await self._news.wait()

    async def start(self) -> None:
        """Serve.

        Raises:
            PluginError: The socket can not be made.
        """
        if self._server is not None:
            raise AssertionError("a plugin is started once, and then stopped")
        server = aio.server()
        server.add_generic_rpc_handlers(
            [
                service(
                    DEVICE_PLUGIN,
                    dict(
                        (
                            OPTIONS.unary(self._options),
                            LIST_AND_WATCH.streaming(self._list_and_watch),
                            PREFERRED_ALLOCATION.unary(self._preferred),
                            ALLOCATE.unary(self._allocate),
                            PRE_START.unary(self._pre_start),
                        )
                    ),
                )
            ]
        )
        try:
            self.socket.unlink(missing_ok=True)
            server.add_insecure_port(f"unix:{self.socket}")
            await server.start()
        except (OSError, RuntimeError) as error:
            await server.stop(None)
            raise PluginError(
                f"can not serve {self.resource} on {self.socket} ({error}); the kubelet's folder must be mounted and"
                " writable"
            ) from error
        self._server = server
        self._identity = SocketIdentity.of(self.socket)

    async def stop(self) -> None:
        """End, if it serves; the kubelet's stream ends with it."""
        server, self._server = self._server, None
        if server is None:
            return
        await self._tell()
        await server.stop(None)

    @property
    def intact(self) -> bool:
        """Whether it serves, and its socket is the one that it has made."""
        return self._server is not None and SocketIdentity.of(self.socket) == self._identity is not None

    async def _tell(self) -> None:
        async with self._news:
            self._version += 1
            self._news.notify_all()

    async def _options(self, _: messages.Empty, __: aio.ServicerContext[Any, Any]) -> messages.DevicePluginOptions:
        return messages.DevicePluginOptions(get_preferred_allocation_available=True)

    async def _list_and_watch(
        self, _: messages.Empty, __: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[messages.ListAndWatchResponse]:
        server = self._server
        self._streams += 1
        self.begun += 1
        self.alone_since = None
        self._changed()
        try:
            while self._server is server:
                version = self._version
                yield messages.ListAndWatchResponse(devices=[_message(one) for one in self._devices.values()])
                async with self._news:
                    self._handed_over = max(self._handed_over, version)
                    self._news.notify_all()
                    while self._version == version:
                        await self._news.wait()
        finally:
            self._streams -= 1
            if not self._streams:
                self.alone_since = self._clock()
            self._changed()

    async def _preferred(
        self, request: messages.PreferredAllocationRequest, context: aio.ServicerContext[Any, Any]
    ) -> messages.PreferredAllocationResponse:
        answer = messages.PreferredAllocationResponse()
        try:
            for container in request.container_requests:
                answer.container_responses.add(deviceIDs=preferred(self.resource, self._devices, container))
        except AllocationError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return answer

    async def _allocate(
        self, request: messages.AllocateRequest, context: aio.ServicerContext[Any, Any]
    ) -> messages.AllocateResponse:
        try:
            answer = self._given().allocate(self.resource, self._devices, request)
        except AllocationError as error:
            self._metrics.refusals.labels(self.resource).inc()
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise
        self._metrics.allocations.labels(self.resource).inc(len(request.container_requests))
        return answer

    async def _pre_start(
        self, _: messages.PreStartContainerRequest, __: aio.ServicerContext[Any, Any]
    ) -> messages.PreStartContainerResponse:
        return messages.PreStartContainerResponse()


def _message(device: Device) -> messages.Device:
    message = messages.Device(ID=device.id, health=HEALTHY)
    if device.numa_node is not None:
        message.topology.nodes.add(ID=device.numa_node)
    return message
