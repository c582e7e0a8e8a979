"""Whose the ConfigMap is, on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from nicrails.kube import controller_reference
from tests.cluster.controlplane import ControlPlane
from tests.cluster.fixtures import StartControlPlane
from tests.cluster.world import reference
from tests.observer.documents import record
from tests.observer.observing import CONFIG_MAP, DEPLOYMENT, Observing
from tests.observer.scene import Scene
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs("control-plane")

STALE = {"gone-for-good": record("no-such-uid")}


@pytest_asyncio.fixture
async def scene(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Scene]:
    """A scene on the real API server."""
    async with Scene.on(control_plane.endpoint, tmp_path) as scene:
        yield scene


def _config_map(references: list[dict[str, Any]], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "ownerReferences": references} | metadata,
        "data": STALE,
    }


async def _until_owned(
    scene: Scene, observer: Observing, *, by: str | None = None, within: float = 30
) -> dict[str, Any]:
    """Wait until the ConfigMap is the present Deployment's, and the observer healthy."""
    uid = by or await scene.deployment_uid()

    async def owned() -> dict[str, Any]:
        found = await scene.object()
        assert found is not None
        assert found["metadata"]["ownerReferences"] == [controller_reference(DEPLOYMENT, uid)]
        assert "deletionTimestamp" not in found["metadata"]
        return found

    found: dict[str, Any] = await eventually(owned, within=within, what="the ConfigMap is the Deployment's")
    await observer.until_healthy()
    return found


async def test_creates_the_configmap(scene: Scene) -> None:
    """The ConfigMap is made empty, labelled, and controlled by the Deployment without blocking its deletion."""
    async with scene.observer() as observer:
        found = await _until_owned(scene, observer)
        assert "data" not in found
        assert found["metadata"]["labels"] == {
            "app.kubernetes.io/managed-by": "nicrails-observer",
            "app.kubernetes.io/part-of": "nicrails",
        }
        assert await observer.metric("configmap_owned") == 1
        assert await observer.metric("configmap_creations_total") == 1


@pytest.mark.fault("O1")
@pytest.mark.parametrize("whose", ["nobody's", "another Deployment's", "not controlled"])
async def test_a_foreign_configmap_is_refused(scene: Scene, whose: str) -> None:
    """O1: an object of the name that is not ours stays byte for byte as it is, and is taken over by nobody."""
    other = await scene.world.deployment("other")
    own = await scene.world.api.get(scene.deployment)
    references = {
        "nobody's": [],
        "another Deployment's": [reference("apps/v1", "Deployment", other)],
        "not controlled": [reference("apps/v1", "Deployment", own) | {"controller": False}],
    }[whose]
    foreign = await scene.world.api.create(scene.world.path("configmaps"), _config_map(references))
    async with scene.observer(healthy=False) as observer:
        said = await observer.until_unhealthy("configmap", "ownership", f"not by Deployment {DEPLOYMENT}")
        assert "configMapName" in said["reason"]
        await observer.until_unhealthy("garbage-collection", "waits until the ConfigMap is")
        await observer.until_metric("nodes", 0)
        looks = len(scene.proxy.requests("GET", CONFIG_MAP))

        async def looked_again() -> bool:
            return len(scene.proxy.requests("GET", CONFIG_MAP)) > looks

        await eventually(looked_again, within=20, what="the observer looks again")
        assert await scene.object() == foreign
        assert {seen.method for seen in scene.proxy.seen} == {"GET"}
        assert await observer.metric("configmap_owned") == 0
        await scene.world.api.delete(scene.config_map)
        found = await _until_owned(scene, observer)
        assert found["metadata"]["uid"] != foreign["metadata"]["uid"]


