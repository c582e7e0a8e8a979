"""Damaged output is refused or gives the true answer, never another one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest

from nicrails_broker.parsers import (
    InventoryGpu,
    ParseError,
    Topology,
    interfaces,
    parse_any,
    parse_inventory,
    parse_topology,
)
from tests.broker import damage

CORPUS = Path(__file__).parents[1] / "corpus"
TOPO_DAMAGES = 96_000
INVENTORY_DAMAGES = 16_000
LLDP_DAMAGES = 12_000
PARTS = 8

_T = TypeVar("_T")


def _read(path: Path) -> str:
    return path.read_bytes().decode()


def _topologies() -> dict[str, str]:
    expected = json.loads(_read(CORPUS / "topo" / "EXPECTED.json"))
    return {name: _read(CORPUS / "topo" / name) for name, entry in expected.items() if entry["status"].startswith("ok")}


def _accepted(folder: str, parse: Callable[[str], object]) -> dict[str, str]:
    texts = {}
    for path in sorted((CORPUS / folder).iterdir()):
        text = _read(path)
        try:
            parse(text)
        except ParseError:
            continue
        texts[path.name] = text
    return texts


def _survivors(
    texts: dict[str, str],
    parse: Callable[[str], _T],
    is_true: Callable[[_T, _T], bool],
    kinds: list[damage.Damage],
    *,
    count: int,
    seed: int,
) -> tuple[int, int]:
    """Damage every text ``count / len(texts)`` times; returns how many were refused and how many gave the truth."""
    rng = Random(seed)
    sentences: list[str] = []
    kept = 0
    for name, text in texts.items():
        truth = parse(text)
        for _ in range(-(-count // len(texts))):
            damaged = damage.damage(rng, text, kinds)
            try:
                answer = parse(damaged)
            except ParseError as error:
                sentences.append(str(error))
                continue
            assert is_true(truth, answer), f"{name}: another answer\n{damaged}"
            kept += 1
    assert all(sentence.isprintable() for sentence in sentences)
    return len(sentences), kept


@pytest.mark.parametrize("part", range(PARTS))
def test_damaged_matrix_never_gives_another_answer(part: int) -> None:
    """Rows, cells, columns and legends that are lost, doubled, cut, glued, shifted or swapped change no answer."""

    def is_same(truth: Topology, answer: Topology) -> bool:
        return answer == truth and list(answer.nics) == list(truth.nics)

    kinds = [*damage.LINES, damage.cut_line, *damage.CELLS, *damage.CELLS, *damage.characters(damage.device_names)]
    kinds += [damage.legend_lines] * 3
    refused, kept = _survivors(
        _topologies(), parse_topology, is_same, kinds, count=TOPO_DAMAGES // PARTS, seed=1000 + part
    )
    assert refused + kept >= TOPO_DAMAGES // PARTS
    assert refused > 4 * kept > 0


def test_damaged_inventory_never_gives_another_answer() -> None:
    """The only other answers lack GPUs or all UUIDs, and those the join refuses."""

    def is_true(truth: tuple[InventoryGpu, ...], answer: tuple[InventoryGpu, ...]) -> bool:
        without = tuple(InventoryGpu(index=gpu.index, uuid=None, pci_address=gpu.pci_address) for gpu in truth)
        if len(answer) < len(truth):
            return {gpu.pci_address for gpu in answer} < {gpu.pci_address for gpu in truth}
        return answer in (truth, without)

    kinds = [*damage.LINES, damage.cut_line, *damage.characters(damage.inventory_keys), damage.csv_cells]
    kinds += [damage.csv_cells] * 4
    texts = _accepted("query-gpu", parse_inventory)
    refused, kept = _survivors(texts, parse_inventory, is_true, kinds, count=INVENTORY_DAMAGES, seed=2000)
    assert refused + kept >= INVENTORY_DAMAGES
    assert refused > kept > 0


def test_damaged_neighbours_never_give_another_interface() -> None:
    """A piece cut out of the middle may lose an interface, if the rest closes again; none is ever made up."""

    def parse(text: str) -> tuple[str, ...]:
        return interfaces(parse_any(text.encode()))

    def is_true(truth: tuple[str, ...], answer: tuple[str, ...]) -> bool:
        return set(answer) <= set(truth)

    kinds = [*damage.LINES, *damage.characters(damage.interface_names)]
    texts = _accepted("lldp", parse)
    refused, kept = _survivors(texts, parse, is_true, kinds, count=LLDP_DAMAGES, seed=3000)
    assert refused + kept >= LLDP_DAMAGES
    assert refused > kept > 0


def test_at_least_a_hundred_thousand_damages_are_tried() -> None:
    """The numbers above add up to what the project promises."""
    assert TOPO_DAMAGES + INVENTORY_DAMAGES + LLDP_DAMAGES >= 100_000
