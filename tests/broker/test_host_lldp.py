"""The rail source host-lldp."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from nicrails_broker.events import CommandWarned, Event, WithoutNeighbor
from nicrails_broker.failures import SourceError
from nicrails_broker.host import LldpctlError, Sysfs
from nicrails_broker.naming import RailNaming
from nicrails_broker.sources.host_lldp import HostLldp
from nicrails_broker.sources.rails import Rails
from tests.broker.test_sysfs import Tree, link

CORPUS = Path(__file__).parent.parent / "corpus/lldp"
RULE = (r"^eth_r([0-9]+)_p[0-9]+$", "rail$1")


def json0(*interfaces: str, name: str = "leaf", chassis: str = "44:38:39:00:00:01") -> bytes:
    """What ``lldpctl -f json0`` prints for neighbours on these interfaces."""
    return json.dumps(
        {
            "lldp": [
                {
                    "interface": [
                        {
                            "name": interface,
                            "via": "LLDP",
                            "rid": "1",
                            "age": "0 day, 00:00:10",
                            "chassis": [{"id": [{"type": "mac", "value": chassis}], "name": [{"value": name}]}],
                            "port": [{"id": [{"type": "ifname", "value": "swp1"}]}],
                        }
                        for interface in interfaces
                    ]
                }
            ]
        }
    ).encode()


def answering(output: bytes | Exception, said: str = "") -> Callable[[], Awaitable[tuple[bytes, str]]]:
    """An lldpctl that answers this."""

    async def ask() -> tuple[bytes, str]:
        if isinstance(output, Exception):
            raise output
        return output, said

    return ask


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A host with two dual-port NICs on two rails and a management interface."""
    tree = Tree(tmp_path / "sys")
    for name, address in (
        ("eth_r0_p0", "0000:1a:00.0"),
        ("eth_r0_p1", "0000:1a:00.1"),
        ("eth_r1_p0", "10000:2a:00.0"),
        ("mgmt0", "0000:02:00.0"),
    ):
        tree.entry("net", name, tree.pci(address))
    tree.entry("net", "lo", None)
    return tree


async def rails(tree: Tree, output: bytes | Exception, rule: tuple[str, str] = RULE) -> tuple[Rails, list[Event]]:
    """One discovery."""
    events: list[Event] = []
    source = HostLldp(ask=answering(output), naming=RailNaming(*rule), sysfs=Sysfs(tree.root), emit=events.append)
    return await source.discover(), events


async def test_interfaces_with_a_neighbour_and_a_rails_name_are_on_the_rail(tree: Tree) -> None:
    """A NIC is on a rail when its interface has a neighbour and the rule names the rail; others are not."""
    found, _ = await rails(tree, json0("eth_r0_p0", "eth_r0_p1", "eth_r1_p0", "mgmt0"))
    assert found == {"0000:1a:00.0": ("rail0",), "0000:1a:00.1": ("rail0",), "10000:2a:00.0": ("rail1",)}


async def test_a_selected_interface_without_a_neighbour_is_told(tree: Tree) -> None:
    """An interface that the rule selects and that has no neighbour is on no rail, and is reported as a cable fault."""
    found, events = await rails(tree, json0("eth_r0_p0"))
    assert found == {"0000:1a:00.0": ("rail0",)}
    assert events == [WithoutNeighbor(interfaces=("eth_r0_p1", "eth_r1_p0"))]


async def test_no_neighbours_at_all_is_an_empty_success(tree: Tree) -> None:
    """A host whose lldpd knows no neighbour is on no rail, for certain."""
    found, events = await rails(tree, b'{"lldp": [{}]}')
    assert found == {}
    assert events == [WithoutNeighbor(interfaces=("eth_r0_p0", "eth_r0_p1", "eth_r1_p0"))]


def confirming(tree: Tree, *outputs: bytes | Exception) -> HostLldp:
    """A source that looks at a loss once more, with one answer for each look."""
    answers = iter(outputs)

    async def ask() -> tuple[bytes, str]:
        output = next(answers)
        if isinstance(output, Exception):
            raise output
        return output, ""

    return HostLldp(ask=ask, naming=RailNaming(*RULE), sysfs=Sysfs(tree.root), emit=lambda _: None, confirm=0.001)


BOTH, ONE, NONE = json0("eth_r0_p0", "eth_r1_p0"), json0("eth_r0_p0"), b'{"lldp": [{}]}'


@pytest.mark.fault("B9")
async def test_a_loss_is_believed_when_it_is_seen_twice(tree: Tree) -> None:
    """B9: a neighbour that is gone in two looks in a row leaves the rails; what stays or comes is taken at once."""
    source = confirming(tree, ONE, BOTH, ONE, ONE, NONE, NONE)
    assert [len(await source.discover()) for _ in range(4)] == [1, 2, 1, 0]


