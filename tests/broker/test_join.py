"""The join, on small views and on whole machines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nicrails.codec import decode, encode
from nicrails.pci import PciAddress
from nicrails.record import GpuUuid, NodeRecord, NodeUid, PathClass, RailId
from nicrails_broker.join import GpuView, JoinError, join
from nicrails_broker.naming import RailNaming
from nicrails_broker.parsers import (
    InventoryGpu,
    Topology,
    interfaces,
    parse_inventory,
    parse_json0,
    parse_topology,
)

MACHINES = Path(__file__).parents[1] / "machines"
NAMES = sorted(path.name for path in MACHINES.iterdir() if path.is_dir())
PCI_KINDS = {"pci"}

UUIDS = [GpuUuid.parse(f"GPU-00000000-0000-0000-0000-00000000000{number}") for number in range(3)]
GPUS = [PciAddress.parse(f"0000:1{number}:00.0") for number in range(3)]
NICS = [PciAddress.parse(f"0000:2{number}:00.0") for number in range(4)]
RAIL0, RAIL1 = RailId.parse("rail0"), RailId.parse("rail1")


def view(*paths: str) -> GpuView:
    """One GPU per argument, one device ``mlx5_n`` at ``NICS[n]`` per path class in it."""
    rows = [[PathClass(name) for name in row.split()] for row in paths]
    devices = [f"mlx5_{number}" for number in range(len(rows[0]))]
    return GpuView(
        inventory=tuple(
            InventoryGpu(index=index, uuid=UUIDS[index], pci_address=GPUS[index]) for index in range(len(rows))
        ),
        topology=Topology(
            gpu_count=len(rows),
            nics={f"NIC{number}": device for number, device in enumerate(devices)},
            paths={index: dict(zip(devices, row, strict=True)) for index, row in enumerate(rows)},
        ),
        nic_addresses=dict(zip(devices, NICS, strict=False)),
    )


def joined(rails: Mapping[PciAddress, set[RailId]], gpus: GpuView | None) -> NodeRecord:
    """The record, after the strict reader has taken it."""
    record = join(node_uid=NodeUid("u"), rail_source="host-lldp", rails=rails, gpus=gpus)
    assert decode(encode(record)) == record
    return record


def refusal(rails: Mapping[PciAddress, set[RailId]], gpus: GpuView) -> str:
    """The sentence that a join is refused with."""
    with pytest.raises(JoinError) as caught:
        joined(rails, gpus)
    assert str(caught.value).isprintable()
    return str(caught.value)


def closest(record: NodeRecord, gpu: int, rail: RailId) -> list[tuple[str, str]]:
    """The candidates of a GPU on a rail, short."""
    return [(candidate.nic, candidate.path.value) for candidate in record.candidates(UUIDS[gpu], rail)]


# --- whole machines ------------------------------------------------------------------------------------------------


def load(name: str) -> tuple[dict[str, Any], dict[str, str], set[str]]:
    """Machine, settings and the interfaces that the setting selects among those with a neighbour."""
    folder = MACHINES / name
    machine = json.loads((folder / "machine.json").read_text())
    settings = json.loads((folder / "settings.json").read_text())
    naming = RailNaming(settings["interfaceRegex"], settings["railID"])
    found = interfaces(parse_json0((folder / "lldp.json").read_bytes()))
    return machine, settings, {interface for interface in found if naming.match(interface) is not None}


def join_machine(name: str) -> NodeRecord:
    """The record of a machine, with sysfs replaced by what ``machine.json`` says."""
    folder = MACHINES / name
    machine, settings, selected = load(name)
    naming = RailNaming(settings["interfaceRegex"], settings["railID"])
    rails: dict[PciAddress, set[RailId]] = {}
    for interface in selected:
        rail = naming.match(interface)
        assert rail is not None
        rails.setdefault(PciAddress.parse(machine["netdevs"][interface]["pci"]), set()).add(rail)
    gpus = None
    if (folder / "topo.txt").exists():
        gpus = GpuView(
            inventory=parse_inventory((folder / "inventory.txt").read_text()),
            topology=parse_topology((folder / "topo.txt").read_text()),
            nic_addresses={
                device: None if address is None else PciAddress.parse(address)
                for device, address in machine["infiniband"].items()
            },
        )
    return join(node_uid=NodeUid.parse(settings["nodeUID"]), rail_source="host-lldp", rails=rails, gpus=gpus)


@pytest.mark.parametrize("name", [name for name in NAMES if (MACHINES / name / "record.json").exists()])
def test_machine_gives_its_golden_record(name: str) -> None:
    """What the programs of a whole machine print becomes its record, byte for byte."""
    assert encode(join_machine(name)) + b"\n" == (MACHINES / name / "record.json").read_bytes()


@pytest.mark.parametrize("name", [name for name in NAMES if (MACHINES / name / "refusal.txt").exists()])
def test_machine_without_a_record_is_refused_by_the_join_or_by_its_interfaces(name: str) -> None:
    """A refused machine has a selected interface that is no PCI device of its own, or fails the join with its reason."""
    machine, _, selected = load(name)
    fragments = (MACHINES / name / "refusal.txt").read_text().splitlines()
    if all(machine["netdevs"][interface]["kind"] in PCI_KINDS for interface in selected):
        with pytest.raises(JoinError) as caught:
            join_machine(name)
        assert all(fragment.lower() in str(caught.value).lower() for fragment in fragments)
    else:
        assert fragments[0] in selected
        assert machine["netdevs"][fragments[0]]["kind"] not in PCI_KINDS


@pytest.mark.parametrize("name", NAMES)
def test_machine_is_whole(name: str) -> None:
    """A machine folder has the files and the members that the README promises, and its parts fit together."""
    folder = MACHINES / name
    machine, settings, _ = load(name)
    assert (folder / "record.json").exists() != (folder / "refusal.txt").exists()
    assert (folder / "topo.txt").exists() == (folder / "inventory.txt").exists() == bool(machine["gpus"])
    assert set(machine) == {"description", "node", "netdevs", "infiniband", "gpus"}
    assert set(settings) == {"interfaceRegex", "railID", "nodeUID"}
    assert set(interfaces(parse_json0((folder / "lldp.json").read_bytes()))) <= set(machine["netdevs"])
    if machine["gpus"]:
        inventory = parse_inventory((folder / "inventory.txt").read_text())
        assert [gpu.pci_address for gpu in inventory] == machine["gpus"]
        topology = parse_topology((folder / "topo.txt").read_text())
        assert topology.gpu_count == len(inventory)
        assert set(topology.nics.values()) <= set(machine["infiniband"])


# --- rules ---------------------------------------------------------------------------------------------------------


def test_all_ties_are_kept_by_address() -> None:
    """Every NIC at the best class is a candidate, sorted by address; none at a worse class is."""
    gpus = view("NODE PIX NODE PIX")
    gpus = replace(gpus, nic_addresses=dict(zip(gpus.nic_addresses, reversed(NICS), strict=True)))
    record = joined({nic: {RAIL0} for nic in NICS}, gpus)
    assert closest(record, 0, RAIL0) == [(NICS[0], "PIX"), (NICS[2], "PIX")]


def test_every_gpu_and_rail_is_judged_by_itself() -> None:
    """The best class of one rail or GPU does not hide the NICs of another."""
    record = joined({NICS[0]: {RAIL0}, NICS[1]: {RAIL1}}, view("PIX SYS", "SYS PHB"))
    assert closest(record, 0, RAIL1) == [(NICS[1], "SYS")]
    assert closest(record, 1, RAIL0) == [(NICS[0], "SYS")]
    assert closest(record, 1, RAIL1) == [(NICS[1], "PHB")]


def test_a_nic_may_be_on_several_rails() -> None:
    """Such a NIC is a candidate on each of them, and its rails are sorted without duplicates."""
    record = join(
        node_uid=NodeUid("u"), rail_source="host-lldp", rails={NICS[0]: [RAIL1, RAIL0, RAIL1]}, gpus=view("PIX")
    )
    assert decode(encode(record)) == record
    assert record.nics == {NICS[0]: (RAIL0, RAIL1)}
    assert closest(record, 0, RAIL0) == closest(record, 0, RAIL1) == [(NICS[0], "PIX")]


def test_nics_that_are_on_no_rail_are_ignored() -> None:
    """A nearer NIC, one without a PCI device and one at another function change nothing."""
    gpus = view("PIX NODE PIX")
    gpus = replace(
        gpus, nic_addresses={"mlx5_0": NICS[0], "mlx5_1": NICS[1], "mlx5_2": PciAddress.parse("0000:21:00.1")}
    )
    assert closest(joined({NICS[1]: {RAIL0}}, gpus), 0, RAIL0) == [(NICS[1], "NODE")]
    soft = replace(gpus, nic_addresses={**gpus.nic_addresses, "mlx5_0": None})
    assert joined({NICS[1]: {RAIL0}}, soft) == joined({NICS[1]: {RAIL0}}, gpus)


def test_the_sibling_function_of_a_nic_is_no_substitute() -> None:
    """The NICs meet by the whole address: another function of the card on the rail has no path class of its own."""
    sibling = PciAddress.parse("0000:20:00.1")
    assert "rail0 has no NIC that the topology shows" in refusal({sibling: {RAIL0}}, view("PIX"))


def test_a_rail_nic_that_the_topology_does_not_show_is_refused() -> None:
    """A NIC without path data may be the closest, so no farther NIC of its rail is published in its place."""
    sentence = refusal({NICS[0]: {RAIL0}, NICS[1]: {RAIL0}}, view("SYS"))
    assert f"NIC {NICS[1]} on rail0 is not in the topology" in sentence


def test_one_device_may_stand_for_all_ports_of_its_card() -> None:
    """The ports of a card that share one RDMA device, as a bond's do, are served by the port that has it."""
    record = joined({NICS[0]: {RAIL0}, PciAddress.parse("0000:20:00.1"): {RAIL0}}, view("PIX"))
    assert closest(record, 0, RAIL0) == [(NICS[0], "PIX")]