@pytest.mark.fault("O1")
async def test_a_configmap_that_becomes_foreign_is_left_alone(scene: Scene) -> None:
    """O1: an object that is replaced by a foreign one under a running observer is not collected any more."""
    async with scene.observer() as observer:
        await scene.world.api.delete(scene.config_map)
        other = await scene.world.deployment("other")
        body = _config_map([reference("apps/v1", "Deployment", other)])

        async def placed() -> bool:
            answer = await scene.world.api.ask("POST", scene.world.path("configmaps"), body)
            if answer.status == 409:
                await scene.world.api.delete(scene.config_map)
            return answer.status == 201

        await eventually(placed, within=20, what="the foreign object is there before the observer's")
        foreign = await scene.object()
        await observer.until_unhealthy("configmap", "controlled by Deployment other")
        assert await scene.object() == foreign
        assert scene.proxy.requests("PATCH") == []
        await scene.world.api.delete(scene.config_map)
        await _until_owned(scene, observer)


@pytest.mark.fault("O2")
@pytest.mark.needs("garbage-collector")
@pytest.mark.parametrize("running", [True, False])
async def test_a_former_deployments_configmap_is_waited_for(scene: Scene, *, running: bool) -> None:
    """O2: after the Deployment was made anew Kubernetes collects the old ConfigMap, and the observer makes another."""
    async with scene.observer() as first:
        old = await _until_owned(scene, first)
        if not running:
            first.stop.set()
            await first.task
        await scene.world.api.delete(scene.deployment)
        await scene.world.deployment()
        async with contextlib.AsyncExitStack() as stack:
            observer = first if running else await stack.enter_async_context(scene.observer())
            found = await _until_owned(scene, observer)
    assert found["metadata"]["uid"] != old["metadata"]["uid"]
    assert not scene.proxy.requests("DELETE")
    assert not scene.proxy.requests("PATCH")


@pytest.mark.fault("O2")
@pytest.mark.fault("O6")
async def test_without_a_garbage_collector_nothing_dying_is_touched(
    start_control_plane: StartControlPlane, tmp_path: Path
) -> None:
    """O2, O6: a dying ConfigMap is left as it is until it is gone, and a terminating namespace is left in peace."""
    plane = await asyncio.to_thread(start_control_plane, controllers=())
    async with Scene.on(plane.endpoint, tmp_path) as scene:
        async with scene.observer() as observer:
            await _until_owned(scene, observer)
            await scene.publish(STALE)
            await scene.until_records({})
            patches = len(scene.proxy.requests("PATCH"))
            await scene.world.api.delete(scene.deployment)
            await observer.until_unhealthy("configmap", "ownership", "does not exist any more")
            await scene.world.deployment()
            await observer.until_unhealthy("configmap", "ownership", "a former Deployment")
            await scene.publish(STALE)
            dying = await scene.object()
            await observer.until_unhealthy("garbage-collection", "waits until the ConfigMap is")
            assert await scene.object() == dying
            assert len(scene.proxy.requests("PATCH")) == patches
            await scene.world.api.delete(scene.config_map)
            await _until_owned(scene, observer)

            creations = len(scene.proxy.requests("POST"))
            await scene.world.api.delete(f"/api/v1/namespaces/{scene.world.namespace}")
            await observer.until_healthy()
            await scene.world.api.delete(scene.config_map)
            await observer.until_unhealthy("configmap", "namespace", "is being deleted")
            failures = await observer.metric("failures_total", duty="configmap")
            await observer.until_unhealthy("garbage-collection", "waits until the ConfigMap is")
            assert len(scene.proxy.requests("POST")) == creations + 1
            assert await observer.metric("failures_total", duty="configmap") == failures


@pytest.mark.fault("O3")
@pytest.mark.fault("O15")
async def test_observers_that_start_together_make_one_configmap(scene: Scene) -> None:
    """O3, O15: of several observers one creates, the others take what is there, and all are healthy."""
    async with (
        scene.observer(healthy=False, seed=1) as first,
        scene.observer(healthy=False, seed=2) as second,
        scene.observer(healthy=False, seed=3) as third,
    ):
        observers = (first, second, third)
        for observer in observers:
            await _until_owned(scene, observer)
        assert sum([await observer.metric("configmap_creations_total") for observer in observers]) == 1


