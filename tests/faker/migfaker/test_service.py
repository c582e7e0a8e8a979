"""The MIG faker on the embedded API, with a played kubelet; ``tests/cluster/test_faker_mig.py`` has the real API server."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest

from nicrails_faker.api import EmbeddedCluster, Fault, LoseAnswer, Respond
from nicrails_faker.mig import Holder, NodeTopology, Status, mig_uuid
from nicrails_faker.mig.labels import feature_labels
from nicrails_faker.migfaker import app
from tests.faker.migfaker.stage import ERROR, SEVEN, THREE, events, faking, make_node, until_event
from tests.faker.played import CONFIG, MIG_NODE, STATE, PlayedNode, mig_config
from tests.faker.scene import Scene, embedded
from tests.support.waiting import eventually


async def test_a_request_is_served(scene: Scene) -> None:
    """An annotation becomes slices in the topology, then, once the Node advertises them, labels, mapping, state and an Event."""
    node = await make_node(scene)
    async with faking(scene) as service:
        await node.advertise()
        await node.until_label("nvidia.com/gpu.count", "2")
        await node.annotate(SEVEN)
        await node.until_state("pending")

        async def written() -> bool:
            return (await scene.topology("n")).gpus[0].mig_enabled

        await eventually(written, within=30, what="the slices are written")
        assert "nvidia.com/mig-1g.5gb.count" not in await node.labels(), "nothing is said before the Node advertises it"
        assert "run.ai/mig-mapping" not in await node.annotations()
        await node.advertise()
        await node.until_state("success")
        await until_event(scene, "MigConfigApplied")
        topology = await scene.topology("n")
        labels, annotations = await node.labels(), await node.annotations()
        assert labels == feature_labels(topology) | MIG_NODE | {STATE: "success"}
        gpu = topology.gpus[0].id
        assert [one.uuid for one in topology.gpus[0].mig_instances] == [mig_uuid(gpu, "1g.5gb", at) for at in range(7)]
        mapping = json.loads(base64.b64decode(annotations["run.ai/mig-mapping"]))
        assert [one["device_uuid"] for one in mapping["0"]] == [one.uuid for one in topology.gpus[0].mig_instances]
        assert mapping.keys() == {"0"}
        assert ERROR not in annotations
        await service.until_healthy()
        assert await events(scene) == [("MigConfigApplied", f"cut GPU 0 into {', '.join(['1g.5gb'] * 7)}")]


async def test_another_request_replaces_the_slices_and_their_labels(scene: Scene) -> None:
    """New slices take the place of the old ones, and labels of profiles that are gone go with them."""
    node = await make_node(scene)
    async with node.kubelet(), faking(scene):
        await node.annotate(SEVEN)
        await node.until_label("nvidia.com/mig-1g.5gb.count", "7")
        await node.annotate(THREE)
        await node.until_label("nvidia.com/mig-2g.10gb.count", "3")
        await node.until_state("success")
        assert await node.labels() == feature_labels(await scene.topology("n")) | MIG_NODE | {STATE: "success"}
        assert await node.allocatable() == {"nvidia.com/gpu": "1", "nvidia.com/mig-2g.10gb": "3"}


async def test_removing_the_annotation_turns_mig_off(scene: Scene) -> None:
    """Without the annotation the GPUs are whole again, and state, mapping and labels of slices are gone."""
    node = await make_node(scene)
    before = await scene.topology("n")
    async with node.kubelet(), faking(scene):
        await node.annotate(SEVEN)
        await node.until_state("success")
        await node.annotate(None)
        await node.until_state(None)
        assert await scene.topology("n") == before
        assert await node.labels() == feature_labels(before) | MIG_NODE
        assert await node.annotations() == {}
        assert (await until_event(scene, "MigConfigApplied", 2))[-1] == "MIG is off"


async def test_an_annotation_removed_while_it_was_away_turns_mig_off(scene: Scene) -> None:
    """The state label remembers that MIG is on by a request, so its removal counts also when nobody saw it."""
    node = await make_node(scene)
    before = await scene.topology("n")
    async with node.kubelet():
        async with faking(scene):
            await node.annotate(SEVEN)
            await node.until_state("success")
        await node.annotate(None)
        async with faking(scene):
            await node.until_state(None)
    assert await scene.topology("n") == before


async def test_slices_that_nobody_asked_for_stay(scene: Scene) -> None:
    """MIG that stands in the topology without a request is left on, and has its labels and mapping."""
    node = await make_node(scene)
    async with node.kubelet(), faking(scene):
        await node.annotate(THREE)
        await node.until_state("success")
    cut = await scene.topology("n")
    await node.annotate(None)
    await node.label({STATE: None})
    await node.label({"nvidia.com/mig-2g.10gb.count": None})
    async with node.kubelet(), faking(scene):
        await node.until_label("nvidia.com/mig-2g.10gb.count", "3")
        assert "run.ai/mig-mapping" in await node.annotations()
    assert await scene.topology("n") == cut


async def test_the_same_request_again_and_a_restart_write_nothing(tmp_path: Path) -> None:
    """What is as it is asked for is not written again: not after a restart, not when the same request is given anew."""
    async with embedded(tmp_path) as (cluster, scene):
        node = await make_node(scene)
        async with node.kubelet():
            async with faking(scene):
                await node.annotate(SEVEN)
                await node.until_state("success")
                await until_event(scene, "MigConfigApplied")
            before, writes = (await node.object(), await scene.object("n")), _writes(cluster)
            async with faking(scene) as service:
                await service.until_healthy()
                assert (await node.object(), await scene.object("n")) == before
                await node.annotate(SEVEN + "# the same, said otherwise\n")
                # The next thing that it writes shows that it has looked at what came before.
                await node.label({"nvidia.com/gpu.count": "wrong"})
                await node.until_label("nvidia.com/gpu.count", "2")
        assert await scene.object("n") == before[1]
        assert (await node.labels())[STATE] == "success"
        assert len(await events(scene)) == 1
        assert _writes(cluster) == writes + 1, "the label that was made wrong"


def _writes(cluster: EmbeddedCluster) -> int:
    """Patches of the Node's metadata by the service."""
    return sum(
        one.method == "PATCH" and one.path == "/api/v1/nodes/n" and one.query.get("fieldManager") == app.FIELD_MANAGER
        for one in cluster.requests
    )


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("", "empty"),
        ("version: v1", "mig-configs: missing"),
        ("a: &a [1]\nb: *a", "anchors"),
        ("[" * 200, "nested more than"),
        (mig_config('{"1g.5gb": 8}'), "at most 7"),
        (mig_config('{"9g.90gb": 1}'), "no profile"),
        (mig_config('{"1g.5gb": 1}', gpus="[-1]"), "GPU index"),
        (mig_config('{"1g.5gb": 1}', gpus="[2]"), "no GPU 2"),
        (mig_config('{"3g.20gb": 2, "1g.5gb": 1}'), "cannot be placed"),
        ("version: v1\nmig-configs: {\u202e\x07: 1}\n", "not YAML"),
    ],
)
async def test_an_impossible_request_fails_and_changes_nothing(scene: Scene, config: str, says: str) -> None:
    """What can not be read or met ends as failed, with one sentence on the Node and in an Event; all else stays."""
    node = await make_node(scene)
    async with node.kubelet(), faking(scene) as service:
        await node.annotate(THREE)
        await node.until_state("success")
        await until_event(scene, "MigConfigApplied")
        topology, labels = await scene.object("n"), await node.labels()
        mapping = (await node.annotations())["run.ai/mig-mapping"]
        allocatable = await node.allocatable()
        await node.annotate(config)
        await node.until_state("failed")
        await until_event(scene, "MigConfigFailed")
        annotations = await node.annotations()
        assert says in annotations[ERROR]
        assert annotations["run.ai/mig-mapping"] == mapping
        assert await scene.object("n") == topology
        assert await node.labels() == labels | {STATE: "failed"}
        assert await node.allocatable() == allocatable
        assert await until_event(scene, "MigConfigFailed") == [annotations[ERROR]]
        assert annotations[ERROR].isprintable()
        await service.until_healthy()
        await node.annotate(THREE)
        await node.until_state("success")
        assert ERROR not in await node.annotations()
        assert await scene.object("n") == topology


