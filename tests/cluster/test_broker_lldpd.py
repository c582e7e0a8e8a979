"""Rails and annotations from a real lldpd that has a real switch for a neighbour."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from nicrails import decode
from nicrails_broker.annotations import CHASSIS_ID
from tests.broker.site import Running, Site, chassis_provider, cpu_site
from tests.cluster.controlplane import ControlPlane
from tests.cluster.lldpd import LldpLab
from tests.cluster.world import World
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs("control-plane", "root", "lldpd")

LOOKED = 'nicrails_broker_source_last_success_timestamp_seconds{kind="rails",source="host-lldp"}'
NICS = {"eth_r0_p0": "rail0", "eth_r1_p0": "rail1"}


@pytest_asyncio.fixture
async def site(control_plane: ControlPlane, world: World, tmp_path: Path) -> Site:
    """A Node without GPUs whose sysfs has the interfaces of the lab."""
    site = await cpu_site(control_plane, world, tmp_path)
    await site.make_config_map({"another-node": "x"})
    return site


@contextlib.asynccontextmanager
async def broker_on(site: Site, lab: LldpLab, **options: Any) -> AsyncIterator[Running]:
    """The broker of the site, asking the lab's lldpd with the real lldpctl."""
    host = {"lldpctl": "lldpctl", "lldpd_socket": str(lab.host.socket)}
    async with site.running(host=host, lldp={"timeout": 2.0}, **options) as broker:
        yield broker


async def rails(site: Site, *expected: str) -> None:
    """Wait until the record has exactly these interfaces' NICs, each on its rail."""
    netdevs = site.machine.machine.netdevs
    wanted = {netdevs[name].pci: (NICS[name],) for name in expected}  # type: ignore[union-attr]  # they are PCI devices
    await site.published(lambda value: value is not None and decode(value).nics == wanted)


@pytest.mark.fault("B9")
async def test_rails_follow_the_cables(site: Site, lldp_lab: LldpLab) -> None:
    """B9: the record has the rails whose cable is in; the last cable out removes it, and a cable in brings it back."""
    async with broker_on(site, lldp_lab) as broker:
        await rails(site, "eth_r0_p0", "eth_r1_p0")
        await broker.healthy()
        await asyncio.to_thread(lldp_lab.unplug, "eth_r1_p0")
        await rails(site, "eth_r0_p0")
        idle = (await broker.metrics())["nicrails_broker_interfaces_without_neighbor"]
        await asyncio.to_thread(lldp_lab.unplug, "eth_r0_p0")
        await site.published(lambda value: value is None)
        await broker.healthy()
        assert (await broker.metrics())["nicrails_broker_interfaces_without_neighbor"] == idle + 1
        assert (await site.config_map() or {})["data"] == {"another-node": "x"}
        await asyncio.to_thread(lldp_lab.plug, "eth_r0_p0")
        await rails(site, "eth_r0_p0")


@pytest.mark.fault("B9")
async def test_lldpd_dies_and_comes_back(site: Site, lldp_lab: LldpLab) -> None:
    """B9: while lldpd is dead its socket is stale: the sentence says so, the record stays, and it heals by itself."""
    async with broker_on(site, lldp_lab) as broker:
        await rails(site, "eth_r0_p0", "eth_r1_p0")
        before = await site.record()
        await asyncio.to_thread(lldp_lab.host.lldpd.kill)
        await broker.unhealthy("discover-rails", str(lldp_lab.host.socket), "Connection refused", "stale")
        lldp_lab.host.socket.unlink()
        await broker.unhealthy("discover-rails", "No such file or directory", "does not run on the host")
        assert await site.record() == before
        # A daemon that has just started knows no neighbour, which is a successful empty answer until it does.
        await asyncio.to_thread(lldp_lab.host.start)
        await asyncio.to_thread(lldp_lab.wait_for_neighbours, list(NICS))
        await rails(site, "eth_r0_p0", "eth_r1_p0")
        await broker.healthy()


@pytest.mark.fault("B9")
async def test_lldpd_hangs(site: Site, lldp_lab: LldpLab) -> None:
    """B9: a frozen lldpd is noticed by the time limit, the record stays, and it heals by itself."""
    async with broker_on(site, lldp_lab) as broker:
        await rails(site, "eth_r0_p0", "eth_r1_p0")
        before = await site.record()
        # The process that answers is a child of the one that was started, in its process group.
        os.killpg(lldp_lab.host.lldpd.pid, signal.SIGSTOP)
        try:
            await broker.unhealthy("discover-rails", "did not end within 2 s", "does lldpd answer")
            assert await site.record() == before
        finally:
            os.killpg(lldp_lab.host.lldpd.pid, signal.SIGCONT)
        await broker.healthy()
        await rails(site, "eth_r0_p0", "eth_r1_p0")


HOSTILE = [
    'leaf","eth_r9_p0":{"rid":"1"},"x',
    'a"}]}]}]}',
    "\\",
    "\x1b[31mred",
    "eth_r1_p0",
    "${1}",
    "x" * 200,
    "é\u202e",
]


async def test_what_a_switch_calls_itself_changes_nothing(site: Site, lldp_lab: LldpLab) -> None:
    """Names that would break or forge lldpctl's output leave the record as it is, byte for byte."""
    async with broker_on(site, lldp_lab) as broker:
        await rails(site, "eth_r0_p0", "eth_r1_p0")
        before = await site.config_map()
        for name in HOSTILE:
            await asyncio.to_thread(lldp_lab.switch.configure, "system", "hostname", name)
            since = (await broker.metrics())[LOOKED]

            async def looked_twice(since: float = since) -> bool:
                status, report = await broker.health()
                assert status == 200, report
                return (await broker.metrics())[LOOKED] > since + 0.5

            await eventually(looked_twice, within=15, what=f"the broker has looked at {name!r}")
        assert await site.config_map() == before


async def annotation(site: Site) -> str | None:
    """The Node's annotation."""
    node = await site.world.api.get(f"/api/v1/nodes/{site.name}")
    value: str | None = node["metadata"].get("annotations", {}).get(CHASSIS_ID)
    return value


async def test_the_provider_annotates_the_node_with_its_switch(site: Site, lldp_lab: LldpLab) -> None:
    """The provider ``lldp`` puts the switch's chassis ID on the Node, beside rails and independent of them."""
    chassis = lldp_lab.host.show()["lldp"][0]["interface"][0]["chassis"][0]["id"][0]
    async with broker_on(site, lldp_lab, provider=chassis_provider()) as broker:
        await broker.healthy()
        assert await annotation(site) == f"{chassis['type']}:{chassis['value']}"
        await rails(site, "eth_r0_p0", "eth_r1_p0")
        assert (await broker.metrics())["nicrails_broker_annotation_writes_total"] == 1
        await site.world.api.merge_patch(
            f"/api/v1/nodes/{site.name}", {"metadata": {"annotations": {CHASSIS_ID: "mac:wrong", "other": "kept"}}}
        )

        async def corrected() -> bool:
            return await annotation(site) == f"{chassis['type']}:{chassis['value']}"

        await eventually(corrected, within=15, what="the annotation is corrected")
    node = await site.world.api.get(f"/api/v1/nodes/{site.name}")
    assert node["metadata"]["annotations"]["other"] == "kept"
