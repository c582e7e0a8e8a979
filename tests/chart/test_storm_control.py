"""Storm control on a real API server: brokers' patches go through its queue, all of them, and nothing else does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.chart import paths
from tests.chart.combinations import MAPPING
from tests.chart.helm import Helm, at
from tests.chart.stage import Stage
from tests.cluster.api import MERGE_PATCH, METADATA_ONLY, Api
from tests.cluster.controlplane import ControlPlane
from tests.cluster.kubelet import FakeKubelet
from tests.support.endpoint import ApiEndpoint
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs("helm", "control-plane")

BROKERS = 150
FLOW = "X-Kubernetes-PF-FlowSchema-UID"
PATCH = {"Content-Type": MERGE_PATCH, "Accept": METADATA_ONLY}


@pytest_asyncio.fixture
async def stage(control_plane: ControlPlane, helm: Helm, kubelet: FakeKubelet, tmp_path: Path) -> AsyncIterator[Stage]:
    """A release with storm control, and an empty ConfigMap."""
    values = at("stormControl.enabled", value=True), at(f"{MAPPING}.gpuSource.gpuNode", "never")
    async with Stage.on(control_plane, helm, kubelet, tmp_path, *values) as stage:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "topograph-nic-rails"}}
        await stage.world.api.create(stage.world.path("configmaps"), body)
        yield stage


async def test_a_storm_of_patches_is_queued(stage: Stage) -> None:
    """Hundreds of brokers that patch at the same moment all succeed at the first try, through the chart's FlowSchema."""
    world = stage.world
    schema = await world.api.get(paths.path(stage.objects.one("FlowSchema")))
    endpoint = stage.plane.endpoint
    token = await stage.token(None)
    async with Api.on(ApiEndpoint(url=endpoint.url, ca_file=endpoint.ca_file, token=token)) as broker:

        async def in_force() -> bool:
            answer = await broker.ask("PATCH", stage.config_map, {"data": {"first": "x"}}, headers=PATCH)
            return bool(answer.headers[FLOW] == schema["metadata"]["uid"])

        await eventually(in_force, within=20, what="the FlowSchema is in force", interval=0.1)
        answers = await asyncio.gather(
            *(
                broker.ask("PATCH", stage.config_map, {"data": {f"node-{number}": "x" * 1000}}, headers=PATCH)
                for number in range(BROKERS)
            )
        )
        assert [answer.status for answer in answers if answer.status != 200] == []
        assert {answer.headers[FLOW] for answer in answers} == {schema["metadata"]["uid"]}
        assert len(await stage.records() or {}) == BROKERS + 1
        # Reads are cheap and never wait behind writes, and nobody else's patches are held up.
        read = await broker.ask("GET", stage.config_map)
        assert read.headers[FLOW] != schema["metadata"]["uid"]
        other = await world.api.ask("PATCH", stage.config_map, {"data": {"first": "y"}}, headers=PATCH)
        assert other.headers[FLOW] != schema["metadata"]["uid"]
    level = await world.api.get(paths.path(stage.objects.one("PriorityLevelConfiguration")))
    assert level["spec"]["limited"]["borrowingLimitPercent"] == 0
