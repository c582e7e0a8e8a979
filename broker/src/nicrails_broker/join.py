"""The join: rails and GPUs of one Node become its record."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from nicrails.pci import PciAddress
from nicrails.record import Candidate, Gpu, GpuUuid, NodeRecord, NodeUid, PathClass, RailId
from nicrails_broker.parsers.inventory import InventoryGpu
from nicrails_broker.parsers.topo import Topology


class JoinError(ValueError):
    """The views of one Node do not fit together, so nothing may be published; one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuView:
    """What is known about the GPUs of a Node.

    Attributes:
        inventory: Which GPUs there are.
        topology: How far each of them is from each RDMA device.
        nic_addresses: RDMA device name → host PCI address; None where the host says that the device is no PCI device. A
            device that the host does not have is not in it.
    """

    inventory: tuple[InventoryGpu, ...]
    topology: Topology
    nic_addresses: Mapping[str, PciAddress | None]


def join(
    *,
    node_uid: NodeUid,
    rail_source: str,
    rails: Mapping[PciAddress, Collection[RailId]],
    gpus: GpuView | None,
) -> NodeRecord:
    """Make the record of a Node; NICs and devices meet by their PCI address and by nothing else.

    Args:
        node_uid: UID of the Node that was looked at.
        rail_source: Name of the source of ``rails``.
        rails: Host NIC → the rails it is on; neither this nor any of its values is empty. A Node without rails has no
            record: its key is removed instead.
        gpus: None on a Node without GPUs.

    Returns:
        A record that keeps all rules of :mod:`nicrails.codec`.

    Raises:
        JoinError: A GPU is in one view and not in the other, a device of the topology is not on the host, a rail has no
            candidate for a GPU, or something that must be unique is there twice.
        ValueError: ``rails`` is empty.
    """
    if not rails or not all(rails.values()):
        raise ValueError("a Node without rails has no record, and a NIC without rails is none of its NICs")
    nics = {nic: tuple(sorted(set(rails[nic]))) for nic in sorted(rails)}
    return NodeRecord(
        node_uid=node_uid,
        rail_source=rail_source,
        nics=nics,
        gpus={} if gpus is None else _join_gpus(nics, gpus),
    )


def _join_gpus(nics: Mapping[PciAddress, tuple[RailId, ...]], view: GpuView) -> Mapping[GpuUuid, Gpu]:
    _check_same_gpus(view)
    devices = _rail_devices(nics, view)
    members: dict[RailId, list[PciAddress]] = {}
    for nic, rails in nics.items():
        for rail in rails:
            members.setdefault(rail, []).append(nic)
    gpus: dict[GpuUuid, Gpu] = {}
    owners: dict[PciAddress, int] = {}
    for gpu in view.inventory:
        uuid, address = gpu.uuid, gpu.pci_address
        if uuid is None:
            raise JoinError(f"GPU {gpu.index} at {address} has no UUID in the inventory")
        if uuid in gpus:
            raise JoinError(f"GPU {gpu.index} has the UUID of another GPU: {uuid}")
        if address in owners:
            raise JoinError(f"GPU {gpu.index} and GPU {owners[address]} are both at {address}")
        if address in nics:
            raise JoinError(f"GPU {gpu.index} is at {address}, which is the address of a NIC on {nics[address][0]}")
        owners[address] = gpu.index
        distances = _distances(gpu.index, devices, view.topology)
        gpus[uuid] = Gpu(
            pci_address=address,
            rails={rail: _closest(gpu.index, rail, members[rail], distances) for rail in sorted(members)},
        )
    _check_unseen(nics, devices, view)
    return gpus


def _check_same_gpus(view: GpuView) -> None:
    inventory = {gpu.index for gpu in view.inventory}
    topology = set(view.topology.paths)
    if inventory != topology or len(inventory) != len(view.inventory):
        only = sorted(inventory ^ topology)
        side = "topology" if only and only[0] in topology else "inventory"
        which = f"GPU {only[0]} is in the {side} only" if only else "the inventory has a GPU twice"
        raise JoinError(
            f"the inventory lists {len(view.inventory)} GPUs and the topology {view.topology.gpu_count}: {which}; both "
            "must come from the same pod, while no GPU is added or reset"
        )


def _rail_devices(nics: Collection[PciAddress], view: GpuView) -> Mapping[PciAddress, list[str]]:
    """NIC on a rail → the RDMA devices that are at its address."""
    devices: dict[PciAddress, list[str]] = {}
    for column, device in view.topology.nics.items():
        if device not in view.nic_addresses:
            name = device if column == device else f"{device} ({column})"
            raise JoinError(f"the topology has RDMA device {name}, but the host has none of that name")
        address = view.nic_addresses[device]
        if address is not None and address in nics:
            devices.setdefault(address, []).append(device)
    return devices


def _check_unseen(
    nics: Mapping[PciAddress, tuple[RailId, ...]], devices: Collection[PciAddress], view: GpuView
) -> None:
    """A NIC of which the topology says nothing may be the closest, so no other may be named in its place.

    Several functions of one card may share one RDMA device (a bond of its ports): then that stands for all of them.
    """
    cards = {_card(address) for address in view.nic_addresses.values() if address is not None}
    for nic, rails in nics.items():
        if nic not in devices and _card(nic) not in cards:
            raise JoinError(
                f"NIC {nic} on {rails[0]} is not in the topology, so whether another is closer is not known; check that its "
                "RDMA driver is loaded, or let interfaceRegex leave it out"
            )


def _card(address: PciAddress) -> str:
    return address.rpartition(".")[0]


def _distances(gpu: int, devices: Mapping[PciAddress, list[str]], topology: Topology) -> Mapping[PciAddress, PathClass]:
    """NIC on a rail → its path class to one GPU, for the NICs that the topology shows."""
    distances: dict[PciAddress, PathClass] = {}
    for address, names in devices.items():
        paths = {name: topology.paths[gpu][name] for name in names}
        if len(set(paths.values())) > 1:
            seen = ", ".join(f"{name} {path}" for name, path in paths.items())
            raise JoinError(f"RDMA devices at {address} are at different path classes to GPU {gpu}: {seen}")
        distances[address] = paths[names[0]]
    return distances


def _closest(
    gpu: int, rail: RailId, members: list[PciAddress], distances: Mapping[PciAddress, PathClass]
) -> tuple[Candidate, ...]:
    """All NICs of a rail that are tied at the best path class, in the order of ``members``, which is by PCI address."""
    seen = [nic for nic in members if nic in distances]
    if not seen:
        raise JoinError(
            f"{rail} has no NIC that the topology shows, so none for GPU {gpu}: its NICs are {', '.join(members[:8])}; "
            "check that their RDMA driver is loaded"
        )
    best = min(distances[nic].rank for nic in seen)
    return tuple(Candidate(nic=nic, path=distances[nic]) for nic in seen if distances[nic].rank == best)
