"""Example records for the tests."""

from __future__ import annotations

from nicrails import Candidate, Gpu, GpuUuid, NodeRecord, NodeUid, PathClass, PciAddress, RailId

GPU0 = GpuUuid("GPU-8d1f0000-0000-0000-0000-000000000000")
GPU1 = GpuUuid("GPU-8d1f0000-0000-0000-0000-000000000001")
NIC0, NIC1 = PciAddress("0000:1a:00.0"), PciAddress("0000:2a:00.0")
RAIL0, RAIL1 = RailId("rail0"), RailId("rail1")


def example() -> NodeRecord:
    """Two GPUs and two NICs, one of which is on both rails."""
    return NodeRecord(
        node_uid=NodeUid("5c3e6a52-2a2f-4d0e-9a39-0f8f1a2b3c4d"),
        rail_source="host-lldp",
        nics={NIC1: (RAIL0, RAIL1), NIC0: (RAIL0,)},
        gpus={
            GPU1: Gpu(
                pci_address=PciAddress("0000:2b:00.0"),
                rails={
                    RAIL0: (Candidate(nic=NIC0, path=PathClass.SYS), Candidate(nic=NIC1, path=PathClass.SYS)),
                    RAIL1: (Candidate(nic=NIC1, path=PathClass.PXB),),
                },
            ),
            GPU0: Gpu(
                pci_address=PciAddress("0000:1b:00.0"),
                rails={
                    RAIL0: (Candidate(nic=NIC0, path=PathClass.PIX),),
                    RAIL1: (Candidate(nic=NIC1, path=PathClass.SYS),),
                },
            ),
        },
    )


EXAMPLE_JSON = (
    b'{"gpus":{"GPU-8d1f0000-0000-0000-0000-000000000000":{"pciAddress":"0000:1b:00.0","rails":{'
    b'"rail0":[{"nic":"0000:1a:00.0","path":"PIX"}],"rail1":[{"nic":"0000:2a:00.0","path":"SYS"}]}},'
    b'"GPU-8d1f0000-0000-0000-0000-000000000001":{"pciAddress":"0000:2b:00.0","rails":{'
    b'"rail0":[{"nic":"0000:1a:00.0","path":"SYS"},{"nic":"0000:2a:00.0","path":"SYS"}],'
    b'"rail1":[{"nic":"0000:2a:00.0","path":"PXB"}]}}},'
    b'"nics":{"0000:1a:00.0":["rail0"],"0000:2a:00.0":["rail0","rail1"]},'
    b'"nodeUID":"5c3e6a52-2a2f-4d0e-9a39-0f8f1a2b3c4d","railSource":"host-lldp","schemaVersion":"v1alpha1"}'
)
