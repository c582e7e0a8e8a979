"""Faults of lldpd and lldpctl, as the broker lives through them.

Each scenario checks what health says, what stands in the ConfigMap byte by byte, and that the broker recovers by itself.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import pytest_asyncio

from nicrails_faker.machines import Answer
from tests.broker.site import Site, cpu_site, good
from tests.cluster.controlplane import ControlPlane
from tests.cluster.world import World

pytestmark = pytest.mark.needs("control-plane")


@pytest_asyncio.fixture
async def site(control_plane: ControlPlane, world: World, tmp_path: Path) -> Site:
    """A Node with rails and without GPUs; the ConfigMap is the scenario's business."""
    return await cpu_site(control_plane, world, tmp_path)


CORPUS = Path(__file__).parent.parent / "corpus/lldp"


def corpus(name: str) -> bytes:
    """A captured answer."""
    return (CORPUS / name).read_bytes()


@pytest.mark.parametrize(
    ("answer", "status", "fragments"),
    [
        (corpus("020-error-socket-missing.stderr.txt"), 1, ["does not run on the host", "host.lldpdSocket"]),
        (corpus("021-error-socket-connection-refused.stderr.txt"), 1, ["the socket is stale"]),
        (corpus("025-error-version-mismatch-marshal.txt"), 1, ["of different versions"]),
        (corpus("026-error-client-in-pod-daemon-on-host.txt"), 134, ["signal 6", "of different versions"]),
        (b"", 0, ["no output"]),
        (corpus("024-error-unknown-format.stdout-head.txt"), 0, ["plain text"]),
        (corpus("014-gen-json0-five-interfaces-mixed.json")[:600], 0, ["lldpctl -f json0"]),
        (corpus("013-gen-five-interfaces-mixed.json"), 0, ["lldpctl -f json0"]),
        (corpus("030-gen-INVALID-unescaped-quote-in-name.json.txt"), 0, ["lldpctl -f json0"]),
        (corpus("033-gen-INJECTED-valid-json-fake-interface-eth_r9_p0.json"), 0, ["lldpctl -f json0"]),
    ],
    ids=["no-socket", "stale", "marshal", "abort", "empty", "plain", "cut", "json", "invalid", "injected"],
)
@pytest.mark.fault("B9")
async def test_lldpd_gives_no_answer_to_trust(site: Site, answer: bytes, status: int, fragments: list[str]) -> None:
    """B9: whatever keeps lldpd from answering, or damages its answer, is told by its cause, and the record stays."""
    await site.make_config_map()
    async with site.running() as broker:
        await good(site, broker)
        site.machine.answer(Answer.LLDP, answer, exit_status=status)
        await broker.unhealthy("discover-rails", *fragments)
        metrics = await broker.metrics()
        assert metrics['nicrails_broker_source_state{kind="rails",source="host-lldp",state="failed"}'] == 1
        assert metrics['nicrails_broker_source_success{kind="rails",source="host-lldp"}'] == 0
        assert await site.record() == site.expected()
        site.machine.heal()
        await good(site, broker)


@pytest.mark.parametrize(
    "answer", [b'{"lldp": [{}]}', corpus("010-gen-json0-no-neighbors.json")], ids=["plain", "real"]
)
@pytest.mark.fault("B9")
async def test_only_a_successful_empty_answer_removes_the_record(site: Site, answer: bytes) -> None:
    """B9: when lldpd says that there is no neighbour, only this Node's key goes, and it comes back with the neighbours."""
    await site.make_config_map({"another-node": "x"})
    async with site.running() as broker:
        await good(site, broker)
        site.machine.answer(Answer.LLDP, answer)
        await site.published(lambda value: value is None)
        await broker.healthy()
        metrics = await broker.metrics()
        assert metrics['nicrails_broker_source_state{kind="rails",source="host-lldp",state="nothing"}'] == 1
        assert metrics["nicrails_broker_interfaces_without_neighbor"] > 1
        assert metrics["nicrails_broker_record_size_bytes"] == 0
        assert (await site.config_map() or {})["data"] == {"another-node": "x"}
        site.machine.heal()
        await good(site, broker)


@pytest.mark.fault("B9")
async def test_lldpctl_hangs(site: Site) -> None:
    """B9: an lldpctl that does not end is killed by the time limit and told as lldpd's fault; the record stays."""
    await site.make_config_map()
    program = site.machine.lldpctl
    working = program.read_bytes()
    async with site.running(lldp={"timeout": 0.5}) as broker:
        await good(site, broker)
        _exchange(program, b"#!/bin/sh\nsleep 60\n")
        await broker.unhealthy("discover-rails", "did not end within 0.5 s", "does lldpd answer")
        assert await site.record() == site.expected()
        _exchange(program, working)
        await good(site, broker)


def _exchange(program: Path, content: bytes) -> None:
    new = program.with_name("new")
    new.write_bytes(content)
    new.chmod(0o755)
    new.replace(program)


async def test_a_machine_without_lldpctl(site: Site) -> None:
    """B9: a missing program is told with its path."""
    await site.make_config_map()
    async with site.running(host={"lldpctl": "/nowhere/lldpctl"}) as broker:
        await broker.unhealthy("discover-rails", "can not run /nowhere/lldpctl", "in the image")
        assert await site.record() is None


async def test_a_mapping_that_is_disabled(site: Site) -> None:
    """A broker that has nothing to do is healthy and touches nothing."""
    await site.make_config_map({"x": "y"})
    before = await site.config_map()
    async with site.running(mapping={"enabled": False}) as broker:
        await broker.healthy()
    assert await site.config_map() == before


@pytest.mark.fault("F11")
async def test_a_large_answer_does_not_stop_the_event_loop(site: Site) -> None:
    """F11: hundreds of neighbours on one port, 1.5 MB of text, keep the event loop from turning for less than a second."""
    await site.make_config_map()
    lldp = json.loads(site.machine.machine.captures.lldp)
    (first, *_) = lldp["lldp"][0]["interface"]
    noise = first | {"descr": "x" * 1000}
    lldp["lldp"][0]["interface"] += [noise] * 600
    site.machine.answer(Answer.LLDP, json.dumps(lldp, indent=1).encode())
    async with site.running() as broker:
        await good(site, broker)
        assert (await broker.metrics())["nicrails_event_loop_lag_max_seconds"] < 1
