"""Records as brokers publish them."""

from __future__ import annotations

from nicrails import GpuUuid, NodeRecord, NodeUid, PciAddress, RailId, encode
from nicrails.record import Candidate, Gpu, PathClass


def record(uid: str, *, gpus: int = 1, rails: int = 1) -> str:
    """The document of a Node with this UID.

    Args:
        uid: The Node's UID.
        gpus: How many GPUs it has.
        rails: How many rails, each with one NIC.
    """
    nics = [PciAddress(f"0000:{16 + rail:02x}:00.0") for rail in range(rails)]
    ids = [RailId(f"rail{rail}") for rail in range(rails)]
    return encode(
        NodeRecord(
            node_uid=NodeUid(uid),
            rail_source="host-lldp",
            nics={nic: (rail,) for nic, rail in zip(nics, ids, strict=True)},
            gpus={
                GpuUuid(f"GPU-00000000-0000-0000-0000-{gpu:012x}"): Gpu(
                    pci_address=PciAddress(f"0001:{gpu:02x}:00.0"),
                    rails={
                        rail: (Candidate(nic=nic, path=PathClass.PIX),) for nic, rail in zip(nics, ids, strict=True)
                    },
                )
                for gpu in range(gpus)
            },
        )
    ).decode()
