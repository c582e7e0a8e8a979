from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace

from nicrails_faker.mig import Holder, MigInstance, NodeTopology, Status, read_topology
from nicrails_faker.topologies import app
from nicrails_faker.topologies.server import node_document
from tests.faker.scene import POOL, Scene, Service


@contextlib.asynccontextmanager
async def _serving(scene: Scene) -> AsyncIterator[Service]:
    namespace = scene.world.namespace
    async with scene.service(app.DUTIES, lambda it: app.build(it, namespace=namespace, name="topology")) as service:
        yield service


async def test_the_clusters_topology_has_the_peers_fields(scene: Scene) -> None:
    """``/topology`` shows the pools under the field names of the peer's Go types."""
    await scene.cluster_topology()
    async with _serving(scene) as service:
        await service.until_healthy()
        status, document = await service.get("/topology")
    assert status == 200
    assert document == {
        "NodePools": {
            "default": {
                "GpuCount": 2,
                "GpuMemory": 40960,
                "GpuProduct": "NVIDIA-A100-SXM4-40GB",
                "OtherDevices": [],
            }
        },
        "NodePoolLabelKey": "run.ai/simulated-gpu-node-pool",
        "MigStrategy": "mixed",
    }


async def test_a_nodes_topology_is_served_as_it_stands_there(scene: Scene) -> None:
    """``/topology/nodes/<node>`` shows what the ConfigMap says at that moment."""
    await scene.cluster_topology()
    await scene.world.node("a", labels=POOL)
    async with _serving(scene) as service:
        await scene.until_object("a")
        await scene.store.update("a", lambda topology: replace(topology, driver_version="550.54"))
        status, document = await service.get("/topology/nodes/a")
    assert status == 200
    assert document == node_document(await scene.topology("a"))
    assert document["DriverVersion"] == "550.54"


def test_a_nodes_document_has_the_peers_fields() -> None:
    """GPUs, slices and holders are shown under the field names of the peer's Go types."""
    topology = NodeTopology.create("node1", gpu_product="X", gpu_count=1, gpu_memory=40960)
    held = Status(allocated_by=Holder(namespace="a", pod="b", container="c"))
    one = MigInstance(profile="1g.5gb", index=6, uuid="MIG-1", status=held)
    topology = replace(topology, gpus=(replace(topology.gpus[0], mig_enabled=True, mig_instances=(one,)),))
    nobody = {"AllocatedBy": {"Namespace": "", "Pod": "", "Container": ""}, "PodGpuUsageStatus": {}}
    assert node_document(topology) == {
        "GpuMemory": 40960,
        "GpuProduct": "X",
        "DriverVersion": "",
        "CudaVersion": "",
        "Gpus": [
            {
                "ID": "GPU-9c371748-0caa-5ed1-a957-7da694d693b6",
                "Status": nobody,
                "MigEnabled": True,
                "MigInstances": [
                    {
                        "Profile": "1g.5gb",
                        "Index": 6,
                        "UUID": "MIG-1",
                        "Status": {
                            "AllocatedBy": {"Namespace": "a", "Pod": "b", "Container": "c"},
                            "PodGpuUsageStatus": {},
                        },
                    }
                ],
            }
        ],
        "MigStrategy": "",
        "OtherDevices": [],
    }


def test_usage_keeps_its_values() -> None:
    """The usage by pod is shown with Go's capitals and its values; a pod's UID is no field."""
    topology = read_topology(
        "gpus: [{id: G, status: {podGpuUsageStatus: {abc-1: {utilization: {min: 80, max: 100, random: true},"
        " fbUsed: 11, useKnativeUtilization: false, note: '7', nothing: null, list: [1]}}}}]"
    )
    usage = node_document(topology)["Gpus"][0]["Status"]["PodGpuUsageStatus"]
    assert usage == {
        "abc-1": {
            "Utilization": {"Min": 80, "Max": 100, "Random": True},
            "FbUsed": 11,
            "UseKnativeUtilization": False,
            "Note": "7",
            "Nothing": None,
            "List": [1],
        }
    }
    json.dumps(usage)


async def test_what_is_not_there_is_told_in_a_sentence(scene: Scene) -> None:
    """A Node without a topology, and a name that no Node has, are 404 with a sentence; a broken document is 503."""
    await scene.cluster_topology()
    await scene.config_map(
        "topology-broken", {"topology.yml": "gpus: 1"}, labels={"node-topology": "true", "node-name": "broken"}
    )
    async with _serving(scene) as service:
        await service.until_healthy()
        status, text = await service.get("/topology/nodes/missing")
        assert (status, text) == (404, "Node missing has no topology: ConfigMap topology-missing does not exist\n")
        status, text = await service.get("/topology/nodes/..%2F..%2Fsecrets")
        assert status == 404
        assert "can not be the name of a ConfigMap" in text
        status, text = await service.get("/topology/nodes/broken")
        assert status == 503
        assert "ConfigMap topology-broken, topology.yml: gpus" in text
        assert (await service.get("/topology/other"))[0] == 404
