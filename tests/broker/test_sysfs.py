"""Reading a sysfs tree below a root."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nicrails import PciAddress
from nicrails_broker.host import Sysfs, SysfsError


class Tree:
    """A sysfs tree with the relative links that the kernel makes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("class/net", "class/infiniband", "bus/pci/devices"):
            (root / folder).mkdir(parents=True)

    def pci(self, address: str, *, vendor: str = "0x15b3", kind: str = "0x020000", behind: str = "") -> Path:
        """A PCI function, below a bridge if one is named."""
        folder = self.root / "devices" / f"pci{address.partition(':')[0]}:00" / behind / address
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{kind}\n")
        link(self.root / "bus/pci/devices" / address, folder)
        return folder

    def entry(self, kind: str, name: str, device: Path | None) -> Path:
        """An entry of ``class/<kind>`` that belongs to a device, or to none."""
        folder = (device or self.root / "devices/virtual") / kind / name
        folder.mkdir(parents=True)
        if device is not None:
            link(folder / "device", device)
        link(self.root / "class" / kind / name, folder)
        return folder


def link(at: Path, to: Path) -> None:
    """A relative symbolic link."""
    at.symlink_to(os.path.relpath(to, at.parent))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """An empty tree."""
    return Tree(tmp_path / "sys")


@pytest.mark.parametrize("address", ["0000:3b:00.0", "0000:3b:00.1", "000f:01:00.0", "10000:e1:00.0"])
def test_an_interface_is_at_the_function_that_is_its_device(tree: Tree, address: str) -> None:
    """The PCI address of an interface is that of its own device, however deep it stands and whatever its domain."""
    tree.entry("net", "eth_r0_p0", tree.pci(address, behind="0000:00:01.0/0000:3a:00.0"))
    assert Sysfs(tree.root).interface_pci("eth_r0_p0") == PciAddress(address)


@pytest.mark.parametrize("kind", ["net", "infiniband"])
def test_the_entrys_own_target_tells_the_device_where_the_device_can_not_be_reached(tmp_path: Path, kind: str) -> None:
    """With the host's class folder alone in the pod, the PCI address is still found."""
    root = tmp_path / "sys"
    (root / "class" / kind).mkdir(parents=True)
    (root / "class" / kind / "x0").symlink_to(f"../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/{kind}/x0")
    sysfs = Sysfs(root)
    found = sysfs.interface_pci("x0") if kind == "net" else sysfs.rdma_pci("x0")
    assert found == PciAddress("0000:3b:00.0")


def test_a_device_link_that_leads_nowhere_still_names_the_device(tmp_path: Path) -> None:
    """A link ``device`` whose target is not mounted names the device all the same."""
    folder = tmp_path / "sys/class/net/eth0"
    folder.mkdir(parents=True)
    (folder / "device").symlink_to("../../../0000:3b:00.0")
    assert Sysfs(tmp_path / "sys").interface_pci("eth0") == PciAddress("0000:3b:00.0")


@pytest.mark.parametrize("name", ["virtio2", "mlx5_core.sf.4", "usb1"])
def test_a_device_that_is_no_pci_function_is_refused_by_name(tree: Tree, name: str) -> None:
    """An interface of a virtio or subfunction device is refused, and not taken for the PCI device above it."""
    device = tree.pci("0000:3b:00.0") / name
    device.mkdir()
    tree.entry("net", "eth_r0_p0", device)
    with pytest.raises(SysfsError, match=rf"eth_r0_p0 belongs to {name}, which is no PCI function"):
        Sysfs(tree.root).interface_pci("eth_r0_p0")


def test_the_same_device_is_refused_where_only_the_class_folder_is_there(tmp_path: Path) -> None:
    """The entry's own target does not make a subfunction a PCI device either."""
    root = tmp_path / "sys"
    (root / "class/net").mkdir(parents=True)
    (root / "class/net/e0").symlink_to("../../devices/pci0000:3a/0000:3b:00.0/mlx5_core.sf.4/net/e0")
    with pytest.raises(SysfsError, match=r"mlx5_core\.sf\.4, which is no PCI function"):
        Sysfs(root).interface_pci("e0")


