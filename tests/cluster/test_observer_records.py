"""Garbage collection on a real API server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web

from nicrails.settings import Duration
from nicrails_observer.settings import BrakeSettings
from tests.cluster.controlplane import ControlPlane
from tests.observer.documents import record
from tests.observer.observing import quick_settings
from tests.observer.scene import Scene
from tests.support import faults
from tests.support.proxy import Exchange, Rule
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs("control-plane")


@pytest_asyncio.fixture
async def scene(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Scene]:
    """A scene on the real API server."""
    async with Scene.on(control_plane.endpoint, tmp_path) as scene:
        yield scene


async def test_the_record_of_a_deleted_node_goes(scene: Scene) -> None:
    """A deletion that the watch shows takes the Node's record along, and no other record."""
    async with scene.observer() as observer:
        records = await scene.published(["a", "b", "c"])
        gone = next(iter(records))
        await scene.world.delete_node(gone)
        del records[gone]
        await scene.until_records(records)
        await observer.until_metric("removals_total", 1, reason="node-gone")
        assert await observer.metric("patches_total", outcome="done") == 1
        await observer.until_healthy()


async def test_the_last_record_goes_and_publishing_goes_on(scene: Scene) -> None:
    """The last key may be removed: the ConfigMap stays, without data, and takes new records."""
    await scene.node("other")
    async with scene.observer() as observer:
        (name,) = await scene.published(["a"])
        await scene.world.delete_node(name)
        await scene.until_records({})
        records = await scene.published(["b"])
        await observer.until_metric("configmap_records", 1)
        await scene.until_records(records)


@pytest.mark.fault("O7")
async def test_what_happened_during_downtime_is_repaired(scene: Scene) -> None:
    """O7: Nodes that went or were replaced while no observer ran lose their records after the first complete list."""
    async with scene.observer():
        records = await scene.published(["kept", "gone", "replaced"])
    kept, gone, replaced = records
    await scene.world.delete_node(gone)
    await scene.world.delete_node(replaced)
    await scene.world.node(replaced)
    assert await scene.records() == records
    async with scene.observer() as observer:
        await scene.until_records({kept: records[kept]})
        await observer.until_metric("removals_total", 1, reason="node-gone")
        assert await observer.metric("removals_total", reason="node-gone") == 1
        await observer.until_metric("removals_total", 1, reason="node-replaced")
        assert await observer.metric("removals_total", reason="node-replaced") == 1
        await observer.until_healthy()


@pytest.mark.fault("O8")
@pytest.mark.timeout(120)
async def test_new_records_survive_200_of_200_races(scene: Scene) -> None:
    """O8: a Node that is deleted and made anew under its name keeps its new record, whenever that is published."""
    rng = random.Random(8)
    await scene.node("other")
    async with scene.observer() as observer:
        old = await scene.published(f"race-{number}" for number in range(200))
        new: dict[str, str] = {}
        gate = asyncio.Semaphore(8)

        async def race(name: str) -> None:
            async with gate:
                await scene.world.delete_node(name)
                await asyncio.sleep(rng.uniform(0, 0.05))
                made = await scene.world.node(name)
                await asyncio.sleep(rng.uniform(0, 0.15))
                new[name] = record(made["metadata"]["uid"])
                await scene.publish({name: new[name]})

        async with asyncio.TaskGroup() as group:
            for name in old:
                group.create_task(race(name))
        await scene.until_records(new)
        # Nothing is left to be removed, and nothing is removed later on.
        await scene.publish({"LOOK_AGAIN": ""})
        await observer.until_metric("unreadable_records", 1, problem="not-a-node-name")
        assert await scene.records() == new | {"LOOK_AGAIN": ""}
        await observer.until_healthy()


