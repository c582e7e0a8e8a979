"""Following the Node's topology: what stands there becomes files on the host and devices at the kubelet."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from nicrails.kube import ApiError, ConflictError, InvalidError, NotFoundError
from nicrails_faker import smi
from nicrails_faker.deviceplugin.devices import NOTHING, Offer, offer
from nicrails_faker.mig import NodeTopology, conditions, fingerprint, refusals
from nicrails_faker.reporting import Report
from nicrails_faker.topologies.config_maps import ADVERTISED_ANNOTATION, Stored
from nicrails_faker.topologies.documents import Document, Unreadable, document_cache

READ, OFFER, WRITE, SAY = "read-topology", "offer-devices", "write-nvidia-smi", "say-what-is-offered"
AGAIN = 2.0
"""Seconds until what could not be said is said again."""


class Follower:
    """Takes over each state of the topology.

    Args:
        node: The Node's name.
        take: Told what the Node offers now; returns when the kubelet, if it follows, has been told.
        say: Writes to the topology's ConfigMap that this fingerprint was handed over.
        host_folder: Where the fake nvidia-smi is written.
        topology: How taking over the topology goes.
        files: How writing nvidia-smi goes.
        strict: Offer no GPUs where NVIDIA's plugin would not start.
        once: Take over the first state and no other.

    Attributes:
        cache: What a reflector tells.
        written: Whether the fake nvidia-smi is on the host.
    """

    def __init__(
        self,
        node: str,
        take: Callable[[Offer], Awaitable[None]],
        say: Callable[[Stored, str], Awaitable[None]],
        *,
        host_folder: Path,
        topology: Report,
        files: Report,
        strict: bool = False,
        once: bool = False,
    ) -> None:
        self._changed = asyncio.Event()
        self.cache = document_cache(lambda _: self._changed.set())
        self.written = False
        self._node = node
        self._take = take
        self._say = say
        self._host_folder = host_folder
        self._topology = topology
        self._files = files
        self._strict = strict
        self._once = once
        self._taken: NodeTopology | None = None
        self._offered = NOTHING
        self._unsaid: Stored | None = None

    async def run(self) -> None:
        """Take over states for ever."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if self._unsaid is None else AGAIN):
                    await self._changed.wait()
            self._changed.clear()
            if self.cache.synced and not (self._once and self._taken is not None):
                await self._follow(self.cache.items.get(self._node))
            elif self._unsaid is not None:
                await self._tell(self._unsaid)

    async def _follow(self, document: Document | None) -> None:
        if document is None:
            self._taken, self._offered = None, NOTHING
            await self._take(NOTHING)
            self._topology.waits(READ, f"Node {self._node} has no topology (yet), so it offers nothing")
        elif isinstance(document, Unreadable):
            self._topology.failed(READ, f"the last state stays: {document.reason}")
        else:
            await self._use(document.topology)
            await self._tell(document)

    async def _tell(self, document: Stored) -> None:
        """Say what was handed over, once for each set of devices."""
        self._unsaid = None
        offered = fingerprint(document.topology, strict=self._strict)
        if document.annotations.get(ADVERTISED_ANNOTATION) == offered:
            return
        try:
            await self._say(document, offered)
        except (ConflictError, InvalidError, NotFoundError):
            # Another ConfigMap stands there by now, or none; the watch tells.
            return
        except ApiError as error:
            # The devices are offered all the same.
            self._topology.failed(SAY, str(error))
            self._unsaid = document

    async def _use(self, topology: NodeTopology) -> None:
        if topology != self._taken:
            hardware = await self._write(topology)
            offered = offer(topology, hardware, strict=self._strict)
            await self._take(offered)
            if offered != self._offered:
                # Who holds what stands in the topology, too, and changes often.
                self._log(topology, offered)
            self._taken, self._offered = topology, offered
        problems = [
            *self._offered.problems,
            *(f"refused as by NVIDIA's plugin: {one.message}" for one in refusals(topology) if self._strict),
        ]
        if problems:
            self._topology.failed(OFFER, "; ".join(problems))
        else:
            self._topology.succeeded()

    async def _write(self, topology: NodeTopology) -> smi.Hardware:
        """Write the files; a Node without them still offers its devices."""
        try:
            hardware = await asyncio.to_thread(smi.write, self._host_folder, topology)
        except OSError as error:
            self._files.failed(
                WRITE, f"can not write nvidia-smi to {self._host_folder} ({error.strerror}); mount a folder of the host"
            )
            return smi.hardware_of(topology)
        self.written = True
        if hardware.problem:
            self._files.failed(WRITE, hardware.problem)
        else:
            self._files.succeeded()
        return hardware

    @staticmethod
    def _log(topology: NodeTopology, offered: Offer) -> None:
        counts = {resource: len(devices) for resource, devices in offered.resources.items()}
        structlog.get_logger().info("devices-offered", resources=counts)
        for condition in conditions(topology):
            structlog.get_logger().warning("condition", reason=condition.reason.value, message=condition.message)
