"""The records and captures of the shipped machines, against the corpus of real ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import nicrails
from nicrails_faker.machines import names, shipped

CORPUS = Path(__file__).parents[1] / "corpus"
REAL = {
    "h100-8gpu-dualport": "023-h100-8gpu-17nic-dualport-ties.txt",
    "a100-1gpu": "007-a100-1gpu-10nic-drv525.txt",
    "h200-mig": "044-h200-mig-1gpu-2nic-cpu-list.txt",
    "a100-old-driver": "028-a100-2gpu-mlx5-columns-tabs.txt",
}
"""The machines whose matrix is a real capture."""


@pytest.mark.parametrize("name", names())
def test_golden_records_are_canonical(name: str) -> None:
    """A golden record is a valid record in canonical bytes, of the UID and the GPUs that the machine has."""
    machine = shipped(name)
    assert machine.record is not None
    record = nicrails.decode(machine.record)
    assert nicrails.encode(record) == machine.record
    assert record.node_uid == machine.settings.node_uid
    assert sorted(gpu.pci_address for gpu in record.gpus.values()) == sorted(machine.gpus)


@pytest.mark.parametrize(("name", "file"), REAL.items())
def test_real_captures_are_unchanged(name: str, file: str) -> None:
    """The matrix of a machine is the real capture, byte for byte."""
    assert shipped(name).captures.topo == (CORPUS / "topo" / file).read_bytes()


@pytest.mark.parametrize(("name", "file"), REAL.items())
def test_golden_records_agree_with_the_known_answers(name: str, file: str) -> None:
    """For every GPU, the best class over all rails and the NICs that have it are the known answer of the capture."""
    machine = shipped(name)
    assert machine.record is not None
    record = nicrails.decode(machine.record)
    answer = json.loads((CORPUS / "topo" / "EXPECTED.json").read_text())[file]
    devices = answer["aliases"]
    numbers = {uuid: index for index, uuid, _ in inventory(name)}
    assert len(record.gpus) == answer["gpus"]
    for uuid, gpu in record.gpus.items():
        expected = answer["closest"][str(numbers[uuid])]
        best = min((c.path for rail in gpu.rails.values() for c in rail), key=lambda path: path.rank)
        nics = {c.nic for rail in gpu.rails.values() for c in rail if c.path is best}
        # An old driver names the columns by device.
        columns = [column if column.startswith("mlx5") else devices[int(column[3:])] for column in expected["nics"]]
        assert best == expected["class"]
        assert nics == {machine.infiniband[device] for device in columns}


def test_domains_are_those_of_the_real_machine() -> None:
    """The GB200's PCI addresses are those of the real inventory, and differ by the domain alone."""
    rows = (CORPUS / "query-gpu" / "005-gb200-4gpu-domains-8-9-18-19.txt").read_text().splitlines()
    assert [pci for _, _, pci in inventory("gb200-4gpu")] == [row.split(", ")[1] for row in rows]
    assert len({gpu.partition(":")[2] for gpu in shipped("gb200-4gpu").gpus}) == 1


def inventory(name: str) -> list[tuple[int, str, str]]:
    """Index, UUID and PCI address of the GPUs, as printed."""
    text = shipped(name).captures.inventory
    assert text is not None
    rows = [line.split(", ") for line in text.decode().splitlines()]
    return [(int(index), uuid, pci) for index, uuid, pci in rows]