async def test_a_slice_in_use_is_refused_until_it_is_free(scene: Scene) -> None:
    """A slice that a pod holds is not taken away: the request fails with the pod's name, and is met once it is free."""
    node = await make_node(scene)
    async with node.kubelet(), faking(scene):
        await node.annotate(SEVEN)
        await node.until_state("success")
        held = Status(allocated_by=Holder(namespace="team", pod="train", container="main"))
        await scene.store.update("n", lambda now: _hold(now, held))
        await node.annotate(THREE)
        await node.until_state("failed")
        assert "in use by team/train/main" in (await node.annotations())[ERROR]
        await node.annotate(None)

        async def again() -> bool:
            return "in use by team/train/main" in (await node.annotations())[ERROR]

        await eventually(again, within=30, what="turning MIG off is refused too")
        assert len((await scene.topology("n")).gpus[0].mig_instances) == 7
        await node.annotate(THREE)
        await scene.store.update("n", lambda now: _hold(now, Status()))
        await node.until_state("success")
        assert await node.allocatable() == {"nvidia.com/gpu": "1", "nvidia.com/mig-2g.10gb": "3"}


def _hold(topology: NodeTopology, status: Status) -> NodeTopology:
    gpu = topology.gpus[0]
    instances = (replace(gpu.mig_instances[0], status=status), *gpu.mig_instances[1:])
    return replace(topology, gpus=(replace(gpu, mig_instances=instances), *topology.gpus[1:]))


