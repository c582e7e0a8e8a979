"""A double of the kubelet's device manager: what it does with sockets, registrations, streams and devices.

Source: Kubernetes' ``pkg/kubelet/cm/devicemanager``. It dials back within Register, takes each message as the whole set,
counts no device of a plugin whose stream has ended, lets a registration replace the one before, and removes all sockets
of the directory when it starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import stat
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from nicrails_faker.kubelet import Held
from nicrails_faker.kubelet.api import (
    ALLOCATE,
    DEVICE_PLUGIN,
    HEALTHY,
    KUBELET_SOCKET,
    LIST,
    LIST_AND_WATCH,
    OPTIONS,
    POD_RESOURCES,
    PRE_START,
    PREFERRED_ALLOCATION,
    REGISTER,
    REGISTRATION,
    VERSION,
)
from nicrails_faker.kubelet.generated import deviceplugin_pb2 as plugin
from nicrails_faker.kubelet.generated import podresources_pb2 as resources
from nicrails_faker.kubelet.rpc import channel, service

__all__ = ["DEVICE_PLUGIN", "FakeKubelet", "FakePodResources", "Registered"]

DIAL_LIMIT = 10.0


@dataclass(slots=True, kw_only=True)
class Registered:
    """A plugin that the kubelet knows."""

    endpoint: str
    options: plugin.DevicePluginOptions
    devices: dict[str, plugin.Device] = field(default_factory=dict)
    connected: bool = True
    messages: int = 0
    watching: asyncio.Task[None] | None = None


class FakeKubelet:
    """The kubelet of a Node.

    Attributes:
        directory: Its sockets.
        plugins: By resource; one that has gone stays.
        registrations: Resources in the order of their registrations, since the double was made.
        sets: Resource and device IDs of each message.
        refuse: Resources whose registration it refuses.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.plugins: dict[str, Registered] = {}
        self.registrations: list[str] = []
        self.sets: list[tuple[str, tuple[str, ...]]] = []
        self.refuse: set[str] = set()
        self._server: aio.Server | None = None

    async def start(self, *, keep: bool = False) -> None:
        """Start, as a new process: nobody is registered, and all sockets are removed unless they are to be kept."""
        for file in self.directory.iterdir():
            if stat.S_ISSOCK(file.stat().st_mode) and not keep:
                file.unlink()
        self.plugins.clear()
        self._server = aio.server()
        self._server.add_generic_rpc_handlers([service(REGISTRATION, dict([REGISTER.unary(self._register)]))])
        self._server.add_insecure_port(f"unix:{self.directory / KUBELET_SOCKET}")
        await self._server.start()

    async def stop(self) -> None:
        """End."""
        for resource in list(self.plugins):
            await self.disconnect(resource)
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def restart(self) -> None:
        """End, and start anew."""
        await self.stop()
        await self.start()

    async def disconnect(self, resource: str) -> None:
        """Cut the stream of a plugin."""
        watching = self.plugins[resource].watching
        if watching is not None:
            watching.cancel()
            await asyncio.wait({watching})

    @property
    def allocatable(self) -> dict[str, int]:
        """What the Node's status says; a resource that was known once stays, with 0."""
        return {
            resource: sum(device.health == HEALTHY for device in one.devices.values()) if one.connected else 0
            for resource, one in self.plugins.items()
        }

    def devices(self, resource: str) -> tuple[str, ...]:
        """The IDs of the devices of a resource."""
        return tuple(self.plugins[resource].devices)

    async def allocate(self, resource: str, *containers: Sequence[str]) -> plugin.AllocateResponse:
        """Allocate devices for the containers of a pod."""
        request = plugin.AllocateRequest(
            container_requests=[plugin.ContainerAllocateRequest(devices_ids=ids) for ids in containers]
        )
        async with self._dial(resource) as dialled:
            return await ALLOCATE.call(dialled, request, timeout=DIAL_LIMIT)

    async def preferred(
        self, resource: str, available: Sequence[str], must: Sequence[str], size: int
    ) -> tuple[str, ...]:
        """Ask for the devices that a container should best get."""
        one = plugin.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
        )
        async with self._dial(resource) as dialled:
            answer = await PREFERRED_ALLOCATION.call(
                dialled, plugin.PreferredAllocationRequest(container_requests=[one]), timeout=DIAL_LIMIT
            )
        return tuple(answer.container_responses[0].deviceIDs)

    async def pre_start(self, resource: str, *ids: str) -> None:
        """Tell that a container starts."""
        async with self._dial(resource) as dialled:
            await PRE_START.call(dialled, plugin.PreStartContainerRequest(devices_ids=ids), timeout=DIAL_LIMIT)

    @contextlib.asynccontextmanager
    async def _dial(self, resource: str) -> AsyncIterator[aio.Channel]:
        async with channel(self.directory / self.plugins[resource].endpoint) as dialled:
            yield dialled

    async def _register(self, request: plugin.RegisterRequest, context: aio.ServicerContext[Any, Any]) -> plugin.Empty:
        resource = request.resource_name
        self.registrations.append(resource)
        if request.version != VERSION:
            await context.abort(grpc.StatusCode.UNKNOWN, "requested API version is not supported by kubelet")
        if "/" not in resource or resource in self.refuse:
            await context.abort(grpc.StatusCode.UNKNOWN, f"the ResourceName {resource} is invalid")
        try:
            async with channel(self.directory / request.endpoint) as dialled:
                options = await OPTIONS.call(dialled, plugin.Empty(), timeout=DIAL_LIMIT)
        except aio.AioRpcError as error:
            await context.abort(grpc.StatusCode.UNKNOWN, f"failed to dial device plugin: {error.details()}")
            raise
        if resource in self.plugins:
            await self.disconnect(resource)
        one = Registered(endpoint=request.endpoint, options=options)
        self.plugins[resource] = one
        one.watching = asyncio.create_task(self._watch(resource, one), name=f"kubelet-{resource}")
        return plugin.Empty()

    async def _watch(self, resource: str, one: Registered) -> None:
        try:
            async with channel(self.directory / one.endpoint) as dialled:
                async with contextlib.aclosing(LIST_AND_WATCH.stream(dialled, plugin.Empty())) as messages:
                    async for message in messages:
                        one.devices = {device.ID: device for device in message.devices}
                        one.messages += 1
                        self.sets.append((resource, tuple(one.devices)))
        except aio.AioRpcError:
            pass
        finally:
            one.connected = False


class FakePodResources:
    """The pod resources API of a kubelet.

    Attributes:
        held: What it says.
        asked: How often it was asked.
    """

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.held: list[Held] = []
        self.asked = 0
        self._server: aio.Server | None = None

    async def start(self) -> None:
        """Serve."""
        self._server = aio.server()
        self._server.add_generic_rpc_handlers([service(POD_RESOURCES, dict([LIST.unary(self._list)]))])
        self._server.add_insecure_port(f"unix:{self.socket}")
        await self._server.start()

    async def stop(self) -> None:
        """End."""
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def _list(
        self, request: resources.ListPodResourcesRequest, context: aio.ServicerContext[Any, Any]
    ) -> resources.ListPodResourcesResponse:
        self.asked += 1
        pods: dict[tuple[str, str], resources.PodResources] = {}
        for one in self.held:
            pod = pods.setdefault(
                (one.namespace, one.pod), resources.PodResources(name=one.pod, namespace=one.namespace)
            )
            container = next((known for known in pod.containers if known.name == one.container), None)
            if container is None:
                container = pod.containers.add(name=one.container)
            container.devices.add(resource_name=one.resource, device_ids=[one.device])
        return resources.ListPodResourcesResponse(pod_resources=pods.values())