@pytest.mark.fault("O8")
async def test_a_record_published_just_before_the_patch_survives(scene: Scene) -> None:
    """O8: where the new record comes between the observer's reading and its patch, the exact test refuses the patch."""
    await scene.node("other")
    async with scene.observer() as observer:
        records = await scene.published(["a", "b"])
        replaced, gone = records
        go = asyncio.Event()
        with scene.proxy.rule(faults.held(go), method="PATCH", times=1) as rule:
            for name in records:
                await scene.world.delete_node(name)
            made = await scene.world.node(replaced)
            await eventually(lambda: rule.used, within=20, what="the patch is under way")
            new = record(made["metadata"]["uid"])
            await scene.publish({replaced: new})
            go.set()
            await scene.until_records({replaced: new})
        assert gone not in await scene.records()
        await observer.until_metric("refused_removals_total", 1)
        assert await observer.metric("refused_removals_total") == 1
        await observer.until_healthy()


@pytest.mark.fault("O9")
async def test_what_can_not_be_read_goes_only_with_its_node(scene: Scene) -> None:
    """O9: unreadable records of live Nodes are kept and told, those of absent Nodes go, foreign keys stay."""
    live = [await scene.node(f"live-{number}") for number in range(4)]
    names = [name for name, _ in live]
    kept = {
        names[0]: "{",
        names[1]: live[1][1].replace("v1alpha1", "v2"),
        names[2]: '{"schemaVersion":"v1alpha1","nics":{},"gpus":{},"railSource":"x"}',
        names[3]: live[3][1],
        "NOT_A_NODE": "somebody's own",
    }
    absent = {scene.world.unique("absent-1"): "", scene.world.unique("absent-2"): record("x").replace("v1alpha1", "v2")}
    async with scene.observer() as observer:
        await scene.publish(kept | absent)
        await scene.until_records(kept)
        await observer.until_metric("unreadable_records", 2, problem="malformed")
        assert await observer.metric("unreadable_records", problem="unknown-version") == 1
        assert await observer.metric("unreadable_records", problem="not-a-node-name") == 1
        await observer.until_healthy()
        await scene.publish({names[0]: live[0][1], names[1]: live[1][1], names[2]: live[2][1], "NOT_A_NODE": None})
        for problem in ("malformed", "unknown-version", "not-a-node-name"):

            async def none(problem: str = problem) -> bool:
                return await observer.metric("unreadable_records", problem=problem) == 0

            await eventually(none, within=20, what=f"no {problem} record is told any more")
        await scene.until_records(dict(live))


@pytest.mark.fault("O14")
async def test_a_refused_batch_loses_only_what_has_changed(scene: Scene) -> None:
    """O14: one changed record refuses the whole patch; the other records go all the same, in the next one."""
    await scene.node("other")
    async with scene.observer() as observer:
        records = await scene.published(f"n-{number}" for number in range(5))
        changed = next(iter(records))
        go = asyncio.Event()
        with scene.proxy.rule(faults.held(go), method="PATCH", times=1) as rule:
            for name in records:
                await scene.world.delete_node(name)
            await eventually(lambda: rule.used, within=20, what="the patch is under way")
            await scene.publish({changed: "somebody published late"})
            go.set()
            # The late record is of an absent Node, too, so a further look removes it.
            await scene.until_records({})
        await observer.until_metric("refused_removals_total", 1)
        assert await observer.metric("refused_removals_total") >= 1
        await observer.until_metric("removals_total", 5, reason="node-gone")
        assert await observer.metric("removals_total", reason="node-gone") == 5
        await observer.until_healthy()


@pytest.mark.fault("O16")
@pytest.mark.timeout(180)
async def test_a_thousand_nodes_gone_at_once_cost_few_patches(scene: Scene) -> None:
    """O16: 1,000 deletions that a running observer watches cost at most 5 patches, with the brake in between."""
    await scene.node("other")
    async with scene.observer() as observer:
        names = [scene.world.unique(f"mass-{number}") for number in range(1000)]
        records = await _many(scene, names)
        await scene.publish(records)
        await observer.until_metric("configmap_records", 1000)
        before = len(scene.proxy.requests("PATCH"))
        await scene.world.api.ask("DELETE", f"/api/v1/nodes?labelSelector=mass%3D{scene.world.namespace}")
        await scene.until_records({}, within=60)
        assert len(scene.proxy.requests("PATCH")) - before <= 5
        await observer.until_metric("removals_total", 1000, reason="node-gone")
        assert await observer.metric("removals_total", reason="node-gone") == 1000
        await observer.until_metric("brake_engagements_total", 1)
        assert await observer.metric("brake_engagements_total") >= 1
        await observer.until_healthy()
        assert await observer.metric("brake_engaged") == 0


