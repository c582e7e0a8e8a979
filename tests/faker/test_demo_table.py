"""Records as tables for people."""

from __future__ import annotations

import pytest

import nicrails
from nicrails import GpuUuid
from nicrails_faker.demo.table import rail_order, table
from nicrails_faker.machines import names, shipped


def drawn(name: str, width: int = 100) -> list[str]:
    """The table of a shipped machine's golden record."""
    machine = shipped(name)
    assert machine.record is not None
    rows = [line.split(", ") for line in (machine.captures.inventory or b"").decode().splitlines()]
    return table(nicrails.decode(machine.record), {GpuUuid(uuid): int(index) for index, uuid, _ in rows}, width)


def test_rows_by_class() -> None:
    """A GPU has a row for each path class, best first; the best names its NICs, a long worse one counts them."""
    assert drawn("a100-1gpu") == [
        "  GPU  UUID          PCI address   path  rail → NICs",
        "    0  GPU-74bf20f8  0000:bd:00.0  PXB   rail3 → 0000:b8:00.0   rail4 → 0000:bc:00.0",
        "                                   NODE  rail2 → 0000:87:00.0 0000:87:00.1",
        "                                   SYS   rail0, rail1 → 2 NICs each",
    ]


def test_eight_gpus_on_eight_rails() -> None:
    """8 GPUs on 8 rails with 16 NICs take two rows each, in the order of the GPUs' indices."""
    lines = drawn("h100-8gpu-dualport")
    assert len(lines) == 17
    assert lines[5:7] == [
        "    2  GPU-f0f19c55  0000:52:00.0  PIX   rail2 → 0000:51:00.0 0000:51:00.1",
        "                                   SYS   rail0, rail1, rail3…rail7 → 2 NICs each",
    ]
    assert [line.split()[0] for line in lines[1::2]] == list("01234567")


def test_without_gpus() -> None:
    """A Node without GPUs shows its rails."""
    assert drawn("cpu-rails") == ["  no GPUs", "  rail0 → 0000:3b:00.0   rail1 → 0000:3b:00.1"]


def test_ties_of_all_are_folded() -> None:
    """The best row is never cut: it goes on below itself."""
    assert drawn("gb200-4gpu", 60)[1:5] == [
        "    0  GPU-122b5986  0008:06:00.0  SYS   rail0 → 0000:03:00.0",
        "                                         rail1 → 0002:03:00.0",
        "                                         rail2 → 0010:03:00.0",
        "                                         rail3 → 0012:03:00.0",
    ]


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("name", names())
def test_the_width_is_kept(name: str, width: int) -> None:
    """No line of a shipped machine's table is wider than the terminal."""
    assert max(map(len, drawn(name, width))) <= width


def test_rails_sort_by_number() -> None:
    """rail10 comes after rail9, and names without a number have a place."""
    assert sorted(["rail10", "b", "rail9", "a1x"], key=rail_order) == ["a1x", "b", "rail9", "rail10"]
