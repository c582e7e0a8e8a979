"""With the chart's permissions both programs do their whole job, and without any single one of them they do not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.chart.combinations import ANNOTATIONS, MAPPING, POLICIES
from tests.chart.helm import Helm, Json, at
from tests.chart.permissions import PROGRAMS, TABLE, Permission
from tests.chart.stage import Stage
from tests.cluster.controlplane import ControlPlane
from tests.cluster.kubelet import FakeKubelet

pytestmark = pytest.mark.needs("helm", "control-plane")

OnStage = Callable[..., contextlib.AbstractAsyncContextManager[Stage]]


@pytest.fixture
def on_stage(control_plane: ControlPlane, helm: Helm, kubelet: FakeKubelet, tmp_path: Path) -> OnStage:
    """Installs the chart."""

    def start(*values: Json, **options: Callable[[Json], None]) -> contextlib.AbstractAsyncContextManager[Stage]:
        return Stage.on(control_plane, helm, kubelet, tmp_path, *values, **options)

    return start


@contextlib.asynccontextmanager
async def both(stage: Stage) -> AsyncIterator[Json]:
    """Both programs, healthy, with their jobs done; the broker's Node."""
    node = await stage.node("a")
    async with stage.observer() as observer, stage.broker(node["metadata"]["name"]) as broker:
        await stage.observer_job()
        await stage.broker_job(node)
        await observer.healthy()
        await broker.healthy()
        yield node


@pytest.mark.parametrize("policies", [{}, POLICIES], ids=["without-policies", "with-policies"])
async def test_both_programs_do_their_whole_job(on_stage: OnStage, policies: Json) -> None:
    """With their accounts' tokens and the rendered settings, broker and observer do everything, policies or not."""
    async with on_stage(ANNOTATIONS, policies) as stage, both(stage):
        pass


async def test_without_gpus_and_annotations_less_is_enough(on_stage: OnStage) -> None:
    """Where the GPU source is off, its permissions are not there and are not missed."""
    async with on_stage(at(f"{MAPPING}.gpuSource.gpuNode", "never"), POLICIES) as stage:
        node = await stage.node("a")
        name = node["metadata"]["name"]
        async with stage.observer() as observer, stage.broker(name) as broker:
            await stage.observer_job()
            await observer.healthy()
            await broker.healthy()
            assert '"gpus":{}' in (await stage.records() or {})[name]


@pytest.mark.parametrize("permission", [item for item in TABLE if item.program in PROGRAMS], ids=str)
async def test_every_permission_is_needed(on_stage: OnStage, permission: Permission) -> None:
    """Without this permission the program never has its job done and is healthy, and its health says what it misses."""
    taken = 0

    def take(item: Json) -> None:
        nonlocal taken
        if item["kind"] not in {"Role", "ClusterRole"} or permission.program not in item["metadata"]["name"]:
            return
        for rule in item["rules"]:
            if permission.granted_by(rule):
                rule["verbs"].remove(permission.verb)
                taken += 1
        item["rules"] = [rule for rule in item["rules"] if rule["verbs"]]

    async with on_stage(ANNOTATIONS, change=take) as stage:
        assert taken == 1
        async with contextlib.AsyncExitStack() as stack:
            observer = await stack.enter_async_context(stage.observer())
            if permission.program == "observer":
                job, program = stage.observer_job(), observer
            else:
                await observer.healthy()
                node = await stage.node("a")
                program = await stack.enter_async_context(stage.broker(node["metadata"]["name"]))
                job = stage.broker_job(node)

            async def whole() -> None:
                # Refused a watch, the observer still lists now and then, so that records go late; but it says so.
                await job
                await program.healthy()

            async with asyncio.TaskGroup() as group:
                task = group.create_task(whole())
                await program.refused(permission.verb, permission.resource.partition("/")[0].rstrip("s"))
                assert not task.done(), "it does its job all the same"
                task.cancel()