async def test_what_is_not_taken_in_time_is_taken_back(scene: Scene) -> None:
    """A Node that does not advertise what was written gets its old topology back and is failed; the same is not tried again."""
    node = await make_node(scene)
    before = await scene.topology("n")
    async with faking(scene, taken_within=2.0):
        await node.advertise()
        await node.until_label("nvidia.com/gpu.count", "2")
        labels = await node.labels()
        await node.annotate(SEVEN)
        await node.until_state("failed")
        error = (await node.annotations())[ERROR]
        assert "not taken within 2 s: nvidia.com/gpu is 2 and not 1, nvidia.com/mig-1g.5gb is 0 and not 7" in error
        assert "the slices are as before" in error
        assert await scene.topology("n") == before
        assert await node.labels() == labels | {STATE: "failed"}
        version = (await scene.object("n") or {})["metadata"]["resourceVersion"]
        await node.label({"nvidia.com/gpu.count": "wrong"})
        await node.until_label("nvidia.com/gpu.count", "2")
        assert (await scene.object("n") or {})["metadata"]["resourceVersion"] == version, "it was not tried again"
    async with node.kubelet(), faking(scene):
        await node.annotate(THREE)
        await node.until_label("nvidia.com/mig-2g.10gb.count", "3")
        await node.until_state("success")
        assert ERROR not in await node.annotations()


async def test_that_it_was_taken_back_is_told_also_when_the_node_changes_meanwhile(tmp_path: Path) -> None:
    """A conflict between the way back and the word about it delays that word, and starts nothing anew."""
    async with embedded(tmp_path) as (cluster, scene):
        node = await make_node(scene)
        before = await scene.topology("n")
        await node.advertise()
        async with faking(scene, taken_within=2.0):
            await node.until_label("nvidia.com/gpu.count", "2")
            conflict = {"kind": "Status", "apiVersion": "v1", "code": 409, "reason": "Conflict", "message": "changed"}
            # The annotation itself and the state pending come first.
            refused = Fault(method="PATCH", path="/api/v1/nodes/n", action=Respond(status=409, body=conflict), skip=2)
            active = cluster.faults.add(refused)
            await node.annotate(SEVEN)
            await node.until_state("failed")
            assert active.hits == 1
            assert await scene.topology("n") == before
            assert "not taken within 2 s" in (await node.annotations())[ERROR]


