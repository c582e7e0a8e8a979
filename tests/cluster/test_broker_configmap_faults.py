"""Faults of the shared ConfigMap, as the broker lives through them.

Each scenario checks what health says, what stands in the ConfigMap byte by byte, and that the broker recovers by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.broker.site import CONFIG_MAP, OBSERVER, Site, cpu_site, good
from tests.cluster.controlplane import ControlPlane
from tests.cluster.world import World, reference
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs("control-plane")


@pytest_asyncio.fixture
async def site(control_plane: ControlPlane, world: World, tmp_path: Path) -> Site:
    """A Node with rails and without GPUs; the ConfigMap is the scenario's business."""
    return await cpu_site(control_plane, world, tmp_path)


@pytest.mark.fault("B1")
async def test_the_observer_comes_later(site: Site) -> None:
    """B1: without the ConfigMap the broker keeps trying, names the observer, and never makes one."""
    async with site.running() as broker:
        await broker.unhealthy("publish", f"{CONFIG_MAP} does not exist", f"Deployment {OBSERVER}")
        metrics = await broker.metrics()
        assert metrics['nicrails_broker_publications_total{result="failed"}'] >= 1
        assert await site.config_map() is None
        await site.make_config_map()
        await good(site, broker)


@pytest.mark.parametrize("data", [None, {}], ids=["absent", "empty"])
@pytest.mark.fault("B2")
async def test_a_config_map_without_data(site: Site, data: dict[str, str] | None) -> None:
    """B2: the first record gets into a ConfigMap that has no data at all."""
    await site.make_config_map(data)
    async with site.running() as broker:
        await good(site, broker)
    assert (await site.config_map() or {})["data"] == {site.name: site.expected().decode()}


async def freeze(site: Site) -> None:
    """Somebody makes it immutable."""
    await site.world.api.merge_patch(site.path, {"immutable": True})


async def fill(site: Site) -> None:
    """Other records leave no room."""
    await site.world.api.merge_patch(site.path, {"data": {"full": "x" * (1048576 - len(site.expected()))}})


async def empty(site: Site) -> None:
    """The others go."""
    await site.world.api.merge_patch(site.path, {"data": {"full": None}})


async def replace(site: Site) -> None:
    """Somebody deletes it and the observer makes it anew."""
    await site.world.api.delete(site.path)

    async def gone() -> bool:
        return await site.config_map() is None

    await eventually(gone, within=20, what="the ConfigMap is gone")
    await site.make_config_map()


@pytest.mark.parametrize(
    ("fault", "cure", "fragments"),
    [
        (
            freeze,
            replace,
            ["field is immutable when `immutable` is set", "delete it, and the observer makes a new one"],
        ),
        (fill, empty, ["Too long: may not be more than 1048576 bytes", "pass 1 MiB"]),
    ],
    ids=["immutable", "full"],
)
@pytest.mark.fault("B3")
async def test_a_config_map_that_refuses_for_good(
    site: Site, fault: Callable[[Site], Any], cure: Callable[[Site], Any], fragments: list[str]
) -> None:
    """B3: a permanent refusal is told with the server's reason, the previous record stays, and tries become rare."""
    await site.make_config_map({site.name: "the previous value", "another-node": "x"})
    await fault(site)
    before = await site.config_map()
    async with site.running() as broker:
        await broker.unhealthy("publish", *fragments)
        assert await site.config_map() == before
        assert (await broker.metrics())['nicrails_broker_failures_total{duty="rails-record",step="publish"}'] <= 3
        await cure(site)
        await good(site, broker)


@pytest.mark.parametrize("refresh", [0.0, 0.25], ids=["start-only", "refreshed"])
@pytest.mark.fault("B4")
async def test_a_config_map_that_is_deleted_by_hand(site: Site, refresh: float) -> None:
    """B4: also a broker that discovers at its start only notices a deleted ConfigMap and fills the new one."""
    await site.make_config_map()
    async with site.running(mapping={"refresh_interval": refresh}) as broker:
        await good(site, broker)
        await site.world.api.delete(site.path)
        await broker.unhealthy("publish", "does not exist")
        await site.make_config_map()
        await good(site, broker)


@pytest.mark.fault("B4")
async def test_a_config_map_that_is_dying(site: Site) -> None:
    """B4: a ConfigMap that is held by a finalizer while it is deleted is not written, and its successor is."""
    await site.make_config_map({"another-node": "x"})
    await site.world.api.merge_patch(site.path, {"metadata": {"finalizers": ["example.com/hold"]}})
    await site.world.api.delete(site.path)
    async with site.running() as broker:
        await broker.unhealthy("publish", "is being deleted")
        assert (await site.config_map() or {})["data"] == {"another-node": "x"}
        await site.world.api.merge_patch(site.path, {"metadata": {"finalizers": None}})
        await broker.unhealthy("publish", "does not exist")
        await site.make_config_map()
        await good(site, broker)


@pytest.mark.fault("B4")
async def test_a_key_that_is_lost_is_healed(site: Site) -> None:
    """B4: a record that somebody removed or overwrote comes back, with one patch and without another discovery."""
    await site.make_config_map()
    async with site.running(mapping={"refresh_interval": 0.0}) as broker:
        await good(site, broker)
        for damage in (None, "overwritten"):
            await site.world.api.merge_patch(site.path, {"data": {site.name: damage}})
            await site.published()
        metrics = await broker.metrics()
    assert metrics['nicrails_broker_publications_total{result="repeated"}'] == 2
    assert metrics['nicrails_broker_publications_total{result="written"}'] == 1


async def test_a_foreign_config_map_is_refused_and_untouched(site: Site, world: World) -> None:
    """An object of the name that somebody else controls stays byte for byte as it is; the observer's own is then filled."""
    other = await world.deployment("somebody-else")
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "ownerReferences": [reference("apps/v1", "Deployment", other)]},
        "data": {"precious": "x"},
    }
    made = await world.api.create(world.path("configmaps"), body)
    async with site.running() as broker:
        await broker.unhealthy("publish", "controlled by Deployment somebody-else", "it is left alone")
        await broker.unhealthy("publish", "delete it, or give another configMapName")
        assert await site.config_map() == made
        await world.api.delete(site.path)
        await site.make_config_map()
        await good(site, broker)