@pytest.mark.fault("B9")
@pytest.mark.parametrize("first", [BOTH, NONE])
@pytest.mark.parametrize("second", [BOTH, LldpctlError("gone")])
async def test_a_lldpd_that_ends_during_the_look_takes_nothing_away(
    tree: Tree, first: bytes, second: bytes | Exception
) -> None:
    """B9: a short or empty list that the next look does not repeat is a failure, so the record stays."""
    source = confirming(tree, *([BOTH] if first is BOTH else []), ONE if first is BOTH else NONE, second, BOTH)
    if first is BOTH:
        await source.discover()
    with pytest.raises(SourceError):
        await source.discover()
    assert len(await source.discover()) == 2


async def test_several_interfaces_of_one_function_share_its_rails(tree: Tree) -> None:
    """Interfaces that belong to one PCI function, as representors do, give it the rails of all of them."""
    device = tree.root / "devices/pci0000:00/0000:1a:00.0"
    for name in ("eth_r7_p0", "eth_r3_p0"):
        entry = device / "net" / name
        entry.mkdir()
        link(entry / "device", device)
        link(tree.root / "class/net" / name, entry)
    found, _ = await rails(tree, json0("eth_r7_p0", "eth_r0_p0", "eth_r3_p0", "eth_r0_p0"))
    assert found == {"0000:1a:00.0": ("rail0", "rail3", "rail7")}


@pytest.mark.parametrize("kind", ["bonding", "bridge"])
async def test_a_selected_interface_without_a_pci_device_fails_the_discovery(tree: Tree, kind: str) -> None:
    """A selected bond or bridge with a neighbour fails everything: no rail is left out silently."""
    (tree.entry("net", "eth_r2_p0", None) / kind).mkdir()
    with pytest.raises(SourceError, match="eth_r2_p0 is a "):
        await rails(tree, json0("eth_r0_p0", "eth_r2_p0"))


async def test_a_bond_that_is_not_selected_does_no_harm(tree: Tree) -> None:
    """A bond with a neighbour that the rule does not select changes nothing."""
    (tree.entry("net", "bond0", None) / "bonding").mkdir()
    found, _ = await rails(tree, json0("eth_r0_p0", "bond0"))
    assert found == {"0000:1a:00.0": ("rail0",)}


async def test_an_empty_rail_id_fails_the_discovery(tree: Tree) -> None:
    """A rule that gives a connected interface an empty rail ID is an error that names the interface."""
    with pytest.raises(SourceError, match=r"eth_r0_p0.*empty rail ID"):
        await rails(tree, json0("eth_r0_p0"), (r"^eth_r0_p0(x)?$", "$1"))


async def test_an_empty_rail_id_of_an_idle_interface_is_none_of_our_business_yet(tree: Tree) -> None:
    """An interface without a neighbour counts as selected, also if its rail ID would be empty."""
    found, events = await rails(tree, json0("mgmt0"), (r"^eth_r0_p0(x)?$", "$1"))
    assert (found, events) == ({}, [WithoutNeighbor(interfaces=("eth_r0_p0",))])


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"{",
        (CORPUS / "030-gen-INVALID-unescaped-quote-in-name.json.txt").read_bytes(),
        (CORPUS / "033-gen-INJECTED-valid-json-fake-interface-eth_r9_p0.json").read_bytes(),
        (CORPUS / "013-gen-five-interfaces-mixed.json").read_bytes(),
        (CORPUS / "019-gen-show-interfaces-LOCAL-not-neighbors.json").read_bytes(),
        json0("../../../etc"),
        json0("eth_r0_p0", "a/b"),
        LldpctlError("no connection"),
    ],
)
async def test_what_is_not_json0_fails_the_discovery(tree: Tree, output: bytes | Exception) -> None:
    """B9: an answer that is damaged, forged, of another format or missing is a failure and never an empty success."""
    with pytest.raises(SourceError):
        await rails(tree, output)


@pytest.mark.parametrize(
    "name", ['leaf","eth_r9_p0', "\x1b[2J", "a" * 200_000, 'x"}]}]}', "\u202e", "${1}", "eth_r1_p0", "", "\ud83d\ude00"]
)
async def test_a_neighbours_name_has_no_influence(tree: Tree, name: str) -> None:
    """Whatever a neighbour calls itself, the rails are the same."""
    found, _ = await rails(tree, json0("eth_r0_p0", name=name))
    assert found == {"0000:1a:00.0": ("rail0",)}


async def test_warnings_of_lldpctl_are_told(tree: Tree) -> None:
    """What lldpctl says beside a good answer is reported and fails nothing."""
    events: list[Event] = []
    source = HostLldp(
        ask=answering(json0("eth_r0_p0"), "odd"),
        naming=RailNaming(*RULE),
        sysfs=Sysfs(tree.root),
        emit=events.append,
    )
    assert await source.discover()
    assert events[0] == CommandWarned(command="lldpctl", said="odd")
