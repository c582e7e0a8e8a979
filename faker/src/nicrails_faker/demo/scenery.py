"""The objects of the embedded cluster that the services expect: namespaces, the observer's Deployment, Nodes, pods."""

from __future__ import annotations

from nicrails import NodeUid
from nicrails_faker.api import EmbeddedCluster
from nicrails_faker.machines import InstalledMachine
from nicrails_faker.machines.gpu_operator import GpuOperator

NAMESPACE = "nicrails"
DEPLOYMENT = "nicrails-observer"
_LABELS = {"app": DEPLOYMENT}


class Scenery:
    """Objects of an embedded cluster, a Node for each simulated machine.

    Args:
        cluster: Gets the objects, and an exec handler.
    """

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._operator = GpuOperator(cluster)
        self._pods: dict[str, str] = {}
        cluster.create("v1", "namespaces", {"metadata": {"name": NAMESPACE}})
        containers = [{"name": "observer", "image": "simulated"}]
        cluster.create(
            "apps/v1",
            "deployments",
            {
                "metadata": {"name": DEPLOYMENT},
                "spec": {
                    "selector": {"matchLabels": _LABELS},
                    "template": {"metadata": {"labels": _LABELS}, "spec": {"containers": containers}},
                },
            },
            namespace=NAMESPACE,
        )

    def add(self, machine: InstalledMachine) -> NodeUid:
        """Create the Node of a machine and, if it has GPUs, the GPU Operator's pod on it; gives the Node's UID."""
        name = machine.machine.name
        node = self._cluster.create("v1", "nodes", {"metadata": {"name": name}})
        if machine.machine.gpus:
            self._pods[name] = self._operator.place(machine)
        return NodeUid.parse(node["metadata"]["uid"])

    def remove(self, machine: InstalledMachine) -> None:
        """Delete the Node of a machine and the pod on it."""
        name = machine.machine.name
        self._cluster.delete("v1", "nodes", name)
        if name in self._pods:
            self._operator.remove(self._pods.pop(name))

    def executions(self, machine: InstalledMachine) -> int:
        """How many commands were run in the GPU Operator's pod of a machine."""
        return self._operator.executions(self._pods[machine.machine.name])