async def test_a_write_whose_answer_is_lost_is_not_lost(tmp_path: Path) -> None:
    """A topology that was written without an answer is found written, and the request goes on."""
    async with embedded(tmp_path) as (cluster, scene):
        node = await make_node(scene)
        path = scene.world.path("configmaps", "topology-n")
        async with node.kubelet(), faking(scene):
            active = cluster.faults.add(Fault(method="PATCH", path=path, action=LoseAnswer()))
            await node.annotate(SEVEN)
            await node.until_state("success")
            assert active.hits == 1


async def test_without_events_the_request_is_served(tmp_path: Path) -> None:
    """An Event that can not be made is only told in the log."""
    async with embedded(tmp_path) as (cluster, scene):
        node = await make_node(scene)
        cluster.faults.add(
            Fault(method="POST", path="/api/v1/namespaces/default/events", action=Respond(status=403), times=None)
        )
        async with node.kubelet(), faking(scene) as service:
            await node.annotate(SEVEN)
            await node.until_state("success")
            await service.until_healthy()


async def test_an_api_that_fails_is_told_and_outlived(tmp_path: Path) -> None:
    """While the API server refuses writes the service is unhealthy with the reason; afterwards the request is served."""
    async with embedded(tmp_path) as (cluster, scene):
        node = await make_node(scene)
        path = scene.world.path("configmaps", "topology-n")
        async with node.kubelet(), faking(scene) as service:
            refused = Fault(method="PATCH", path=path, action=Respond(status=403, body="no"), times=None)
            active = cluster.faults.add(refused)
            await node.annotate(SEVEN)
            await service.until_unhealthy("give its Role the permission")
            cluster.faults.discard(active)
            await node.until_state("success")
            await service.until_healthy()


async def test_a_restart_in_the_middle_goes_on(scene: Scene) -> None:
    """A service that ends between the write and the Node's word is followed by one that waits for that word."""
    node = await make_node(scene)
    await node.advertise()
    async with faking(scene):
        await node.annotate(SEVEN)

        async def written() -> bool:
            return (await scene.topology("n")).gpus[0].mig_enabled

        await eventually(written, within=30, what="the slices are written")
    assert (await node.labels())[STATE] == "pending"
    async with faking(scene) as service:
        await service.until_healthy()
        assert (await node.labels())[STATE] == "pending"
        await node.advertise()
        await node.until_state("success")


