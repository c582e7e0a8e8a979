"""The GPU Operator's DaemonSet on the embedded cluster: one pod per simulated machine, in which its nvidia-smi runs."""

from __future__ import annotations

from typing import Any

from nicrails_faker.api import EmbeddedCluster, ExecIO, ExecRequest
from nicrails_faker.machines.installed import InstalledMachine

NAMESPACE = "gpu-operator"
DAEMON_SET = "nvidia-device-plugin-daemonset"
CONTAINER = "nvidia-device-plugin"
_LABELS = {"app": DAEMON_SET}


class GpuOperator:
    """Creates namespace and DaemonSet, and runs commands in its pods.

    Args:
        cluster: Gets this as its exec handler.
    """

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._machines: dict[str, InstalledMachine] = {}
        cluster.create("v1", "namespaces", {"metadata": {"name": NAMESPACE}})
        template = {"metadata": {"labels": _LABELS}, "spec": {"containers": [_container()]}}
        daemon_set = cluster.create(
            "apps/v1",
            "daemonsets",
            {
                "metadata": {"name": DAEMON_SET},
                "spec": {"selector": {"matchLabels": _LABELS}, "template": template},
            },
            namespace=NAMESPACE,
        )
        self._owner = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "name": DAEMON_SET,
            "uid": daemon_set["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        cluster.exec_handler = self.run

    def place(self, machine: InstalledMachine, node: str | None = None) -> str:
        """Put a running and ready pod on a Node; returns the pod's name.

        Args:
            machine: Whose nvidia-smi answers in it.
            node: The Node's name; by default the machine's.
        """
        node = node or machine.machine.name
        name = f"{DAEMON_SET}-{node}"
        self._machines[name] = machine
        self._cluster.create("v1", "pods", self._pod(name, node), namespace=NAMESPACE)
        return name

    def remove(self, pod: str) -> None:
        """Delete a pod."""
        del self._machines[pod]
        self._cluster.delete("v1", "pods", pod, namespace=NAMESPACE)

    def executions(self, pod: str) -> int:
        """How many commands were started in a pod, as far as the cluster's log of requests goes back."""
        return len(self._cluster.requests.select(path=f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/exec"))

    async def run(self, request: ExecRequest, io: ExecIO) -> int:
        """Run a command in a pod of the DaemonSet: the exec handler.

        Raises:
            FileNotFoundError: The container does not have such a program.
        """
        machine = self._machines.get(request.pod) if request.namespace == NAMESPACE else None
        if machine is None or request.command[:1] != ("nvidia-smi",):
            raise FileNotFoundError(request.command[:1])
        completed = machine.run_nvidia_smi(request.command)
        await io.stdout(completed.stdout)
        await io.stderr(completed.stderr)
        return completed.exit_status

    def _pod(self, name: str, node: str) -> dict[str, Any]:
        return {
            "metadata": {"name": name, "labels": _LABELS, "ownerReferences": [self._owner]},
            "spec": {"nodeName": node, "containers": [_container()]},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [
                    {
                        "name": CONTAINER,
                        "image": "simulated",
                        "imageID": "simulated",
                        "ready": True,
                        "restartCount": 0,
                        "state": {"running": {}},
                    }
                ],
            },
        }


def _container() -> dict[str, Any]:
    return {"name": CONTAINER, "image": "simulated"}
