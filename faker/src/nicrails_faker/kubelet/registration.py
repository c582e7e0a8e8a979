"""Registering a device plugin with the kubelet."""

from __future__ import annotations

from pathlib import Path

from grpc import aio

from nicrails_faker.kubelet.api import KUBELET_SOCKET, REGISTER, VERSION
from nicrails_faker.kubelet.errors import failure
from nicrails_faker.kubelet.generated import deviceplugin_pb2 as messages
from nicrails_faker.kubelet.rpc import channel

TIME_LIMIT = 15.0
"""Seconds; the kubelet dials back within the call and gives itself 10 of them."""


async def register(
    directory: Path, *, endpoint: str, resource: str, preferred_allocation: bool, time_limit: float = TIME_LIMIT
) -> None:
    """Tell the kubelet of a device plugin, which must serve already: the kubelet dials back before it answers.

    Args:
        directory: Has the kubelet's socket and the plugin's.
        endpoint: The name of the plugin's socket.
        resource: Such as ``nvidia.com/gpu``.
        preferred_allocation: The plugin answers GetPreferredAllocation.
        time_limit: Seconds.

    Raises:
        KubeletError: It was not taken.
    """
    options = messages.DevicePluginOptions(get_preferred_allocation_available=preferred_allocation)
    request = messages.RegisterRequest(version=VERSION, endpoint=endpoint, resource_name=resource, options=options)
    socket = directory / KUBELET_SOCKET
    async with channel(socket) as kubelet:
        try:
            await REGISTER.call(kubelet, request, timeout=time_limit)
        except aio.AioRpcError as error:
            raise failure(error, f"register {resource}", str(socket)) from error
