"""GPUs from nvidia-smi: the inventory and the topology matrix, wherever the command runs."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Protocol

from nicrails_broker.failures import SourceError
from nicrails_broker.host import Sysfs, SysfsError
from nicrails_broker.join import GpuView
from nicrails_broker.parsers.errors import ParseError
from nicrails_broker.parsers.inventory import parse_inventory
from nicrails_broker.parsers.topo import parse_topology


class Command(enum.Enum):
    """The only two commands that the broker ever runs in a container, as argument lists."""

    INVENTORY = ("nvidia-smi", "--query-gpu=index,uuid,pci.bus_id", "--format=csv,noheader")
    TOPOLOGY = ("nvidia-smi", "topo", "-m")

    @property
    def argv(self) -> tuple[str, ...]:
        """The program and its arguments."""
        return self.value


class Smi(Protocol):
    """A place where nvidia-smi runs."""

    async def outputs(self, commands: Sequence[Command]) -> Mapping[Command, bytes]:
        """The standard output of each command, one after the other.

        Raises:
            SourceError: A command could not be run, or failed.
        """


class NvidiaSmi:
    """A GPU source that reads nvidia-smi.

    Args:
        name: For metrics and logs.
        smi: Where it runs.
        sysfs: Of the host, for the PCI addresses of RDMA devices.
    """

    def __init__(self, *, name: str, smi: Smi, sysfs: Sysfs) -> None:
        self._name = name
        self._smi = smi
        self._sysfs = sysfs

    @property
    def name(self) -> str:
        """The name given."""
        return self._name

    async def discover(self) -> GpuView | None:
        """See :class:`nicrails_broker.sources.gpus.GpuSource`."""
        outputs = await self._smi.outputs((Command.INVENTORY, Command.TOPOLOGY))
        try:
            inventory = parse_inventory(_text(outputs[Command.INVENTORY]))
            topology = parse_topology(_text(outputs[Command.TOPOLOGY]))
            present = set(self._sysfs.rdma_devices())
            addresses = {device: self._sysfs.rdma_pci(device) for device in topology.nics.values() if device in present}
        except (ParseError, SysfsError) as error:
            raise SourceError(str(error)) from error
        return GpuView(inventory=inventory, topology=topology, nic_addresses=addresses)


def software_rdma(sysfs: Sysfs) -> tuple[str, ...]:
    """The RDMA devices without a PCI function; one of them makes ``nvidia-smi topo -m`` fail whole."""
    try:
        return tuple(name for name in sysfs.rdma_devices() if sysfs.rdma_pci(name) is None)
    except SysfsError:
        return ()


def _text(output: bytes) -> str:
    # The replacement character is none that nvidia-smi prints, so the parsers refuse it with its place.
    return output.decode("utf-8", "replace")
