"""Discovery, publication and the order between them, without any input or output."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from nicrails import NodeRecord, NodeUid, PciAddress, RailId, decode
from nicrails_broker.discovery import Discovery
from nicrails_broker.events import Event, Found, Publication, Published, SourceLooked
from nicrails_broker.failures import NodeError, PublishError, Retry, SourceError, Step, StepError
from nicrails_broker.join import GpuView
from nicrails_broker.loop import FOREVER
from nicrails_broker.reconciler import Reconciler
from nicrails_broker.sources.rails import Rails

ONE: Rails = {PciAddress("0000:1a:00.0"): (RailId("rail0"),)}
TWO: Rails = {**ONE, PciAddress("0000:2a:00.0"): (RailId("rail1"),)}


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """The time."""
        return self.now


class Host:
    """Everything outside: rails, GPUs, the Node and the store, each with a switch to fail."""

    def __init__(self) -> None:
        self.rails: Rails | Exception = ONE
        self.gpus: GpuView | Exception | None = None
        self.node: str | Exception = "uid-1"
        self.store: Exception | None = None
        self.lost = False
        self.calls: list[str] = []
        self.held: list[bytes | None] = []
        self.name = "fake"

    async def discover(self) -> Rails:
        """The rail source."""
        self.calls.append("rails")
        if isinstance(self.rails, Exception):
            raise self.rails
        return self.rails

    async def uid(self) -> NodeUid:
        """The Node."""
        self.calls.append("node")
        if isinstance(self.node, Exception):
            raise self.node
        return NodeUid(self.node)

    async def put(self, record: bytes | None) -> Publication:
        """The store."""
        self.calls.append("put")
        if self.store is not None:
            raise self.store
        self.held.append(record)
        self.lost = False
        return Publication.REMOVED if record is None else Publication.WRITTEN

    async def holds(self, record: bytes | None) -> bool:
        """The store."""
        self.calls.append("holds")
        if self.store is not None:
            raise self.store
        assert record == self.held[-1]
        return not self.lost

    def took(self) -> list[str]:
        """The calls since the last time."""
        calls, self.calls = self.calls, []
        return calls


class Gpus:
    """The GPU source of a host."""

    name = "fake"

    def __init__(self, host: Host) -> None:
        self._host = host

    async def discover(self) -> GpuView | None:
        """Answer."""
        self._host.calls.append("gpus")
        if isinstance(self._host.gpus, Exception):
            raise self._host.gpus
        return self._host.gpus


class Bench:
    """A reconciler with its host, its clock and what it said."""

    def __init__(self, *, refresh: float = 300.0, gpus: bool = True) -> None:
        self.host = Host()
        self.clock = Clock()
        self.events: list[Event] = []
        self.reconciler = Reconciler(
            discovery=Discovery(
                rails=self.host,
                gpus=Gpus(self.host) if gpus else None,
                node=self.host,
                emit=self.events.append,
                clock=self.clock,
            ),
            store=self.host,
            refresh=refresh,
            verify=60.0,
            settle=45.0,
            emit=self.events.append,
            rng=random.Random(7),
            clock=self.clock,
        )

    async def once(self) -> tuple[float, list[str]]:
        """One turn: the pause and the calls."""
        pause = await self.reconciler.once()
        return pause, self.host.took()

    async def fails(self) -> StepError:
        """One turn that fails."""
        with pytest.raises(StepError) as caught:
            await self.reconciler.once()
        return caught.value


@pytest.fixture
def bench() -> Bench:
    """A reconciler that has done nothing yet."""
    return Bench()


def record(document: bytes | None) -> NodeRecord:
    """A published record."""
    assert document is not None
    return decode(document)


async def test_the_first_turn_discovers_and_publishes(bench: Bench) -> None:
    """Rails, GPUs and the Node are looked at in this order, then the record is put."""
    pause, calls = await bench.once()
    assert calls == ["rails", "gpus", "node", "put"]
    assert record(bench.host.held[0]).node_uid == "uid-1"
    assert 54 <= pause <= 66


async def test_between_two_discoveries_only_the_store_is_looked_at(bench: Bench) -> None:
    """Until the next discovery is due the record is only looked after."""
    await bench.once()
    bench.clock.now += 60
    assert (await bench.once())[1] == ["holds"]


async def test_a_discovery_is_due_after_the_jittered_interval(bench: Bench) -> None:
    """The next discovery comes 270 to 330 s after the last one, and the pause never goes past it."""
    await bench.once()
    bench.clock.now += 269
    pause, calls = await bench.once()
    assert calls == ["holds"]
    bench.clock.now += pause
    while (turn := await bench.once())[1] == ["holds"]:
        bench.clock.now += turn[0]
    assert turn[1] == ["rails", "gpus", "node", "put"]
    assert 1270 <= bench.clock.now <= 1330


async def test_a_discovery_that_lost_a_nic_is_soon_followed_by_another(bench: Bench) -> None:
    """B9: what an lldpd that was just restarted does not know yet is missing for less than a minute."""
    bench.host.rails = TWO
    await bench.once()
    for rails in (ONE, {}):
        bench.clock.now += 400
        bench.host.rails = rails
        pause, _ = await bench.once()
        assert pause <= 49.5
        bench.clock.now += 50
        bench.host.rails = TWO
        assert (await bench.once())[1][0] == "rails"
    bench.clock.now += 269
    assert (await bench.once())[1] == ["holds"]


async def test_a_refresh_of_zero_discovers_once(bench: Bench) -> None:
    """With an interval of 0 there is one discovery, but the record is looked after for ever."""
    bench = Bench(refresh=0)
    await bench.once()
    bench.clock.now += 1e9
    pause, calls = await bench.once()
    assert calls == ["holds"]
    assert pause < FOREVER


@pytest.mark.fault("B4")
async def test_a_lost_record_is_published_again(bench: Bench) -> None:
    """B4: a record that the store has lost is put again without another discovery, for the Node as it is now."""
    await bench.once()
    bench.host.lost = True
    assert (await bench.once())[1] == ["holds", "node", "put"]
    assert bench.host.held[0] == bench.host.held[1]


@pytest.mark.fault("B11")
async def test_a_node_that_was_made_anew_gets_its_own_record(bench: Bench) -> None:
    """B11: before each publication the Node's UID is read again."""
    await bench.once()
    bench.host.lost, bench.host.node = True, "uid-2"
    await bench.once()
    assert [record(held).node_uid for held in bench.host.held] == ["uid-1", "uid-2"]