def test_two_devices_of_one_nic_must_agree() -> None:
    """Two RDMA devices at one address are one candidate if their class is one, and a contradiction otherwise."""
    both = {"mlx5_0": NICS[0], "mlx5_1": NICS[0]}
    assert closest(joined({NICS[0]: {RAIL0}}, replace(view("PXB PXB"), nic_addresses=both)), 0, RAIL0) == [
        (NICS[0], "PXB")
    ]
    assert "mlx5_0 PIX, mlx5_1 PXB" in refusal({NICS[0]: {RAIL0}}, replace(view("PIX PXB"), nic_addresses=both))
    elsewhere = replace(view("PIX PXB SYS"), nic_addresses={**both, "mlx5_2": NICS[2]})
    assert closest(joined({NICS[2]: {RAIL0}}, elsewhere), 0, RAIL0) == [(NICS[2], "SYS")]


def test_a_node_without_gpus_has_its_nics_only() -> None:
    """Rails without GPUs make a record with an empty ``gpus``."""
    record = joined({NICS[0]: {RAIL0}}, None)
    assert (record.nics, record.gpus) == ({NICS[0]: (RAIL0,)}, {})


def test_gpus_whose_best_class_is_sys_keep_their_ties() -> None:
    """SYS is the worst class and still an answer."""
    record = joined({NICS[0]: {RAIL0}, NICS[1]: {RAIL0}}, view("SYS SYS"))
    assert closest(record, 0, RAIL0) == [(NICS[0], "SYS"), (NICS[1], "SYS")]


