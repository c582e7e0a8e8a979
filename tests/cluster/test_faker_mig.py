"""The MIG faker on a real API server, with a played kubelet and the permissions that the chart gives."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from nicrails_faker.mig import Holder, NodeTopology, Status
from nicrails_faker.mig.labels import feature_labels
from nicrails_faker.migfaker import app
from nicrails_faker.migfaker.teller import Options
from tests.cluster.controlplane import ControlPlane
from tests.faker.played import MIG_NODE, STATE, PlayedNode, mig_config
from tests.faker.scene import Scene, Service
from tests.support.endpoint import ApiEndpoint
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs("control-plane")

_SEVEN, _THREE = mig_config('{"1g.5gb": 7}'), mig_config('{"2g.10gb": 3}')
_ERROR = "nicrails.io/mig-config-error"

RULES = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "patch"]}]
"""In the namespace of the topologies."""
CLUSTER_RULES = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
]
"""In the whole cluster; Events about Nodes are in the namespace ``default``."""


@pytest_asyncio.fixture
async def scene(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Scene]:
    """A scene on the real API server, whose services have no more than these permissions."""
    async with Scene.on(control_plane.endpoint, tmp_path) as scene:
        await scene.world.service_account("mig", rules=RULES, cluster_rules=CLUSTER_RULES)
        token = await asyncio.to_thread(control_plane.service_account_token, scene.world.namespace, "mig")
        endpoint = control_plane.endpoint
        scene.use(ApiEndpoint(url=endpoint.url, ca_file=endpoint.ca_file, token=token, real=True), tmp_path)
        yield scene


async def _node(scene: Scene) -> PlayedNode:
    name = scene.node_name("mig")
    await scene.world.node(name, labels=MIG_NODE)
    topology = NodeTopology.create(
        name, gpu_product="NVIDIA-A100-SXM4-40GB", gpu_count=2, gpu_memory=40960, mig_strategy="mixed"
    )
    await scene.store.create(name, topology, annotations={})
    return PlayedNode(scene, name)


@contextlib.asynccontextmanager
async def _faking(scene: Scene, node: PlayedNode, **options: Any) -> AsyncIterator[Service]:
    async with scene.service(
        app.DUTIES,
        lambda it: app.build(
            it, node=node.name, namespace=scene.world.namespace, name="topology", options=Options(**options)
        ),
    ) as service:
        yield service


async def _events(scene: Scene, node: PlayedNode, reason: str) -> list[str]:
    query = f"fieldSelector=involvedObject.name={node.name},reason={reason}"
    found = await scene.world.api.get(f"/api/v1/namespaces/default/events?{query}")
    return [item["message"] for item in found["items"]]


async def test_a_node_is_cut_cut_otherwise_and_whole_again(scene: Scene) -> None:
    """Annotation, other annotation, no annotation: allocatable, labels, mapping and topology agree each time."""
    node = await _node(scene)
    whole = await scene.topology(node.name)
    async with node.kubelet(), _faking(scene, node) as service:
        await node.annotate(_SEVEN)
        await node.until_state("success")
        assert await node.allocatable() == {"nvidia.com/gpu": "1", "nvidia.com/mig-1g.5gb": "7"}
        topology = await scene.topology(node.name)
        assert await node.labels() == feature_labels(topology) | MIG_NODE | {STATE: "success"}
        mapping = json.loads(base64.b64decode((await node.annotations())["run.ai/mig-mapping"]))
        assert [one["device_uuid"] for one in mapping["0"]] == [one.uuid for one in topology.gpus[0].mig_instances]
        await node.annotate(_THREE)
        await node.until_label("nvidia.com/mig-2g.10gb.count", "3")
        assert await node.allocatable() == {"nvidia.com/gpu": "1", "nvidia.com/mig-2g.10gb": "3"}
        assert await node.labels() == feature_labels(await scene.topology(node.name)) | MIG_NODE | {STATE: "success"}
        await node.annotate(None)
        await node.until_state(None)
        assert await node.allocatable() == {"nvidia.com/gpu": "2"}
        assert await node.labels() == feature_labels(whole) | MIG_NODE
        assert await scene.topology(node.name) == whole
        await service.until_healthy()

        async def told() -> bool:
            return len(await _events(scene, node, "MigConfigApplied")) == 3

        await eventually(told, within=30, what="each has an Event")


async def test_nothing_is_said_before_the_node_advertises_it(scene: Scene) -> None:
    """Until the Node advertises the slices the state is pending, and neither labels nor mapping tell of them."""
    node = await _node(scene)
    await node.advertise()
    async with _faking(scene, node):
        await node.annotate(_SEVEN)

        async def written() -> bool:
            return (await scene.topology(node.name)).gpus[0].mig_enabled

        await eventually(written, within=30, what="the slices are written")
        assert (await node.labels())[STATE] == "pending"
        assert "nvidia.com/mig-1g.5gb.count" not in await node.labels()
        assert "run.ai/mig-mapping" not in await node.annotations()
        await node.advertise()
        await node.until_state("success")


async def test_what_deserves_a_look_is_a_condition(scene: Scene) -> None:
    """A Node that is odd for its strategy has a condition that says so, beside the kubelet's; it ends with the oddity."""
    node = await _node(scene)
    path = f"/api/v1/nodes/{node.name}/status"
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "m"}
    await scene.world.api.merge_patch(path, {"status": {"conditions": [ready]}})
    await scene.store.update(node.name, lambda now: replace(now, mig_strategy="single"))
    async with node.kubelet(), _faking(scene, node):
        for gpus, expected in (("[0]", ("True", "MixedMigModes")), ("all", ("False", "AsUsual"))):
            await node.annotate(mig_config('{"1g.5gb": 7}', gpus=gpus))

            async def says(wanted: tuple[str, str] = expected) -> bool:
                found = {
                    one["type"]: (one["status"], one["reason"]) for one in (await node.object())["status"]["conditions"]
                }
                assert found == {"Ready": ("True", "KubeletReady"), "MigTopologyWarning": wanted}
                return True

            await eventually(says, within=30, what=f"the condition is {expected}")