@pytest.mark.parametrize(
    ("folder", "uevent", "kind"),
    [
        ("bonding", "", "a bond"),
        ("bridge", "", "a bridge"),
        ("statistics", "DEVTYPE=vlan\nINTERFACE=x\n", "a vlan interface"),
        ("statistics", "INTERFACE=x\n", "a virtual interface"),
    ],
)
def test_an_interface_without_a_device_is_refused_by_what_it_is(
    tree: Tree, folder: str, uevent: str, kind: str
) -> None:
    """Bonds, bridges, VLANs and other virtual interfaces are refused by name and never unwrapped."""
    entry = tree.entry("net", "rail0", None)
    (entry / folder).mkdir()
    (entry / "uevent").write_text(uevent)
    link(entry / "lower_eth0", tree.entry("net", "eth0", tree.pci("0000:3b:00.0")))
    with pytest.raises(SysfsError, match=f"interface rail0 is {kind} without a PCI device of its own"):
        Sysfs(tree.root).interface_pci("rail0")


def test_a_virtual_function_is_refused_by_name(tree: Tree) -> None:
    """An interface of a virtual function is refused, and not taken for its physical function."""
    physical, virtual = tree.pci("0000:3b:00.0"), tree.pci("0000:3b:00.2")
    link(virtual / "physfn", physical)
    tree.entry("net", "eth_r0_v0", virtual)
    with pytest.raises(SysfsError, match=r"eth_r0_v0 is a virtual function \(0000:3b:00\.2\)"):
        Sysfs(tree.root).interface_pci("eth_r0_v0")


def test_a_virtual_function_is_known_by_its_pci_folder_alone(tree: Tree) -> None:
    """Where ``device`` can not be followed, the function's folder on the bus tells that it is virtual."""
    link(tree.pci("0000:3b:00.2") / "physfn", tree.pci("0000:3b:00.0"))
    (tree.root / "class/net/e0").symlink_to("../../gone/pci0000:3a/0000:3b:00.2/net/e0")
    with pytest.raises(SysfsError, match="virtual function"):
        Sysfs(tree.root).interface_pci("e0")


@pytest.mark.parametrize("kind", ["interface", "device"])
@pytest.mark.parametrize(
    "name", ["", ".", "..", "../../etc", "a/b", "/etc", "é" * 40, "a b", "a:1", "a\n", "\x1b[0m", "a\0b", "a\udc80"]
)
def test_a_name_that_nothing_can_have_never_reaches_the_file_system(tree: Tree, name: str, kind: str) -> None:
    """A name from outside that could lead to another file is refused as a name."""
    sysfs = Sysfs(tree.root)
    with pytest.raises(SysfsError, match=f"not the name of a .*{kind}"):
        sysfs.interface_pci(name) if kind == "interface" else sysfs.rdma_pci(name)


def test_an_interface_has_at_most_fifteen_bytes(tree: Tree) -> None:
    """The kernel's limit counts bytes, not characters."""
    for name in ("a" * 16, "é" * 8):
        with pytest.raises(SysfsError, match="not the name of"):
            Sysfs(tree.root).interface_pci(name)


def test_an_interface_that_the_host_does_not_show_is_an_error(tree: Tree) -> None:
    """An interface that lldpd knows and sysfs does not is an error that says so."""
    with pytest.raises(SysfsError, match=r"eth9 is not in .*class/net; lldpd and the broker see different hosts"):
        Sysfs(tree.root).interface_pci("eth9")


def test_interfaces_are_listed_without_the_file_beside_them(tree: Tree) -> None:
    """All interfaces are listed, sorted; ``bonding_masters`` is none."""
    tree.entry("net", "lo", None)
    tree.entry("net", "eth0", tree.pci("0000:3b:00.0"))
    (tree.root / "class/net/bonding_masters").write_text("bond0\n")
    assert Sysfs(tree.root).interfaces() == ("eth0", "lo")


