"""GPU sources without a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from nicrails import PciAddress
from nicrails_broker.failures import SourceError
from nicrails_broker.host import Sysfs
from nicrails_broker.join import GpuView
from nicrails_broker.sources.files import FileSmi, ask_file, read_input
from nicrails_broker.sources.gpus import OnGpuNodes
from nicrails_broker.sources.nvidia_smi import Command, NvidiaSmi, software_rdma
from nicrails_faker.machines import InstalledMachine
from tests.broker.site import MACHINES, install


class Smi:
    """An nvidia-smi that prints what it is told."""

    def __init__(self, outputs: Mapping[Command, bytes]) -> None:
        self._outputs = outputs
        self.asked: list[tuple[Command, ...]] = []

    async def outputs(self, commands: Sequence[Command]) -> Mapping[Command, bytes]:
        """Answer."""
        self.asked.append(tuple(commands))
        return {command: self._outputs[command] for command in commands}


def captured(name: str) -> dict[Command, bytes]:
    """The outputs of a whole machine."""
    return {
        Command.INVENTORY: (MACHINES / name / "inventory.txt").read_bytes(),
        Command.TOPOLOGY: (MACHINES / name / "topo.txt").read_bytes(),
    }


@pytest.fixture
def machine(tmp_path: Path) -> InstalledMachine:
    """A whole machine with eight GPUs."""
    return install("h100-8gpu-dual-port", tmp_path / "machine")


def source(machine: InstalledMachine, outputs: Mapping[Command, bytes]) -> NvidiaSmi:
    """A source on this machine."""
    return NvidiaSmi(name="test", smi=Smi(outputs), sysfs=Sysfs(machine.sysfs_root))


def test_the_two_commands_are_exactly_the_documented_ones() -> None:
    """Admission policies allow exactly these two argument lists."""
    assert Command.INVENTORY.argv == ("nvidia-smi", "--query-gpu=index,uuid,pci.bus_id", "--format=csv,noheader")
    assert Command.TOPOLOGY.argv == ("nvidia-smi", "topo", "-m")


async def test_devices_get_their_addresses_from_sysfs(machine: InstalledMachine) -> None:
    """Each RDMA device of the matrix has the PCI address that this host's sysfs gives it, whatever its number."""
    view = await source(machine, captured("h100-8gpu-dual-port")).discover()
    assert view is not None
    assert view.nic_addresses == machine.machine.infiniband
    assert len(view.inventory) == view.topology.gpu_count == 8


async def test_a_device_that_the_host_has_not_is_left_out(machine: InstalledMachine) -> None:
    """A device of the matrix that sysfs does not have is not made up."""
    (machine.sysfs_root / "class/infiniband/mlx5_0").unlink()
    view = await source(machine, captured("h100-8gpu-dual-port")).discover()
    assert view is not None
    assert "mlx5_0" not in view.nic_addresses


