"""The sysfs trees of simulated machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nicrails_faker.machines import InstalledMachine, MachineError, find, load, names, write

FOLDERS = sorted(path.parent for path in (Path(__file__).parents[1] / "machines").glob("*/machine.json"))
MACHINE = {
    "description": "one of everything",
    "node": {"name": "zoo"},
    "netdevs": {
        "eth_r0_p0": {"kind": "pci", "pci": "0000:1a:00.0"},
        "eth_r0_p1": {"kind": "vf", "pci": "0000:1a:00.3", "physfn": "0000:1a:00.0"},
        "eth_r1_p1": {"kind": "vf", "pci": "0000:1a:00.2", "physfn": "0000:1a:00.0"},
        "eth_r2_p0": {"kind": "virtio", "pci": "0000:00:05.0", "device": "virtio2"},
        "eth_r3_p0": {"kind": "sf", "pci": "0000:3a:00.0", "device": "mlx5_core.sf.4"},
        "bond0": {"kind": "bond"},
        "bond1": {"kind": "bond"},
    },
    "infiniband": {"mlx5_0": "0000:1a:00.0", "mlx5_9": "10000:01:00.0", "siw_eth0": None},
    "gpus": ["0000:1b:00.0", "000f:01:00.0"],
}


def folder(at: Path, **changed: object) -> Path:
    """A folder of a machine, with some keys of ``machine.json`` changed."""
    at.mkdir(parents=True, exist_ok=True)
    (at / "machine.json").write_text(json.dumps(MACHINE | changed))
    (at / "settings.json").write_text(json.dumps({"interfaceRegex": "^eth", "railID": "r", "nodeUID": "u"}))
    (at / "lldp.json").write_text('{"lldp": [{}]}\n')
    (at / "record.json").write_text("{}\n")
    return at


@pytest.fixture
def zoo(tmp_path: Path) -> InstalledMachine:
    """A machine with one of everything, on disk."""
    return write(load(folder(tmp_path / "zoo")), tmp_path / "installed")


def pci_of(zoo: InstalledMachine, link: str) -> str:
    """The name of the device that a link leads to, as a reader of sysfs finds it."""
    return (zoo.sysfs_root / link).resolve(strict=True).name


def test_netdev_leads_to_its_pci_function(zoo: InstalledMachine) -> None:
    """An interface's class link leads into the device tree, and its ``device`` to the PCI function above it."""
    assert pci_of(zoo, "class/net/eth_r0_p0/device") == "0000:1a:00.0"
    real = (zoo.sysfs_root / "class/net/eth_r0_p0").resolve()
    assert real == zoo.sysfs_root / "devices/pci0000:00/0000:1a:00.0/net/eth_r0_p0"
    assert (real / "operstate").read_text() == "up\n"


def test_links_are_relative(zoo: InstalledMachine) -> None:
    """No link is absolute, so the tree works wherever it is mounted."""
    links = [path for path in zoo.sysfs_root.rglob("*") if path.is_symlink()]
    assert len(links) > 20
    assert [link for link in links if link.readlink().is_absolute()] == []
    assert [link for link in links if not link.exists()] == []
    assert all(link.resolve().is_relative_to(zoo.sysfs_root) for link in links)


def test_virtual_functions_are_linked_both_ways(zoo: InstalledMachine) -> None:
    """A VF has ``physfn``, its PF has ``virtfn0…`` in the order of addresses and counts them."""
    assert pci_of(zoo, "class/net/eth_r1_p1/device") == "0000:1a:00.2"
    assert pci_of(zoo, "class/net/eth_r1_p1/device/physfn") == "0000:1a:00.0"
    assert pci_of(zoo, "bus/pci/devices/0000:1a:00.0/virtfn0") == "0000:1a:00.2"
    assert pci_of(zoo, "bus/pci/devices/0000:1a:00.0/virtfn1") == "0000:1a:00.3"
    assert (zoo.sysfs_root / "bus/pci/devices/0000:1a:00.0/sriov_numvfs").read_text() == "2\n"
    assert not (zoo.sysfs_root / "bus/pci/devices/0000:1a:00.0/physfn").exists()


@pytest.mark.parametrize(
    ("netdev", "device", "bus", "pci"),
    [
        ("eth_r2_p0", "virtio2", "virtio", "0000:00:05.0"),
        ("eth_r3_p0", "mlx5_core.sf.4", "auxiliary", "0000:3a:00.0"),
    ],
)
def test_device_that_is_not_pci(zoo: InstalledMachine, netdev: str, device: str, bus: str, pci: str) -> None:
    """The device of a virtio or subfunction interface is a child of the PCI function and on another bus."""
    assert pci_of(zoo, f"class/net/{netdev}/device") == device
    assert pci_of(zoo, f"class/net/{netdev}/device/subsystem") == bus
    assert pci_of(zoo, f"class/net/{netdev}/device/..") == pci
    assert pci_of(zoo, f"bus/{bus}/devices/{device}") == device


def test_bonds_have_no_device(zoo: InstalledMachine) -> None:
    """A bond is virtual and has ``bonding/``; ``bonding_masters`` is a file among the interfaces, as in Linux."""
    bond = zoo.sysfs_root / "class/net/bond0"
    assert not (bond / "device").exists()
    assert bond.resolve() == zoo.sysfs_root / "devices/virtual/net/bond0"
    assert (bond / "bonding/mode").read_text() == "802.3ad 4\n"
    assert (zoo.sysfs_root / "class/net/bonding_masters").read_text() == "bond0 bond1\n"


