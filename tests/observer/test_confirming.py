from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from prometheus_client import CollectorRegistry

from nicrails.settings import Duration
from nicrails_observer.confirming import EACH_AT_MOST, Confirmer, DisagreementError
from nicrails_observer.metrics import Metrics
from nicrails_observer.settings import BrakeSettings
from nicrails_observer.verdicts import Removal, Verdict
from tests.observer.documents import record


class _Live:
    """Nodes whose lists may lie; each list can be another one."""

    def __init__(self, there: dict[str, str], *lists: dict[str, str]) -> None:
        self.there = there
        self.lists = list(lists)
        self.read: list[str] = []
        self.listed = 0

    async def all(self) -> dict[str, str]:
        self.listed += 1
        return self.lists.pop(0) if self.lists else dict(self.there)

    async def each(self, names: Sequence[str]) -> dict[str, str | None]:
        self.read += names
        return {name: self.there.get(name) for name in names}


class _Confirming(Confirmer):
    def __init__(self, live: _Live) -> None:
        self.registry = CollectorRegistry()
        super().__init__(live, BrakeSettings(delay=Duration(0)), Metrics(self.registry), random.Random(1))

    def counted(self, name: str) -> float | None:
        return self.registry.get_sample_value(f"nicrails_observer_{name}")


def _suspects(count: int) -> list[Removal]:
    return [
        Removal(node=f"n{number}", document=record(f"u{number}"), verdict=Verdict.NODE_GONE) for number in range(count)
    ]


def _nodes(count: int, uid: Callable[[int], str] = "u{}".format) -> dict[str, str]:
    return {f"n{number}": uid(number) for number in range(count)}


async def test_nothing_suspected_costs_nothing() -> None:
    """Without suspects no Node is read."""
    live = _Live({})
    confirmation = await _Confirming(live).confirm([], records=5, nodes=0)
    assert (confirmation.removals, live.read, live.listed) == ((), [], 0)


async def test_a_few_are_read_by_name() -> None:
    """A few suspects cost one read each and no list."""
    live = _Live({"n0": "u0"})
    confirmation = await _Confirming(live).confirm(_suspects(3), records=100, nodes=97)
    assert [removal.node for removal in confirmation.removals] == ["n1", "n2"]
    assert confirmation.contradicted == ("n0",)
    assert (sorted(live.read), live.listed) == (["n0", "n1", "n2"], 0)


async def test_many_are_looked_up_in_one_list() -> None:
    """Many suspects cost one list, and a sample of reads that checks it."""
    live = _Live({"n7": "u7", "other": "x"})
    confirmation = await _Confirming(live).confirm(_suspects(100), records=1000, nodes=900)
    assert len(confirmation.removals) == 99
    assert confirmation.contradicted == ("n7",)
    assert (len(live.read), live.listed) == (EACH_AT_MOST, 1)


@pytest.mark.fault("O10")
async def test_a_list_that_hides_nodes_is_found_out() -> None:
    """O10: where reads by name find Nodes that the list lacks, nothing is removed at all, and the sentence says so."""
    confirmer = _Confirming(_Live(_nodes(100), {}))
    with pytest.raises(DisagreementError, match=r"n\d+, n\d+, n\d+ and 17 more\), but a list of 0 Nodes") as caught:
        await confirmer.confirm(_suspects(100), records=1000, nodes=900)
    assert caught.value.step == "confirm"
    assert confirmer.counted("contradictions_total") == EACH_AT_MOST


@pytest.mark.fault("O10")
async def test_a_true_mass_removal_is_confirmed_twice() -> None:
    """O10: the brake asks for a second complete list, and a removal that both confirm is done."""
    live = _Live({"other": "x"})
    confirmer = _Confirming(live)
    confirmation = await confirmer.confirm(_suspects(100), records=100, nodes=1)
    assert len(confirmation.removals) == 100
    assert live.listed == 2
    assert confirmer.counted("brake_engagements_total") == 1
    assert confirmer.counted("brake_refusals_total") == 0


@pytest.mark.fault("O10")
async def test_a_list_that_changes_its_mind_is_not_believed() -> None:
    """O10: Nodes that are back under their old UID were never gone, so nothing is removed on either answer."""

    class _Recovering(_Live):
        async def all(self) -> dict[str, str]:
            nodes = await super().all()
            if self.listed == 2:
                self.there = _nodes(100)
                return dict(self.there)
            return nodes

    confirmer = _Confirming(_Recovering({"other": "x"}))
    with pytest.raises(DisagreementError, match="a moment ago") as caught:
        await confirmer.confirm(_suspects(100), records=100, nodes=1)
    assert caught.value.step == "brake"
    assert confirmer.counted("brake_engaged") == 1
    assert confirmer.counted("brake_refusals_total") == 1


@pytest.mark.fault("O10")
async def test_an_empty_view_is_never_believed_at_once() -> None:
    """O10: when no Node is left, even a single removal takes a second, complete confirmation."""
    live = _Live({})
    confirmer = _Confirming(live)
    confirmation = await confirmer.confirm(_suspects(1), records=1, nodes=0)
    assert [removal.node for removal in confirmation.removals] == ["n0"]
    assert (live.listed, confirmer.counted("brake_engagements_total")) == (1, 1)


async def test_nodes_replaced_while_the_brake_waits_still_lose_their_old_records() -> None:
    """A Node that comes back under a new UID confirms that the record is stale."""
    confirmation = await _Confirming(
        _Live(_nodes(100, "new{}".format), {"other": "x"}, _nodes(100, "new{}".format))
    ).confirm(_suspects(100), records=100, nodes=1)
    assert {removal.verdict for removal in confirmation.removals} == {Verdict.NODE_REPLACED}