@pytest.mark.fault("B9")
async def test_only_a_successful_empty_discovery_removes_the_record(bench: Bench) -> None:
    """B9: while rails can not be discovered nothing is written; when there are none for certain, the record goes."""
    await bench.once()
    bench.clock.now += 400
    bench.host.rails = SourceError("lldpd is down")
    assert (await bench.fails()).step is Step.DISCOVER_RAILS
    assert len(bench.host.held) == 1
    bench.host.rails = {}
    bench.host.took()
    assert (await bench.once())[1] == ["rails", "put"]
    assert bench.host.held[1:] == [None]


@pytest.mark.parametrize(
    ("break_it", "step"),
    [
        (lambda host: setattr(host, "rails", SourceError("x")), Step.DISCOVER_RAILS),
        (lambda host: setattr(host, "gpus", SourceError("x", retry=Retry.AFTER_HANG)), Step.DISCOVER_GPUS),
        (lambda host: setattr(host, "node", NodeError("x")), Step.READ_NODE),
    ],
)
async def test_a_failing_step_is_named_and_writes_nothing(
    bench: Bench, break_it: Callable[[Host], None], step: Step
) -> None:
    """A failure carries its step and its pace; what was published stays, and the next turn discovers anew."""
    break_it(bench.host)
    error = await bench.fails()
    assert (error.step, str(error)) == (step, "x")
    assert error.retry is (Retry.AFTER_HANG if step is Step.DISCOVER_GPUS else Retry.SOON)
    assert "put" not in bench.host.took()
    bench.host.rails, bench.host.gpus, bench.host.node = TWO, None, "uid-1"
    assert (await bench.once())[1][0] == "rails"


async def test_a_failed_publication_is_repeated_without_a_discovery(bench: Bench) -> None:
    """When only the publication fails, only the publication is repeated, with the Node read again."""
    bench.host.store = PublishError("full", retry=Retry.RARELY)
    error = await bench.fails()
    assert (error.step, error.retry) == (Step.PUBLISH, Retry.RARELY)
    bench.host.store = None
    bench.host.took()
    assert (await bench.once())[1] == ["node", "put"]


async def test_a_publication_that_fails_for_long_does_not_publish_old_news(bench: Bench) -> None:
    """When the next discovery is due it comes before another try to publish."""
    bench.host.store = PublishError("down")
    await bench.fails()
    bench.clock.now += 400
    bench.host.rails, bench.host.store = TWO, None
    bench.host.took()
    assert (await bench.once())[1] == ["rails", "gpus", "node", "put"]
    assert len(record(bench.host.held[-1]).nics) == 2


async def test_a_store_that_can_not_be_asked_is_a_failure_of_publication(bench: Bench) -> None:
    """A look at the store that fails makes the duty fail, and after it the record is looked after as before."""
    await bench.once()
    bench.host.store = PublishError("down")
    assert (await bench.fails()).step is Step.PUBLISH
    bench.host.store = None
    bench.host.took()
    assert (await bench.once())[1] == ["holds"]


async def test_gpus_are_not_asked_where_they_are_not_to_be_recorded() -> None:
    """Without a GPU source the record has rails only, and the source counts as disabled, not as failed or empty."""
    bench = Bench(gpus=False)
    assert (await bench.once())[1] == ["rails", "node", "put"]
    looked = [event.found for event in bench.events if isinstance(event, SourceLooked)]
    assert looked == [Found.FOUND, Found.DISABLED]


async def test_events_tell_each_look_and_each_publication(bench: Bench) -> None:
    """A sink learns of found, nothing and failed as three different things, and of what is published."""
    await bench.once()
    bench.clock.now += 400
    bench.host.rails = SourceError("x")
    await bench.fails()
    looked = [event.found for event in bench.events if isinstance(event, SourceLooked)]
    assert looked == [Found.FOUND, Found.NOTHING, Found.FAILED]
    (published,) = [event for event in bench.events if isinstance(event, Published)]
    assert (published.result, published.rails, published.nics, published.gpus) == (Publication.WRITTEN, 1, 1, 0)
    assert published.size == len(bench.host.held[0] or b"")