@pytest.mark.fault("O16")
@pytest.mark.timeout(180)
async def test_a_thousand_nodes_gone_during_downtime_cost_few_patches(scene: Scene) -> None:
    """O16: the same after a downtime: the first complete list leads to at most 5 patches."""
    await scene.node("other")
    async with scene.observer():
        pass
    await scene.publish({f"mass-{number}": record(f"uid-{number}") for number in range(1000)})
    async with scene.observer() as observer:
        await scene.until_records({}, within=60)
        assert len(scene.proxy.requests("PATCH")) <= 5
        await observer.until_metric("removals_total", 1000, reason="node-gone")
        assert await observer.metric("removals_total", reason="node-gone") == 1000


@pytest.mark.fault("O10")
@pytest.mark.parametrize("part", [0.0, 0.3])
async def test_a_list_that_hides_nodes_removes_nothing(scene: Scene, part: float) -> None:
    """O10: an empty or partial list, as by a wrong authorizer, is found out by reads by name; all records stay."""
    async with scene.observer():
        records = await scene.published(f"n-{number}" for number in range(30))

    def hide(document: dict[str, object]) -> None:
        items = document["items"]
        assert isinstance(items, list)
        del items[int(len(items) * part) :]
        metadata = document["metadata"]
        assert isinstance(metadata, dict)
        metadata.pop("continue", None)

    hiding = Rule(faults.edited(hide), method="GET", path="^/api/v1/nodes$", watch=False)
    scene.proxy.rules.append(hiding)
    async with scene.observer(healthy=False) as observer:
        said = await observer.until_unhealthy("garbage-collection", "Nodes exist as their records say")
        assert "a proxy or an authorizer" in said["reason"]
        assert await scene.records() == records
        assert await observer.metric("contradictions_total") > 0
        assert scene.proxy.requests("PATCH") == []
        scene.proxy.rules.remove(hiding)
        await observer.until_healthy(within=40)
        assert await scene.records() == records
        assert await observer.metric("removals_total", reason="node-gone") == 0


@pytest.mark.fault("O10")
async def test_a_node_list_that_is_empty_for_a_moment_removes_nothing(scene: Scene) -> None:
    """O10: one wrong, empty list, and a watch that goes on from it, take no record: live reads overrule the view."""
    async with scene.observer():
        records = await scene.published(["a", "b", "c"])

    def empty(document: dict[str, object]) -> None:
        document["items"] = []

    with scene.proxy.rule(faults.edited(empty), method="GET", path="^/api/v1/nodes$", watch=False, times=1):
        async with scene.observer() as observer:
            await observer.until_metric("contradictions_total", 3)
            # Three looks in a row doubt the view; then the Nodes are listed anew and the view is right again.
            await observer.until_metric("node_lists_total", 2)

            async def at_rest() -> bool:
                return await observer.metric("nodes") >= 3

            await eventually(at_rest, within=20, what="the view is right again")
            assert await scene.records() == records
            assert scene.proxy.requests("PATCH") == []
            await observer.until_healthy()