async def test_a_restart_and_the_same_request_write_nothing(scene: Scene) -> None:
    """Neither the Node nor its topology gets another version by a restart."""
    node = await _node(scene)
    async with node.kubelet():
        async with _faking(scene, node):
            await node.annotate(_SEVEN)
            await node.until_state("success")
        before = await node.object(), await scene.object(node.name)
        async with _faking(scene, node) as service:
            await service.until_healthy()
            assert (await node.object(), await scene.object(node.name)) == before


async def test_an_impossible_request_and_one_in_use_fail_with_all_as_it_was(scene: Scene) -> None:
    """What can not be met ends as failed, with a sentence on the Node and a Warning; topology, labels and mapping stay."""
    node = await _node(scene)
    async with node.kubelet(), _faking(scene, node):
        await node.annotate(_SEVEN)
        await node.until_state("success")
        held = Status(allocated_by=Holder(namespace="team", pod="train", container="main"))
        await scene.store.update(node.name, lambda now: _hold(now, held))
        topology, labels = await scene.topology(node.name), await node.labels()
        for config, says in ((mig_config('{"1g.5gb": 8}'), "at most 7"), (_THREE, "in use by team/train/main")):
            await node.annotate(config)

            async def told(part: str = says) -> bool:
                return part in (await node.annotations()).get(_ERROR, "")

            await eventually(told, within=30, what=f'the Node says "{says}"')
            assert await node.labels() == labels | {STATE: "failed"}
            assert await scene.topology(node.name) == topology
        await scene.store.update(node.name, lambda now: _hold(now, Status()))
        await node.until_state("success")
        assert await node.allocatable() == {"nvidia.com/gpu": "1", "nvidia.com/mig-2g.10gb": "3"}
        assert len(await _events(scene, node, "MigConfigFailed")) == 2


def _hold(topology: NodeTopology, status: Status) -> NodeTopology:
    gpu = topology.gpus[0]
    instances = (replace(gpu.mig_instances[0], status=status), *gpu.mig_instances[1:])
    return replace(topology, gpus=(replace(gpu, mig_instances=instances), *topology.gpus[1:]))


async def test_what_is_not_taken_in_time_is_taken_back(scene: Scene) -> None:
    """A Node whose device plugin does not follow gets its old topology back and is failed."""
    node = await _node(scene)
    before = await scene.topology(node.name)
    await node.advertise()
    async with _faking(scene, node, taken_within=2.0):
        await node.annotate(_SEVEN)
        await node.until_state("failed")
        assert "not taken within 2 s" in (await node.annotations())[_ERROR]
        assert await scene.topology(node.name) == before


async def test_a_large_hostile_annotation_fails_with_a_sentence(scene: Scene) -> None:
    """The largest annotation that Kubernetes takes, full of nesting, ends as failed and leaves the service well."""
    node = await _node(scene)
    async with node.kubelet(), _faking(scene, node) as service:
        await node.annotate("version: v1\nmig-configs: " + "[" * 200_000)
        await node.until_state("failed")
        assert len((await node.annotations())[_ERROR]) < 1100
        await node.annotate(_SEVEN)
        await node.until_state("success")
        await service.until_healthy()
