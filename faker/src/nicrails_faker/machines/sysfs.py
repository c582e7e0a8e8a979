"""A sysfs tree as Linux shows it, as far as network, RDMA and PCI devices go.

Source: Documentation/ABI/testing/sysfs-bus-pci, sysfs-class-net and stable/sysfs-class-infiniband of the kernel. The
symbolic links are relative, as the kernel's are, so the tree can be mounted elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nicrails.pci import PciAddress
from nicrails_faker.machines.model import BondNetdev, ChildNetdev, Machine, Netdev, VirtualFunctionNetdev

# One model of each kind stands for all: what is read of a device is its vendor and class.
_NIC = ("0x15b3", "0x1021", "0x020000", "mlx5_core")
_VIRTUAL_FUNCTION = ("0x15b3", "0x101e", "0x020000", "mlx5_core")
_GPU = ("0x10de", "0x2330", "0x030200", "nvidia")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Function:
    """A PCI function."""

    identity: tuple[str, str, str, str]
    physfn: PciAddress | None = None


def write_sysfs(machine: Machine, root: Path) -> None:
    """Create the tree.

    Args:
        machine: Whose devices it shows.
        root: What ``/sys`` is on the machine; must not exist.

    Raises:
        FileExistsError: ``root`` exists.
    """
    root.mkdir(parents=True)
    for folder in ("class/net", "class/infiniband", "bus/pci/devices", "devices/virtual/net"):
        (root / folder).mkdir(parents=True)
    functions = _functions(machine)
    for address, function in functions.items():
        _write_function(root, address, function)
    for address, function in functions.items():
        if function.physfn is not None:
            _link_virtual_function(root, address, function.physfn)
    _write_netdev_folder(root, root / "devices/virtual/net/lo", 1)
    for index, (name, netdev) in enumerate(machine.netdevs.items(), 2):
        _write_netdev(root, name, netdev, index)
    for name, pci in machine.infiniband.items():
        _write_infiniband(root, name, pci)


def function_folder(root: Path, address: PciAddress) -> Path:
    """Where a PCI function stands below the root."""
    return root / "devices" / f"pci{address.partition(':')[0]}:00" / address


def _functions(machine: Machine) -> Mapping[PciAddress, _Function]:
    """Every PCI function that is named anywhere, once."""
    functions = {gpu: _Function(identity=_GPU) for gpu in machine.gpus}
    for netdev in machine.netdevs.values():
        if isinstance(netdev, VirtualFunctionNetdev):
            functions[netdev.pci] = _Function(identity=_VIRTUAL_FUNCTION, physfn=netdev.physfn)
            functions.setdefault(netdev.physfn, _Function(identity=_NIC))
        elif not isinstance(netdev, BondNetdev):
            functions.setdefault(netdev.pci, _Function(identity=_NIC))
    for pci in machine.infiniband.values():
        if pci is not None:
            functions.setdefault(pci, _Function(identity=_NIC))
    return dict(sorted(functions.items()))


def _write_function(root: Path, address: PciAddress, function: _Function) -> None:
    folder = function_folder(root, address)
    folder.mkdir(parents=True)
    vendor, device, pci_class, driver = function.identity
    uevent = (
        f"DRIVER={driver}\nPCI_CLASS={int(pci_class, 16):X}\n"
        f"PCI_ID={vendor[2:].upper()}:{device[2:].upper()}\nPCI_SLOT_NAME={address}"
    )
    _attributes(folder, vendor=vendor, device=device, numa_node="-1", uevent=uevent, **{"class": pci_class})
    _link(folder / "subsystem", root / "bus/pci")
    _link(root / "bus/pci/devices" / address, folder)
    drivers = root / "bus/pci/drivers" / driver
    drivers.mkdir(parents=True, exist_ok=True)
    _link(folder / "driver", drivers)
    _link(drivers / address, folder)


def _link_virtual_function(root: Path, address: PciAddress, physfn: PciAddress) -> None:
    folder, parent = function_folder(root, address), function_folder(root, physfn)
    number = len(list(parent.glob("virtfn*")))
    _link(folder / "physfn", parent)
    _link(parent / f"virtfn{number}", folder)
    _attributes(parent, sriov_numvfs=str(number + 1), sriov_totalvfs="16")


def _write_netdev(root: Path, name: str, netdev: Netdev, index: int) -> None:
    if isinstance(netdev, BondNetdev):
        folder = root / "devices/virtual/net" / name
        _write_netdev_folder(root, folder, index)
        (folder / "bonding").mkdir()
        _attributes(folder / "bonding", mode="802.3ad 4", slaves="", mii_status="up")
        # A file among links to folders, as the kernel has it.
        masters = root / "class/net/bonding_masters"
        known = masters.read_text().split() if masters.exists() else []
        masters.write_text(" ".join([*known, name]) + "\n")
        return
    device = function_folder(root, netdev.pci)
    if isinstance(netdev, ChildNetdev):
        device /= netdev.device
        if not device.exists():
            device.mkdir()
            (root / "bus" / netdev.bus / "devices").mkdir(parents=True, exist_ok=True)
            _link(device / "subsystem", root / "bus" / netdev.bus)
            _link(root / "bus" / netdev.bus / "devices" / netdev.device, device)
    folder = device / "net" / name
    _write_netdev_folder(root, folder, index)
    _link(folder / "device", device)


def _write_netdev_folder(root: Path, folder: Path, index: int) -> None:
    folder.mkdir(parents=True)
    loopback = folder.name == "lo"
    _attributes(
        folder,
        address="00:00:00:00:00:00" if loopback else f"02:00:00:00:{index >> 8:02x}:{index & 255:02x}",
        addr_len="6",
        carrier="1",
        flags="0x9" if loopback else "0x1003",
        ifindex=str(index),
        iflink=str(index),
        mtu="65536" if loopback else "9000",
        operstate="unknown" if loopback else "up",
        type="772" if loopback else "1",
        uevent=f"INTERFACE={folder.name}\nIFINDEX={index}",
    )
    _link(folder / "subsystem", root / "class/net")
    _link(root / "class/net" / folder.name, folder)


def _write_infiniband(root: Path, name: str, pci: PciAddress | None) -> None:
    device = None if pci is None else function_folder(root, pci)
    folder = (root / "devices/virtual" if device is None else device) / "infiniband" / name
    (folder / "ports/1").mkdir(parents=True)
    _attributes(folder, node_type="4: RNIC" if device is None else "1: CA", node_desc=name)
    _attributes(folder / "ports/1", state="4: ACTIVE", phys_state="5: LinkUp", link_layer="Ethernet")
    _link(folder / "subsystem", root / "class/infiniband")
    _link(root / "class/infiniband" / name, folder)
    if device is not None:
        _link(folder / "device", device)


def _attributes(folder: Path, **values: str) -> None:
    for name, value in values.items():
        (folder / name).write_text(f"{value}\n")


def _link(at: Path, to: Path) -> None:
    at.symlink_to(os.path.relpath(to, at.parent))