@pytest.mark.fault("O10")
@pytest.mark.parametrize("page", ["first", "second"])
async def test_without_a_complete_list_nothing_is_removed(scene: Scene, page: str) -> None:
    """O10: until all pages of a list were read absence means nothing, also for a record whose Node is gone indeed."""
    for number in range(60):
        await scene.node(f"page-{number}")
    async with scene.observer():
        kept = await scene.published(["kept"])
    stale = {"gone": record("x")}
    await scene.publish(stale)

    async def fail(exchange: Exchange) -> web.StreamResponse:
        if page == "second" and "continue" not in exchange.seen.query:
            return await exchange.forward()
        return await faults.html(503)(exchange)

    failing = Rule(fail, method="GET", path="^/api/v1/nodes$", watch=False)
    scene.proxy.rules.append(failing)
    async with scene.observer(healthy=False) as observer:
        await observer.until_unhealthy("nodes", "503")
        await observer.until_unhealthy("garbage-collection", "waits for the first complete list")
        await eventually(lambda: failing.used >= 2, within=20, what="the list is tried again")
        assert await scene.records() == kept | stale
        assert scene.proxy.requests("PATCH") == []
        scene.proxy.rules.remove(failing)
        await scene.until_records(kept, within=40)
        await observer.until_healthy(within=40)


@pytest.mark.fault("O8")
async def test_a_node_that_the_watch_has_missed_keeps_its_record(scene: Scene) -> None:
    """O8: where the watch lacks a Node that a read by name finds, its record stays, and the Nodes are listed anew."""
    await scene.node("other")
    missed = scene.world.unique("missed")

    async def lose(line: bytes) -> AsyncIterator[bytes]:
        if missed.encode() not in line:
            yield line

    with scene.proxy.rule(faults.lines(lose), path="^/api/v1/nodes$", watch=True, times=1):
        async with scene.observer() as observer:
            records = await scene.published(["missed", "seen"])
            await observer.until_metric("contradictions_total", 1)
            await observer.until_metric("node_lists_total", 2)
            nodes = await observer.metric("nodes")
            assert nodes >= 3
            assert await scene.records() == records
            assert scene.proxy.requests("PATCH") == []
            await observer.until_healthy()
            await scene.world.delete_node(missed)
            del records[missed]
            await scene.until_records(records)


@pytest.mark.fault("O10")
async def test_the_brake_waits_for_its_confirmation(scene: Scene) -> None:
    """O10: a removal of most records waits for the second list, which the metrics show, and is then done."""
    await scene.node("other")
    async with scene.observer():
        records = await scene.published(f"n-{number}" for number in range(12))
    for name in records:
        await scene.world.delete_node(name)
    settings = quick_settings(brake=BrakeSettings(delay=Duration(1.5)))
    async with scene.observer(healthy=False, settings=settings) as observer:
        await observer.until_metric("brake_engaged", 1)
        assert await scene.records() == records
        await scene.until_records({})
        await observer.until_healthy()
        assert await observer.metric("brake_engaged") == 0
        await observer.until_metric("brake_engagements_total", 1)
        assert await observer.metric("brake_engagements_total") == 1
        assert await observer.metric("brake_refusals_total") == 0


@pytest.mark.fault("O17")
async def test_the_size_of_the_configmap_is_told(scene: Scene) -> None:
    """O17: bytes and headroom are exact; above 80 and 95 % of 1 MiB the log says so before brokers fail."""
    name, document = await scene.node("a")
    async with scene.observer() as observer:
        for share in (0.5, 0.85, 0.97):
            size = int(share * 1024 * 1024)
            records = {name: document, "FILLER": "x" * (size - len(document))}
            await scene.publish(records)
            await observer.until_metric("configmap_bytes", size)
            assert await observer.metric("configmap_headroom_bytes") == 1024 * 1024 - size
        await scene.publish({"FILLER": None})

        async def small() -> bool:
            return await observer.metric("configmap_bytes") == len(document)

        await eventually(small, within=20, what="the metric follows downwards")
        await observer.until_healthy()


async def _many(scene: Scene, names: list[str]) -> dict[str, str]:
    """Many Nodes with a label of their own; returns their records."""
    records: dict[str, str] = {}
    waiting = iter(names)

    async def make() -> None:
        for name in waiting:
            made = await scene.world.node(name, labels={"mass": scene.world.namespace})
            records[name] = record(made["metadata"]["uid"])

    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(make())
    return records
