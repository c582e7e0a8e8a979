"""What a simulated machine is: its devices, what its programs print, and the record that must come of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nicrails.pci import PciAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class PciNetdev:
    """An interface that is a port of a PCI function."""

    pci: PciAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualFunctionNetdev:
    """An interface of an SR-IOV virtual function."""

    pci: PciAddress
    physfn: PciAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildNetdev:
    """An interface whose device is no PCI function but a child of one.

    Attributes:
        pci: The PCI function above the device.
        device: The device's own name, such as ``virtio2`` or ``mlx5_core.sf.4``.
        bus: The bus that the device is on: ``virtio`` or ``auxiliary``.
    """

    pci: PciAddress
    device: str
    bus: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BondNetdev:
    """A bond: an interface without a device."""


Netdev = PciNetdev | VirtualFunctionNetdev | ChildNetdev | BondNetdev


@dataclass(frozen=True, slots=True, kw_only=True)
class RailSettings:
    """How the rails of the machine are found.

    Attributes:
        interface_regex: Selects the interfaces.
        rail_id: The template that is expanded with the match.
        node_uid: The Node's UID in the golden record.
    """

    interface_regex: str
    rail_id: str
    node_uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Captures:
    """What the machine's programs write to standard output, byte for byte.

    Attributes:
        lldp: ``lldpctl -f json0``.
        topo: ``nvidia-smi topo -m``; None on a machine without GPUs.
        inventory: ``nvidia-smi --query-gpu=index,uuid,pci.bus_id --format=csv,noheader``; None as ``topo``.
    """

    lldp: bytes
    topo: bytes | None
    inventory: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One machine.

    Attributes:
        name: The name of its Node.
        description: One sentence for people.
        netdevs: What ``/sys/class/net`` shows, apart from ``lo``.
        infiniband: RDMA devices and the PCI functions below them; None for software RDMA.
        gpus: PCI addresses of the physical GPUs.
        settings: How its rails are found.
        captures: What its programs print.
        record: The golden record in canonical bytes, without a final newline.
        refusal: Instead of a record: fragments of the sentence with which discovery is refused.
    """

    name: str
    description: str
    netdevs: Mapping[str, Netdev]
    infiniband: Mapping[str, PciAddress | None]
    gpus: tuple[PciAddress, ...]
    settings: RailSettings
    captures: Captures
    record: bytes | None = None
    refusal: tuple[str, ...] = ()
