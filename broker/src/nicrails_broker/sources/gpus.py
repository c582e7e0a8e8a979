"""The interface of a GPU source, and when it is asked at all."""

from __future__ import annotations

from typing import Protocol

from nicrails import PciAddress
from nicrails_broker.failures import SourceError
from nicrails_broker.host import Sysfs, SysfsError
from nicrails_broker.join import GpuView


class GpuSource(Protocol):
    """Finds out which GPUs this host has and how far each NIC is from each of them.

    Attributes:
        name: For metrics and logs.
    """

    @property
    def name(self) -> str:
        """See the class."""

    async def discover(self) -> GpuView | None:
        """Look once; None means that the host has no GPUs, for certain.

        Raises:
            SourceError: It could not look, or what it saw is damaged, contradicts itself, or is not understood.
        """


class OnGpuNodes:
    """A GPU source that is asked only on a host whose sysfs shows GPUs.

    Each GPU that the source names must stand in sysfs: a source that looked at another host is caught. GPUs that only
    sysfs shows are legal: they may be passed through to a virtual machine.

    Args:
        source: Whom to ask.
        sysfs: Of this host.
        ask_unseen: Ask also where sysfs shows no GPU or can not be read, and then believe the source.
    """

    def __init__(self, source: GpuSource, sysfs: Sysfs, *, ask_unseen: bool = False) -> None:
        self._source = source
        self._sysfs = sysfs
        self._ask_unseen = ask_unseen

    @property
    def name(self) -> str:
        """The source's own."""
        return self._source.name

    async def discover(self) -> GpuView | None:
        """See :class:`GpuSource`."""
        shown = self._shown()
        if not shown:
            return await self._source.discover() if self._ask_unseen else None
        view = await self._source.discover()
        missing = sorted({gpu.pci_address for gpu in view.inventory} - shown) if view is not None else ()
        if missing:
            raise SourceError(
                f"{self._source.name} names GPU {', '.join(missing[:4])}, which sysfs of this host does not show; "
                "it looked at another host, or host.sysfsRoot is not this host's /sys"
            )
        return view

    def _shown(self) -> frozenset[PciAddress]:
        try:
            return self._sysfs.nvidia_gpus()
        except SysfsError as error:
            if self._ask_unseen:
                return frozenset()
            raise SourceError(f"whether this Node has GPUs is not known: {error}") from error