@pytest.mark.fault("O15")
async def test_two_observers_at_once_do_no_harm(scene: Scene) -> None:
    """O15: each stale record is removed once, by either of two observers, and every other record stands."""
    await scene.node("other")
    async with scene.observer(seed=1) as first, scene.observer(seed=2) as second:
        records = await scene.published(f"n-{number}" for number in range(60))
        gone = list(records)[::2]
        for name in gone:
            await scene.world.delete_node(name)
            del records[name]
        await scene.until_records(records)
        for observer in (first, second):
            await observer.until_healthy()
        removed = [await observer.metric("removals_total", reason="node-gone") for observer in (first, second)]
        assert sum(removed) == len(gone)
        assert await scene.records() == records


@pytest.mark.fault("O4")
async def test_a_configmap_deleted_by_hand_is_made_again(scene: Scene) -> None:
    """O4: a ConfigMap that a person deletes is there again, empty, and collection goes on in it."""
    await scene.node("other")
    async with scene.observer() as observer:
        old = await _until_owned(scene, observer)
        records = await scene.published(["a", "b"])
        await scene.world.api.delete(scene.config_map)
        found = await _until_owned(scene, observer)
        assert found["metadata"]["uid"] != old["metadata"]["uid"]
        assert "data" not in found
        await scene.publish(records)
        gone = next(iter(records))
        await scene.world.delete_node(gone)
        del records[gone]
        await scene.until_records(records)
        assert await observer.metric("configmap_creations_total") == 2


@pytest.mark.fault("O4")
async def test_a_configmap_held_by_a_finalizer_is_waited_for(scene: Scene) -> None:
    """O4: while a deleted ConfigMap is held by a finalizer it is left alone, and the finalizer is named."""
    async with scene.observer() as observer:
        finalizer = {"metadata": {"finalizers": ["example.com/hold"]}}
        await scene.world.api.merge_patch(scene.config_map, finalizer)
        await scene.world.api.delete(scene.config_map)
        await observer.until_unhealthy("configmap", "ownership", "is being deleted", "example.com/hold")
        held = await scene.object()
        await observer.until_unhealthy("garbage-collection", "waits until the ConfigMap is")
        assert await scene.object() == held
        await scene.world.api.merge_patch(scene.config_map, {"metadata": {"finalizers": None}})
        await _until_owned(scene, observer)


@pytest.mark.fault("O5")
async def test_nothing_is_made_for_a_dying_deployment(scene: Scene) -> None:
    """O5: while the Deployment is being deleted no ConfigMap is made; for its successor one is."""
    await scene.world.api.merge_patch(scene.deployment, {"metadata": {"finalizers": ["example.com/hold"]}})
    await scene.world.api.delete(scene.deployment)
    async with scene.observer(healthy=False) as observer:
        await observer.until_unhealthy("configmap", "ownership", f"Deployment {DEPLOYMENT} is being deleted")
        assert await scene.object() is None
        assert scene.proxy.requests("POST") == []
        await scene.world.api.merge_patch(scene.deployment, {"metadata": {"finalizers": None}})
        await observer.until_unhealthy("configmap", "ownership", "set DEPLOYMENT_NAME")
        await scene.world.deployment()
        await _until_owned(scene, observer)


async def test_an_immutable_configmap_is_told(scene: Scene) -> None:
    """A ConfigMap that somebody made immutable can not be collected; the API server's own words say so."""
    await scene.node("other")
    async with scene.observer() as observer:
        (name,) = records = await scene.published(["a"])
        await scene.world.api.merge_patch(scene.config_map, {"immutable": True})
        await scene.world.delete_node(name)
        await observer.until_unhealthy("garbage-collection", "remove", "immutable")
        assert await scene.records() == records
        await scene.world.api.delete(scene.config_map)
        await _until_owned(scene, observer)