def test_infiniband_devices(zoo: InstalledMachine) -> None:
    """An RDMA device leads to its PCI function, one in software to none, and a wide domain keeps its digits."""
    assert pci_of(zoo, "class/infiniband/mlx5_0/device") == "0000:1a:00.0"
    assert pci_of(zoo, "class/infiniband/mlx5_9/device") == "10000:01:00.0"
    assert (zoo.sysfs_root / "devices/pci10000:00/10000:01:00.0").is_dir()
    software = zoo.sysfs_root / "class/infiniband/siw_eth0"
    assert software.exists()
    assert not (software / "device").exists()


def test_pci_functions(zoo: InstalledMachine) -> None:
    """Every function that is named anywhere is on the bus once, GPUs with NVIDIA's vendor and a display class."""
    devices = {
        device.name: ((device / "vendor").read_text(), (device / "class").read_text())
        for device in (zoo.sysfs_root / "bus/pci/devices").iterdir()
    }
    gpu, nic = ("0x10de\n", "0x030200\n"), ("0x15b3\n", "0x020000\n")
    assert devices == {
        "0000:00:05.0": nic,
        "0000:1a:00.0": nic,
        "0000:1a:00.2": nic,
        "0000:1a:00.3": nic,
        "0000:1b:00.0": gpu,
        "0000:3a:00.0": nic,
        "000f:01:00.0": gpu,
        "10000:01:00.0": nic,
    }
    uevent = (zoo.sysfs_root / "bus/pci/devices/0000:1b:00.0/uevent").read_text()
    assert "PCI_CLASS=30200\nPCI_ID=10DE:2330\nPCI_SLOT_NAME=0000:1b:00.0\n" in uevent


def test_loopback_is_there(zoo: InstalledMachine) -> None:
    """There is always an interface that matches no rail and has no device."""
    assert not (zoo.sysfs_root / "class/net/lo/device").exists()
    assert (zoo.sysfs_root / "class/net/lo/type").read_text() == "772\n"


@pytest.mark.parametrize("name", [*names(), *(str(folder) for folder in FOLDERS)])
def test_all_machines_can_be_written(name: str, tmp_path: Path) -> None:
    """Every machine, shipped or of the tests, becomes a tree in which its interfaces, RDMA devices and GPUs are found."""
    machine = find(name)
    installed = write(machine, tmp_path)
    assert machine.name == Path(name).name
    assert {path.name for path in (installed.sysfs_root / "class/net").iterdir() if path.is_dir()} == {
        *machine.netdevs,
        "lo",
    }
    for device, pci in machine.infiniband.items():
        assert pci is None or pci_of(installed, f"class/infiniband/{device}/device") == pci
    for gpu in machine.gpus:
        assert (installed.sysfs_root / "bus/pci/devices" / gpu / "vendor").read_text() == "0x10de\n"


def test_a_directory_in_use_is_refused(zoo: InstalledMachine) -> None:
    """Writing a machine over another one is an error, not a mixture of both."""
    with pytest.raises(FileExistsError):
        write(zoo.machine, zoo.directory)


@pytest.mark.parametrize(
    ("changed", "fragment"),
    [
        ({"netdevs": {"a": {"kind": "tun"}}}, "netdevs.a.kind: expected one of pci, vf"),
        ({"netdevs": {"a": {"kind": "pci", "pci": "0000:1A:00.0"}}}, "is not how sysfs spells it"),
        ({"netdevs": {"a": {"kind": "pci", "pci": "1a:00.0"}}}, "not a PCI address"),
        ({"netdevs": {"a": {"kind": "pci", "pci": "0000:1a:00.0", "physfn": "x"}}}, "missing or unknown: physfn"),
        ({"netdevs": {"../a": {"kind": "bond"}}}, "can not be the name of a device"),
        ({"node": {}}, "missing or unknown: name"),
        ({"gpu": []}, "missing or unknown: gpu"),
        ({"gpus": {}}, "gpus: expected a list"),
    ],
)
def test_faults_of_a_description(tmp_path: Path, changed: dict[str, object], fragment: str) -> None:
    """A description with a fault is refused with the place of the fault."""
    with pytest.raises(MachineError, match=f"zoo/machine.json: .*{fragment}"):
        load(folder(tmp_path / "zoo", **changed))


@pytest.mark.parametrize(
    ("file", "content", "fragment"),
    [
        ("topo.txt", "x", "topo.txt and inventory.txt belong together"),
        ("refusal.txt", "x", "exactly one of record.json and refusal.txt"),
        ("record.json", None, "exactly one of record.json and refusal.txt"),
        ("lldp.json", None, "lldp.json: there is no such file"),
        ("settings.json", "{", "settings.json: not JSON"),
    ],
)
def test_faults_of_a_folder(tmp_path: Path, file: str, content: str | None, fragment: str) -> None:
    """A folder whose files contradict each other is refused."""
    zoo = folder(tmp_path / "zoo")
    if content is None:
        (zoo / file).unlink()
    else:
        (zoo / file).write_text(content)
    with pytest.raises(MachineError, match=fragment):
        load(zoo)