def test_rdma_devices_have_a_pci_function_or_none(tree: Tree) -> None:
    """A hardware RDMA device has its PCI address; a software one and a subfunction's have none."""
    device = tree.pci("0000:3b:00.0")
    subfunction = device / "mlx5_core.sf.4"
    subfunction.mkdir()
    tree.entry("infiniband", "mlx5_0", device)
    tree.entry("infiniband", "mlx5_4", subfunction)
    tree.entry("infiniband", "siw_eth0", None)
    sysfs = Sysfs(tree.root)
    assert sysfs.rdma_devices() == ("mlx5_0", "mlx5_4", "siw_eth0")
    assert [sysfs.rdma_pci(name) for name in sysfs.rdma_devices()] == ["0000:3b:00.0", None, None]


def test_an_rdma_device_with_nothing_behind_it_is_refused(tree: Tree) -> None:
    """A device whose link leads nowhere is not taken for a software device: it may be the closest NIC's."""
    (tree.root / "class/infiniband").mkdir(parents=True, exist_ok=True)
    (tree.root / "class/infiniband/mlx5_0").symlink_to("../../devices/gone/infiniband/mlx5_0")
    with pytest.raises(SysfsError, match="what RDMA device mlx5_0 belongs to can not be found"):
        Sysfs(tree.root).rdma_pci("mlx5_0")


def test_a_host_without_rdma_has_no_devices(tmp_path: Path) -> None:
    """A host whose kernel has no RDMA subsystem has no RDMA devices, which is no failure."""
    assert Sysfs(tmp_path).rdma_devices() == ()


def test_gpus_are_nvidias_display_and_3d_controllers(tree: Tree) -> None:
    """Only vendor 0x10de with base class 0x03 is a GPU: no NVSwitch, no audio function, no other vendor's GPU."""
    tree.pci("0000:1b:00.0", vendor="0x10de", kind="0x030200")
    tree.pci("10000:01:00.0", vendor="0x10DE", kind="0x030000")
    tree.pci("0000:1b:00.1", vendor="0x10de", kind="0x040300")
    tree.pci("0000:05:00.0", vendor="0x10de", kind="0x068000")
    tree.pci("0000:03:00.0", vendor="0x1a03", kind="0x030000")
    assert Sysfs(tree.root).nvidia_gpus() == {"0000:1b:00.0", "10000:01:00.0"}


def test_a_pci_device_that_says_nothing_is_refused(tree: Tree) -> None:
    """Where a device tells no vendor, or there is none at all, it is not known whether the Node has GPUs."""
    with pytest.raises(SysfsError, match="is empty, so it is not this host's"):
        Sysfs(tree.root).nvidia_gpus()
    (tree.root / "bus/pci/devices/0000:1b:00.0").symlink_to("../../../devices/gone")
    with pytest.raises(SysfsError, match="tells no vendor, so whether it is a GPU is not known"):
        Sysfs(tree.root).nvidia_gpus()


@pytest.mark.parametrize("ask", ["interfaces", "nvidia_gpus"])
def test_a_root_that_is_no_sysfs_is_an_error(tmp_path: Path, ask: str) -> None:
    """A root without the folder is an error that names it and the setting, never "there is nothing"."""
    with pytest.raises(SysfsError, match=rf"can not read {tmp_path}.*No such file.*host\.sysfsRoot"):
        getattr(Sysfs(tmp_path), ask)()


def test_an_attribute_that_can_not_be_read_is_an_error(tree: Tree) -> None:
    """A device whose vendor can not be read makes the question unanswerable, not answered with no."""
    folder = tree.pci("0000:1b:00.0")
    (folder / "vendor").unlink()
    (folder / "vendor").mkdir()
    with pytest.raises(SysfsError, match=r"can not read .*vendor: Is a directory"):
        Sysfs(tree.root).nvidia_gpus()
