"""The provider annotation."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from nicrails_broker.annotations import CHASSIS_ID, ChassisAnnotation, chassis
from nicrails_broker.events import Annotated, Event, Found, SourceLooked
from nicrails_broker.failures import BrokerError, NodeError, Step, StepError
from nicrails_broker.loop import FOREVER
from nicrails_broker.parsers.lldp import Neighbor, parse_json0
from tests.broker.test_host_lldp import answering, json0

CORPUS = Path(__file__).parent.parent / "corpus/lldp"


def neighbor(interface: str = "eth0", subtype: str | None = "mac", value: str | None = "44:38:39:00:00:01") -> Neighbor:
    """A neighbour."""
    return Neighbor(interface=interface, chassis_id_subtype=subtype, chassis_id=value, via="LLDP")


@pytest.mark.parametrize(
    ("subtype", "value"),
    [("mac", "44:38:39:00:00:01"), ("local", "leaf 7, rack 3"), ("ip", "10.0.0.1"), ("ifname", "Et1/1")],
)
def test_the_value_is_subtype_and_id(subtype: str, value: str) -> None:
    """The annotation's value is ``<subtype>:<value>``, in the spelling of lldpctl."""
    assert chassis([neighbor("a", subtype, value), neighbor("b", subtype, value)]) == f"{subtype}:{value}"


def test_no_neighbour_is_no_value() -> None:
    """Without a neighbour there is no value, which is no failure."""
    assert chassis([]) is None


def test_several_chassis_are_never_guessed_between() -> None:
    """Neighbours of different chassis are refused in a sentence that lists them with their interfaces."""
    with pytest.raises(BrokerError, match=r"2 different chassis: mac:a on eth0, mac:b on eth1; .*interfaceRegex"):
        chassis([neighbor("eth0", "mac", "a"), neighbor("eth1", "mac", "b"), neighbor("eth2", "mac", "a")])


def test_a_long_list_of_chassis_is_cut() -> None:
    """A neighbour can not flood the sentence with names."""
    with pytest.raises(BrokerError, match="50 different chassis") as caught:
        chassis([neighbor(f"e{index}", "local", f"{index}" + "x" * 200) for index in range(50)])
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    ("subtype", "value"),
    [
        (None, "x"),
        ("mac", None),
        ("", "x"),
        ("mac", ""),
        ("MAC", "x"),
        ("a b", "x"),
        ("x" * 33, "x"),
        ("local", "x" * 256),
        ("local", "a\nb"),
        ("local", "\x1b[2J"),
        ("local", " x"),
        ("local", "\ufffd"),
        ("local", "\u202e"),
    ],
)
def test_a_neighbours_text_is_checked(subtype: str | None, value: str | None) -> None:
    """What a neighbour writes only gets on the Node if it is short, plain text."""
    with pytest.raises(BrokerError, match=r"neighbour of eth0 has a chassis ID that is no plain text"):
        chassis([neighbor("eth0", subtype, value)])


def test_captures_give_the_chassis_of_lldpd() -> None:
    """The chassis ID of a real capture is told as lldpd prints it."""
    found = parse_json0((CORPUS / "012-gen-json0-one-interface-one-neighbor.json").read_bytes())
    assert chassis(found) == "mac:44:38:39:00:00:01"


class Node:
    """A Node in memory."""

    def __init__(self) -> None:
        self.value: str | None = None
        self.broken: NodeError | None = None
        self.writes: list[tuple[str, str]] = []

    async def annotation(self, key: str) -> str | None:
        """Read."""
        if self.broken is not None:
            raise self.broken
        assert key == CHASSIS_ID == "topograph.run/lldp-chassis-id"
        return self.value

    async def annotate(self, key: str, value: str) -> None:
        """Write."""
        self.writes.append((key, value))
        self.value = value


class Bench:
    """An annotation with its Node and what it said."""

    def __init__(self, output: bytes, *, regex: str = "eth0", refresh: float = 300.0) -> None:
        self.node = Node()
        self.events: list[Event] = []
        self.annotation = ChassisAnnotation(
            ask=answering(output),
            selects=lambda interface: interface.startswith(regex),
            node=self.node,
            refresh=refresh,
            emit=self.events.append,
            rng=random.Random(1),
        )


async def test_the_annotation_is_set_once() -> None:
    """The value is written where it differs and not again."""
    bench = Bench(json0("eth0", "other0"))
    assert 270 <= await bench.annotation.once() <= 330
    await bench.annotation.once()
    assert bench.node.writes == [(CHASSIS_ID, "mac:44:38:39:00:00:01")]
    assert [event.changed for event in bench.events if isinstance(event, Annotated)] == [True, False]


async def test_a_refresh_of_zero_is_one_look() -> None:
    """With an interval of 0 there is one look."""
    assert await Bench(json0("eth0"), refresh=0).annotation.once() == FOREVER


async def test_without_a_neighbour_the_annotation_stays() -> None:
    """A Node whose selected interfaces have no neighbour keeps what it has; nothing there is not a failure."""
    bench = Bench(json0("other0"))
    bench.node.value = "mac:old"
    await bench.annotation.once()
    assert bench.node.writes == []
    (looked,) = bench.events
    assert isinstance(looked, SourceLooked)
    assert (looked.kind, looked.found) == ("chassis", Found.NOTHING)


async def test_neighbours_of_other_protocols_do_not_count() -> None:
    """A neighbour that speaks CDP beside LLDP has another ID there, and does not make the chassis ambiguous."""
    both, cdp = (json.loads(json0("eth0", chassis=chassis_id)) for chassis_id in ("44:38:39:00:00:01", "leaf"))
    other = cdp["lldp"][0]["interface"][0] | {"via": "CDPv2"}
    both["lldp"][0]["interface"].insert(0, other)
    bench = Bench(json.dumps(both).encode())
    await bench.annotation.once()
    assert bench.node.value == "mac:44:38:39:00:00:01"


@pytest.mark.parametrize(
    ("output", "step"),
    [(b"", Step.READ_NEIGHBORS), (json0("eth0", chassis="\n"), Step.CHOOSE_CHASSIS)],
)
async def test_a_failure_leaves_the_annotation(output: bytes, step: Step) -> None:
    """Whatever fails, the annotation is as it was, and the step is named."""
    bench = Bench(output)
    bench.node.value = "mac:old"
    with pytest.raises(StepError) as caught:
        await bench.annotation.once()
    assert (caught.value.step, bench.node.writes) == (step, [])


async def test_a_node_that_can_not_be_read_is_a_failure_of_its_own() -> None:
    """A fault of the API is told as such."""
    bench = Bench(json0("eth0"))
    bench.node.broken = NodeError("down")
    with pytest.raises(StepError) as caught:
        await bench.annotation.once()
    assert caught.value.step is Step.ANNOTATE_NODE