async def test_a_kubelet_that_restarts_changes_no_state(scene: Scene) -> None:
    """Slices that were taken once and are at 0 for a moment stay as they are."""
    node = await make_node(scene)
    async with faking(scene):
        async with node.kubelet():
            await node.annotate(SEVEN)
            await node.until_state("success")
        before = await scene.object("n")
        zero = {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.5gb": "0"}
        await scene.world.api.merge_patch("/api/v1/nodes/n/status", {"status": {"allocatable": zero}})
        await node.label({"nvidia.com/gpu.count": "wrong"})
        await node.until_label("nvidia.com/gpu.count", "2")
        assert (await node.labels())[STATE] == "success"
        assert await scene.object("n") == before


async def test_another_strategy_changes_the_labels(scene: Scene) -> None:
    """When the topology's strategy changes the labels follow, and the request stays served."""
    node = await make_node(scene)
    config = mig_config('{"1g.5gb": 7}', gpus="all")
    async with node.kubelet(), faking(scene):
        await node.annotate(config)
        await node.until_state("success")
        for strategy in ("single", "none", "mixed"):
            await scene.store.update("n", lambda now, wanted=strategy: replace(now, mig_strategy=wanted))  # type: ignore[misc]
            await node.until_label("nvidia.com/mig.strategy", None if strategy == "none" else strategy)
            assert await node.labels() == feature_labels(await scene.topology("n")) | MIG_NODE | {STATE: "success"}


async def test_strict_labels(scene: Scene) -> None:
    """In strict mode a Node that NVIDIA's plugin refuses advertises no GPUs and says so."""
    node = await make_node(scene, strategy="single")
    strict = PlayedNode(scene, "n", strict=True)
    async with strict.kubelet(), faking(scene, strict=True):
        await node.annotate(SEVEN)
        await node.until_state("success")
        assert (await node.labels())["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-40GB-MIG-INVALID"
        assert await node.allocatable() == {}


async def _condition(node: PlayedNode) -> dict[str, str] | None:
    found = (await node.object()).get("status", {}).get("conditions", [])
    return next((dict(one) for one in found if one["type"] == "MigTopologyWarning"), None)


async def test_what_deserves_a_look_is_a_condition(scene: Scene) -> None:
    """A Node that is odd for its strategy has a condition that says so, beside those of others; it ends with the oddity."""
    node = await make_node(scene, strategy="single")
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    await scene.world.api.merge_patch("/api/v1/nodes/n/status", {"status": {"conditions": [ready]}})
    async with node.kubelet(), faking(scene):
        await node.until_label("nvidia.com/gpu.count", "2")
        assert await _condition(node) is None
        for gpus, expected in (("[0]", ("True", "MixedMigModes")), ("all", ("False", "AsUsual"))):
            await node.annotate(mig_config('{"1g.5gb": 7}', gpus=gpus))

            async def says(wanted: tuple[str, str] = expected) -> dict[str, str]:
                found = await _condition(node)
                assert found is not None
                assert (found["status"], found["reason"]) == wanted
                return found

            warning = await eventually(says, within=30, what=f"the condition is {expected}")
            assert ("GPU 0 is in MIG mode, the other GPUs are whole" in warning["message"]) == (gpus == "[0]")
        found = (await node.object())["status"]["conditions"]
        assert [one for one in found if one["type"] == "Ready" and ready.items() <= one.items()]
    before = await node.object()
    async with node.kubelet(), faking(scene) as service:
        await service.until_healthy()
        assert await node.object() == before


async def test_without_node_labels(scene: Scene) -> None:
    """Where labelling is off only the state is a label; what others have labelled stays."""
    node = await make_node(scene, labels=MIG_NODE | {"nvidia.com/gpu.count": "of-another"})
    async with node.kubelet(), faking(scene, labels=False):
        await node.annotate(SEVEN)
        await node.until_state("success")
        assert await node.labels() == MIG_NODE | {"nvidia.com/gpu.count": "of-another", STATE: "success"}
        assert "run.ai/mig-mapping" in await node.annotations()


async def test_without_the_role_label_the_annotation_is_ignored(scene: Scene) -> None:
    """A Node that is not labelled for dynamic MIG keeps its GPUs and has only the labels of them; with it, it is served."""
    node = await make_node(scene, labels={})
    await node.annotate(SEVEN)
    async with node.kubelet(), faking(scene) as service:
        await node.until_label("nvidia.com/gpu.count", "2")
        await service.until_healthy()
        assert STATE not in await node.labels()
        assert not (await scene.topology("n")).gpus[0].mig_enabled
        await node.label(MIG_NODE)
        await node.until_state("success")
        cut = await scene.topology("n")
        await node.label({"node-role.kubernetes.io/runai-dynamic-mig": None})
        await node.annotate(None)
        await node.label({"nvidia.com/gpu.count": "wrong"})
        await node.until_label("nvidia.com/gpu.count", "2")
        assert await scene.topology("n") == cut, "what is on stays on"


async def test_labels_of_others_stay(scene: Scene) -> None:
    """Labels that are not of GPU Feature Discovery's are never touched, wrong ones of its own are put right."""
    others = {
        "nvidia.com/gpu.deploy.device-plugin": "true",
        "example.com/x": "y",
        "nvidia.com/mig.config": "all-1g.5gb",
    }
    node = await make_node(scene, labels=MIG_NODE | others | {"nvidia.com/mig-9g.9gb.count": "9"})
    async with node.kubelet(), faking(scene):
        await node.until_label("nvidia.com/mig-9g.9gb.count", None)
        assert await node.labels() == feature_labels(await scene.topology("n")) | MIG_NODE | others


async def test_without_a_topology_it_waits(scene: Scene) -> None:
    """A Node without a topology, or with an unreadable one, is told, and served once there is one."""
    await scene.world.node("n", labels=MIG_NODE)
    node = PlayedNode(scene, "n")
    await node.annotate(SEVEN)
    async with node.kubelet(), faking(scene) as service:
        await service.until_unhealthy("there is no topology for it")
        new = NodeTopology.create("n", gpu_product="NVIDIA-A100-SXM4-40GB", gpu_count=2, gpu_memory=40960)
        await scene.store.create("n", new, annotations={})
        await node.until_state("success")
        path = scene.world.path("configmaps", "topology-n")
        good = (await scene.world.api.get(path))["data"]["topology.yml"]
        await scene.world.api.merge_patch(path, {"data": {"topology.yml": "gpus: &x 1"}})
        await service.until_unhealthy("ConfigMap topology-n, topology.yml")
        assert (await node.labels())[STATE] == "success"
        await scene.world.api.merge_patch(path, {"data": {"topology.yml": good}})
        await service.until_healthy()


async def test_a_node_that_is_not_there_is_told(scene: Scene) -> None:
    """A name that no Node has is unhealthy with a sentence."""
    async with faking(scene, "missing") as service:
        await service.until_unhealthy("there is no such Node")


async def test_restart_mode_deletes_the_device_plugins_pod(scene: Scene) -> None:
    """With restart the pod of the device plugin on this Node is deleted once per change, and no other pod."""
    node = await make_node(scene)
    await scene.world.node("other")
    labels = {"app": "device-plugin", "component": "device-plugin"}
    daemon_set = await scene.world.daemon_set("device-plugin", selector={"matchLabels": labels})
    for name, where, has in (("plugin", "n", None), ("elsewhere", "other", None), ("another", "n", {"app": "x"})):
        await scene.world.pod(daemon_set, where, name=name, labels=has)
    async with faking(scene, plugin_selector="app=device-plugin,component=device-plugin"):
        await node.annotate(SEVEN)
        gone = scene.world.path("pods", "plugin")
        await eventually(lambda: _deleted(scene, gone), within=30, what="the device plugin's pod is deleted")
        await scene.world.api.delete(gone, grace=0)
        await scene.world.pod(daemon_set, "n", name="successor")
        await node.advertise()
        await node.until_state("success")
        for name in ("successor", "elsewhere", "another"):
            assert not await _deleted(scene, scene.world.path("pods", name)), name


async def _deleted(scene: Scene, path: str) -> bool:
    found = await scene.world.api.get_or_none(path)
    return found is None or "deletionTimestamp" in found["metadata"]


async def test_requests_that_come_fast_end_at_the_last(scene: Scene) -> None:
    """Of many requests in a row the last one holds, and success is not said for one that came before."""
    node = await make_node(scene)
    async with node.kubelet(), faking(scene):
        for _ in range(5):
            for config in (SEVEN, THREE, mig_config('{"1g.5gb": 8}'), mig_config('{"4g.20gb": 1}')):
                await node.annotate(config)

        async def last() -> bool:
            labels = await node.labels()
            return labels.get(STATE) == "success" and labels.get("nvidia.com/mig-4g.20gb.count") == "1"

        await eventually(last, within=30, what="the last request is served")
        assert await node.allocatable() == {"nvidia.com/gpu": "1", "nvidia.com/mig-4g.20gb": "1"}
        assert (await node.annotations())[CONFIG] == mig_config('{"4g.20gb": 1}')
