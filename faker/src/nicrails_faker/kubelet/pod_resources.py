"""Which container holds which device, as the kubelet says it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grpc import aio

from nicrails_faker.kubelet.api import LIST
from nicrails_faker.kubelet.errors import failure
from nicrails_faker.kubelet.generated import podresources_pb2 as messages
from nicrails_faker.kubelet.rpc import channel

TIME_LIMIT = 10.0
"""Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Held:
    """A device that a container holds.

    Attributes:
        resource: Such as ``nvidia.com/mig-1g.5gb``.
        device: Its ID.
        namespace: The pod's.
        pod: The pod's name.
        container: The container's name.
    """

    resource: str
    device: str
    namespace: str
    pod: str
    container: str


class PodResources:
    """The kubelet's pod resources API.

    Args:
        socket: Where it serves, by default ``/var/lib/kubelet/pod-resources/kubelet.sock``.
        time_limit: Seconds of one question.
    """

    def __init__(self, socket: Path, *, time_limit: float = TIME_LIMIT) -> None:
        self._socket = socket
        self._time_limit = time_limit

    async def list(self) -> list[Held]:
        """The devices that are held now, sorted.

        Raises:
            KubeletError: The kubelet could not be asked.
        """
        # A channel of its own each time: the kubelet may have been started anew since, and a channel would wait long
        # before it tries a second time.
        async with channel(self._socket) as kubelet:
            try:
                answer = await LIST.call(kubelet, messages.ListPodResourcesRequest(), timeout=self._time_limit)
            except aio.AioRpcError as error:
                raise failure(error, "list the devices that pods hold", str(self._socket)) from error
        return sorted(
            Held(
                resource=devices.resource_name,
                device=device,
                namespace=pod.namespace,
                pod=pod.name,
                container=container.name,
            )
            for pod in answer.pod_resources
            for container in pod.containers
            for devices in container.devices
            for device in devices.device_ids
        )
