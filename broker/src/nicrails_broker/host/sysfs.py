"""What the kernel shows of a host's NICs and GPUs, read below a root that is a setting.

Sources: Documentation/ABI/testing/sysfs-class-net, sysfs-bus-pci and sysfs-class-infiniband of the Linux kernel.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from nicrails import PciAddress
from nicrails.text import excerpt

MAX_INTERFACE_NAME = 15
"""Bytes: ``IFNAMSIZ`` without its final NUL."""
MAX_DEVICE_NAME = 63
"""Bytes: ``IB_DEVICE_NAME_MAX`` without its final NUL."""
NVIDIA = "0x10de"
DISPLAY_CONTROLLER = "0x03"
"""The PCI base class of VGA (``0x0300``) and 3D (``0x0302``) controllers."""
MAX_ATTRIBUTE = 4096
"""Bytes of one sysfs attribute: a page."""
MOUNT_REMEDY = "mount the host's whole /sys into the pod and name that folder in host.sysfsRoot"


class SysfsError(Exception):
    """The kernel does not show what is needed; the message says of which device, and what to do."""


class Sysfs:
    """A sysfs tree.

    Args:
        root: Where the host's ``/sys`` is mounted.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def interfaces(self) -> tuple[str, ...]:
        """The names of all network interfaces, sorted.

        Raises:
            SysfsError: ``class/net`` can not be read.
        """
        folder = self.root / "class/net"
        # Beside the interfaces stands a file: bonding_masters.
        return tuple(
            sorted(name for name in self._list(folder) if (folder / name).is_symlink() or (folder / name).is_dir())
        )

    def interface_pci(self, name: str) -> PciAddress:
        """The PCI function that is an interface's own device.

        Raises:
            SysfsError: There is no such interface, it has no PCI device of its own (bonds, bridges and VLANs are not
                unwrapped, nor are virtio and subfunction devices), or it is a virtual function.
        """
        link = self.root / "class/net" / _file_name(name, "network interface", MAX_INTERFACE_NAME)
        if not os.path.lexists(link):
            raise SysfsError(f"interface {name} is not in {link.parent}; lldpd and the broker see different hosts")
        device = _device_of(link)
        if device is None:
            raise SysfsError(
                f"interface {name} is {self._kind(link)} without a PCI device of its own; "
                "let interfaceRegex match the physical ports only"
            )
        try:
            address = PciAddress.parse(device)
        except ValueError:
            raise SysfsError(
                f"interface {name} belongs to {excerpt(device, 64)}, which is no PCI function; "
                "let interfaceRegex match physical ports only"
            ) from None
        function = next((folder for folder in self._pci_folders(link, device) if folder.is_dir()), None)
        if function is None and (self.root / "bus/pci/devices").is_dir():
            raise SysfsError(f"interface {name} belongs to PCI function {address}, which this host does not have")
        if function is not None and os.path.lexists(function / "physfn"):
            raise SysfsError(
                f"interface {name} is a virtual function ({address}); let interfaceRegex match physical ports only"
            )
        return address

    def rdma_devices(self) -> tuple[str, ...]:
        """The names of all RDMA devices, sorted; none where the host has no RDMA subsystem."""
        folder = self.root / "class/infiniband"
        return tuple(sorted(self._list(folder))) if folder.is_dir() else ()

    def rdma_pci(self, name: str) -> PciAddress | None:
        """The PCI function of an RDMA device, or None where it has none, as a software device.

        Raises:
            SysfsError: The name can not be that of a device, or the device can not be found behind it.
        """
        link = self.root / "class/infiniband" / _file_name(name, "RDMA device", MAX_DEVICE_NAME)
        device = _device_of(link)
        if device is not None:
            with contextlib.suppress(ValueError):
                return PciAddress.parse(device)
        if _is_virtual(link) or (device is not None and link.exists()):
            return None
        raise SysfsError(f"what RDMA device {name} belongs to can not be found behind {link}; {MOUNT_REMEDY}")

    def nvidia_gpus(self) -> frozenset[PciAddress]:
        """The addresses of all NVIDIA display and 3D controllers.

        Raises:
            SysfsError: The PCI devices can not be listed, so it is not known whether there are GPUs.
        """
        folder = self.root / "bus/pci/devices"
        names = self._list(folder)
        if not names:
            raise SysfsError(f"{folder} is empty, so it is not this host's; {MOUNT_REMEDY}")
        try:
            return frozenset(PciAddress.parse(name) for name in names if _is_nvidia_gpu(folder / name))
        except ValueError as error:
            raise SysfsError(f"{folder}: {error}") from error

    def _list(self, folder: Path) -> list[str]:
        try:
            return [entry.name for entry in folder.iterdir()]
        except OSError as error:
            raise SysfsError(f"can not read {folder}: {error.strerror}; {MOUNT_REMEDY}") from error

    def _pci_folders(self, link: Path, device: str) -> Iterator[Path]:
        yield link / "device"
        yield self.root / "bus/pci/devices" / device

    @staticmethod
    def _kind(link: Path) -> str:
        for entry, kind in (("bonding", "a bond"), ("bridge", "a bridge")):
            if (link / entry).is_dir():
                return kind
        for line in _read(link / "uevent").splitlines():
            if line.startswith("DEVTYPE="):
                return f"a {excerpt(line.removeprefix('DEVTYPE='), 32)} interface"
        return "a virtual interface"


def _device_of(link: Path) -> str | None:
    """The name of the device that a class entry belongs to.

    A pod with its own network namespace that has the host's ``class/net`` alone can not follow ``device``; the target
    of the entry itself, ``…/<device>/<class>/<name>``, tells the same.
    """
    device = link / "device"
    if device.exists():
        return device.resolve().name
    for candidate, ancestor in ((device, 1), (link, 3)):
        try:
            parts = candidate.readlink().parts
        except OSError:
            continue
        if len(parts) >= ancestor and (ancestor == 1 or parts[-2] == link.parent.name):
            return None if parts[-ancestor] == "virtual" else parts[-ancestor]
    return None


def _is_virtual(link: Path) -> bool:
    try:
        return "virtual" in link.readlink().parts
    except OSError:
        return False


def _is_nvidia_gpu(device: Path) -> bool:
    vendor = _read(device / "vendor").strip().lower()
    if not vendor:
        raise SysfsError(f"{device} tells no vendor, so whether it is a GPU is not known; {MOUNT_REMEDY}")
    return vendor == NVIDIA and _read(device / "class").strip().startswith(DISPLAY_CONTROLLER)


def _read(attribute: Path) -> str:
    """An attribute's text; a device that was unplugged a moment ago has none."""
    try:
        with attribute.open("rb") as file:
            return file.read(MAX_ATTRIBUTE).decode("ascii", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise SysfsError(f"can not read {attribute}: {error.strerror}; {MOUNT_REMEDY}") from error


def _file_name(name: str, what: str, limit: int) -> str:
    """A name from outside, safe as one component of a path."""
    if (
        not 0 < len(name.encode("utf-8", "replace")) <= limit
        or name in (".", "..")
        or not name.isprintable()
        or any(char in "/:" or char.isspace() for char in name)
    ):
        raise SysfsError(f"not the name of a {what}: “{excerpt(name, 80)}”")
    return name