@pytest.mark.parametrize("command", list(Command))
@pytest.mark.parametrize(
    "damage",
    [
        lambda text: b"",
        lambda text: text[: len(text) // 2 + 5],
        lambda text: text.replace(b"0", b"\xff", 1),
        lambda text: b"Failed to initialize NVML: Driver/library version mismatch\n",
    ],
)
@pytest.mark.fault("B6")
async def test_damaged_output_is_refused(machine: InstalledMachine, command: Command, damage: object) -> None:
    """B6: output that is empty, cut, no text or an error is refused although the command succeeded."""
    outputs = captured("h100-8gpu-dual-port")
    assert callable(damage)
    outputs[command] = damage(outputs[command])
    with pytest.raises(SourceError, match="nvidia-smi"):
        await source(machine, outputs).discover()


def test_software_rdma_devices_are_found(machine: InstalledMachine) -> None:
    """The devices that make the matrix fail can be named."""
    folder = machine.sysfs_root / "devices/virtual/infiniband/siw_eth0"
    folder.mkdir(parents=True)
    (machine.sysfs_root / "class/infiniband/siw_eth0").symlink_to("../../devices/virtual/infiniband/siw_eth0")
    assert software_rdma(Sysfs(machine.sysfs_root)) == ("siw_eth0",)


class Fixed:
    """A GPU source with a fixed answer."""

    name = "fixed"

    def __init__(self, view: GpuView | None) -> None:
        self._view = view
        self.asked = 0

    async def discover(self) -> GpuView | None:
        """Answer."""
        self.asked += 1
        return self._view


async def test_a_host_without_gpus_is_not_asked(tmp_path: Path) -> None:
    """On a host whose sysfs shows no GPU the source is not asked, and there are no GPUs."""
    fixed = Fixed(None)
    machine = install("cpu-only", tmp_path / "machine")
    assert await OnGpuNodes(fixed, Sysfs(machine.sysfs_root)).discover() is None
    assert fixed.asked == 0


async def test_gpus_of_another_host_are_refused(machine: InstalledMachine, tmp_path: Path) -> None:
    """A source that names a GPU which this host's sysfs does not show has looked at another host."""
    other = install("gb200-4gpu-domains", tmp_path / "other")
    view = await source(machine, captured("h100-8gpu-dual-port")).discover()
    with pytest.raises(SourceError, match=r"fixed names GPU .*which sysfs of this host does not show"):
        await OnGpuNodes(Fixed(view), Sysfs(other.sysfs_root)).discover()


async def test_gpus_that_only_sysfs_shows_are_legal(machine: InstalledMachine) -> None:
    """A GPU that is passed through to a virtual machine is in sysfs and not in the inventory."""
    folder = machine.sysfs_root / "devices/pci00ff:00/00ff:01:00.0"
    folder.mkdir(parents=True)
    (folder / "vendor").write_text("0x10de\n")
    (folder / "class").write_text("0x030200\n")
    (machine.sysfs_root / "bus/pci/devices/00ff:01:00.0").symlink_to("../../../devices/pci00ff:00/00ff:01:00.0")
    sysfs = Sysfs(machine.sysfs_root)
    assert PciAddress("00ff:01:00.0") in sysfs.nvidia_gpus()
    view = await OnGpuNodes(source(machine, captured("h100-8gpu-dual-port")), sysfs).discover()
    assert view is not None
    assert len(view.inventory) == 8


async def test_a_host_whose_gpus_can_not_be_listed_is_a_failure(tmp_path: Path) -> None:
    """Where sysfs can not say whether there are GPUs, the answer is neither yes nor no."""
    with pytest.raises(SourceError, match=r"whether this Node has GPUs is not known.*host\.sysfsRoot"):
        await OnGpuNodes(Fixed(None), Sysfs(tmp_path)).discover()


async def test_captures_are_believed_where_sysfs_shows_no_gpu(machine: InstalledMachine, tmp_path: Path) -> None:
    """Captured output of another machine can be looked at on one without GPUs."""
    view = await source(machine, captured("h100-8gpu-dual-port")).discover()
    fixed = Fixed(view)
    assert await OnGpuNodes(fixed, Sysfs(tmp_path), ask_unseen=True).discover() is view


async def test_files_are_read_and_the_rest_is_asked(tmp_path: Path) -> None:
    """An output that has a file comes from it, any other from the place where the command runs."""
    (tmp_path / "t").write_bytes(b"from the file")
    smi = Smi({Command.INVENTORY: b"from the pod"})
    files = FileSmi({Command.TOPOLOGY: tmp_path / "t"}, smi)
    assert await files.outputs(tuple(Command)) == {
        Command.TOPOLOGY: b"from the file",
        Command.INVENTORY: b"from the pod",
    }
    assert smi.asked == [(Command.INVENTORY,)]


async def test_an_output_from_nowhere_is_an_error(tmp_path: Path) -> None:
    """Without a file and without an API server the sentence says which output is missing."""
    with pytest.raises(SourceError, match=r"no output of 'nvidia-smi topo -m': give its file, or access"):
        await FileSmi({}, None).outputs((Command.TOPOLOGY,))


async def test_a_file_that_can_not_be_read_is_an_error(tmp_path: Path) -> None:
    """A missing file is told with its name."""
    with pytest.raises(SourceError, match=r"can not read .*none: No such file"):
        await ask_file(tmp_path / "none")()
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(SourceError, match="larger than"):
        read_input(tmp_path / "large")
