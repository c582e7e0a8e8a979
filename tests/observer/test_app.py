"""The whole observer on the embedded cluster.

What is proven here runs on any machine; ``tests/cluster/test_observer_*.py`` prove the same and more on a real
kube-apiserver.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import structlog

from nicrails.kube import controller_reference
from nicrails.service import ServiceError
from nicrails_faker.api import EmbeddedCluster
from tests.cluster.world import reference
from tests.observer.documents import record
from tests.observer.observing import CONFIG_MAP, DEPLOYMENT, quick_settings
from tests.observer.scene import Scene
from tests.support import faults
from tests.support.endpoint import ApiEndpoint
from tests.support.waiting import eventually


@pytest_asyncio.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """A scene on an embedded cluster, with a Node that stays."""
    async with EmbeddedCluster(seed=1) as cluster, Scene.on(ApiEndpoint(url=cluster.url), tmp_path) as scene:
        await scene.node("other")
        yield scene


async def test_a_node_and_its_record(scene: Scene) -> None:
    """A deleted Node's record goes, a replaced Node's old record goes, every other byte stays, and health follows."""
    async with scene.observer() as observer:
        assert (await observer.get("/readyz"))[0] == 200
        records = await scene.published(["kept", "gone", "replaced"])
        kept, gone, replaced = records
        await scene.world.delete_node(gone)
        await scene.world.delete_node(replaced)
        made = await scene.world.node(replaced)
        new = {replaced: record(made["metadata"]["uid"])}
        await scene.publish(new)
        await scene.until_records({kept: records[kept]} | new)
        await observer.until_metric("configmap_records", 2)
        assert await observer.metric("nodes") == 3
        await observer.until_healthy()


async def test_a_downtime_is_made_up_for(scene: Scene) -> None:
    """What happened while no observer ran is repaired after the first complete list."""
    async with scene.observer():
        records = await scene.published(["kept", "gone", "replaced"])
    kept, gone, replaced = records
    await scene.world.delete_node(gone)
    await scene.world.delete_node(replaced)
    await scene.world.node(replaced)
    async with scene.observer():
        await scene.until_records({kept: records[kept]})


async def test_a_foreign_configmap_is_refused(scene: Scene) -> None:
    """A foreign object stays as it is, makes the observer unhealthy, and is no obstacle once it is gone."""
    other = await scene.world.deployment("other")
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "ownerReferences": [reference("apps/v1", "Deployment", other)]},
        "data": {"gone": record("x")},
    }
    foreign = await scene.world.api.create(scene.world.path("configmaps"), body)
    async with scene.observer(healthy=False) as observer:
        await observer.until_unhealthy("configmap", "ownership", "controlled by Deployment other")
        assert (await observer.get("/readyz"))[0] == 503
        assert await scene.object() == foreign
        await scene.world.api.delete(scene.config_map)
        await observer.until_healthy()
        assert {seen.method for seen in scene.proxy.seen} == {"GET", "POST"}


async def test_a_new_deployment_gets_a_new_configmap(scene: Scene) -> None:
    """The ConfigMap of a former Deployment is collected by the cluster, and the observer makes another."""
    async with scene.observer() as observer:
        await scene.published(["a"])
        await scene.world.api.delete(scene.deployment)
        await scene.world.deployment()
        uid = await scene.deployment_uid()

        async def replaced() -> bool:
            found = await scene.object()
            assert found is not None
            return bool(found["metadata"]["ownerReferences"] == [controller_reference(DEPLOYMENT, uid)])

        await eventually(replaced, within=30, what="the ConfigMap is the new Deployment's")
        await observer.until_healthy()
        assert await scene.records() == {}


async def test_a_mass_removal_takes_few_patches(scene: Scene) -> None:
    """Hundreds of records of absent Nodes go in few patches, after the brake has had its second confirmation."""
    async with scene.observer():
        kept = await scene.published(["kept"])
    await scene.publish({f"mass-{number}": record(f"uid-{number}") for number in range(400)})
    async with scene.observer() as observer:
        await scene.until_records(kept)
        assert len(scene.proxy.requests("PATCH")) == 1
        assert await observer.metric("brake_engagements_total") == 1


@pytest.mark.fault("O17")
async def test_a_configmap_that_fills_up_is_logged(scene: Scene) -> None:
    """O17: 80 % of the limit is a warning and 95 % an error in the log, each once."""
    limit = 1024 * 1024
    with structlog.testing.capture_logs() as logs:
        async with scene.observer() as observer:
            for share in (0.5, 0.81, 0.82, 0.96, 0.97):
                await scene.publish({"FILLER": "x" * int(share * limit)})
                await observer.until_metric("configmap_bytes", int(share * limit))
    told = [(event["log_level"], event["bytes"]) for event in logs if event["event"] == "configmap-nearly-full"]
    assert told == [("warning", int(0.81 * limit)), ("error", int(0.96 * limit))]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"{}",
        b'{"metadata":null,"items":7}',
        b'{"metadata":{"resourceVersion":"1"},"items":[{}]}',
        b'{"metadata":{"name":"x","uid":"y","ownerReferences":"z"},"data":[]}',
        b"{" * 5000,
    ],
)
async def test_no_answer_ends_the_observer(scene: Scene, body: bytes) -> None:
    """Whatever an intermediary answers, the observer lives, says so, and goes on when the API server is back."""
    async with scene.observer() as observer:
        records = await scene.published(["a", "b"])
        with scene.proxy.rule(faults.answer(200, body, {"Content-Type": "application/json"})) as rule:
            scene.proxy.cut_all()
            await observer.until_unhealthy("nodes")
            await eventually(lambda: rule.used >= 4, within=20, what="several requests are answered so")
            assert not observer.task.done()
        gone = next(iter(records))
        await scene.world.delete_node(gone)
        del records[gone]
        await scene.until_records(records)
        await observer.until_healthy()


@pytest.mark.parametrize("data", [{"a": 1}, {"a": None}, [1], "x"])
async def test_records_that_are_no_strings_are_no_records(scene: Scene, data: object) -> None:
    """A ConfigMap that no API server would give is not collected, and the observer lives on."""

    def spoil(document: dict[str, object]) -> None:
        document["data"] = data

    async with scene.observer() as observer:
        records = await scene.published(["a"])
        with scene.proxy.rule(faults.edited(spoil), method="GET", path=CONFIG_MAP):
            await scene.publish({"gone": record("x")})
            await observer.until_unhealthy("garbage-collection", "read-records", "does not map to strings")
            assert scene.proxy.requests("PATCH") == []
        await scene.until_records(records)
        await observer.until_healthy()


async def test_disabled_it_asks_for_nothing(scene: Scene) -> None:
    """With ``enabled: false`` the observer is healthy and leaves the API server alone."""
    async with scene.observer(settings=quick_settings(enabled=False)) as observer:
        assert await observer.health() == (200, {"status": "healthy", "duties": {}})
        assert scene.proxy.seen == []


async def test_a_busy_port_is_an_error(scene: Scene) -> None:
    """A port that is taken ends the service with the sentence that names it."""
    async with scene.observer() as first:
        assert first.app.bound is not None
        taken = quick_settings(port=first.app.bound[1])
        with pytest.raises(ServiceError, match=f"port {first.app.bound[1]}"):
            async with scene.observer(settings=taken):
                pass


async def test_stopping_is_told_at_once(scene: Scene) -> None:
    """From the signal on the health report says that the service stops, whatever its duties say."""
    async with scene.observer() as observer:
        observer.stop.set()
        async with asyncio.timeout(5):
            await observer.task
        assert observer.app.health.report()["step"] == "stop"
        assert not observer.app.health.healthy