@pytest.mark.parametrize(
    ("inventory", "problem"),
    [
        ((0,), "GPU 1 is in the topology only"),
        ((0, 1, 2), "GPU 2 is in the inventory only"),
        ((0, 1, 1), "has a GPU twice"),
        ((), "GPU 0 is in the topology only"),
    ],
)
def test_a_gpu_in_one_view_only_is_refused(inventory: tuple[int, ...], problem: str) -> None:
    """Inventory and topology must show the same GPUs."""
    gpus = tuple(InventoryGpu(index=index, uuid=UUIDS[index], pci_address=GPUS[index]) for index in inventory)
    assert problem in refusal({NICS[0]: {RAIL0}}, replace(view("PIX", "PIX"), inventory=gpus))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"uuid": None}, "GPU 1 at 0000:11:00.0 has no UUID"),
        ({"uuid": UUIDS[0]}, "GPU 1 has the UUID of another GPU"),
        ({"pci_address": GPUS[0]}, "GPU 1 and GPU 0 are both at 0000:10:00.0"),
        ({"pci_address": NICS[0]}, "which is the address of a NIC on rail0"),
    ],
)
def test_a_gpu_must_be_told_apart(change: dict[str, Any], problem: str) -> None:
    """Every GPU has a UUID and an address of its own."""
    gpus = view("PIX", "PIX")
    changed = (gpus.inventory[0], replace(gpus.inventory[1], **change))
    assert problem in refusal({NICS[0]: {RAIL0}}, replace(gpus, inventory=changed))


def test_a_device_that_the_host_lacks_is_refused() -> None:
    """A name of the topology that the host does not know means that one of both is of another machine or moment."""
    assert "mlx5_1 (NIC1), but the host has none" in refusal(
        {NICS[0]: {RAIL0}}, replace(view("PIX PIX"), nic_addresses={"mlx5_0": NICS[0]})
    )


def test_a_rail_without_a_candidate_is_refused() -> None:
    """A rail whose NICs the topology does not show has no answer, and the sentence names rail and NICs."""
    sentence = refusal({NICS[0]: {RAIL0}, NICS[1]: {RAIL1}}, view("PIX"))
    assert "rail1" in sentence
    assert NICS[1] in sentence


@pytest.mark.parametrize("rails", [{}, {NICS[0]: set()}])
def test_no_rails_are_the_callers_business(rails: dict[PciAddress, set[RailId]]) -> None:
    """A Node without rails has no record to make; that is no failure of the join."""
    with pytest.raises(ValueError, match="without rails") as caught:
        joined(rails, None)
    assert not isinstance(caught.value, JoinError)


def test_the_order_of_discovery_changes_no_byte() -> None:
    """Equal facts give equal bytes, in whatever order they were found."""
    rails = {nic: {RAIL0, RAIL1} for nic in NICS}
    backwards = dict(reversed(rails.items()))
    gpus = view("PIX PXB PIX SYS", "SYS SYS SYS SYS")
    assert encode(joined(rails, gpus)) == encode(joined(backwards, gpus))
