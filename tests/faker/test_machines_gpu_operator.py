"""The GPU Operator's pods on the embedded cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from nicrails.kube import ExecError, ExecExitError, ExecOutput, KubeClient, KubeconfigAccess, exec_in_pod
from nicrails_faker.api import EmbeddedCluster
from nicrails_faker.machines import Answer, InstalledMachine, shipped, write
from nicrails_faker.machines.gpu_operator import CONTAINER, DAEMON_SET, NAMESPACE, GpuOperator

TOPO = ["nvidia-smi", "topo", "-m"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A Node with a pod, and a client."""

    cluster: EmbeddedCluster
    client: KubeClient
    machine: InstalledMachine
    operator: GpuOperator
    pod: str

    async def run(self, *command: str) -> ExecOutput:
        """Run a command in the pod as a broker does."""
        return await exec_in_pod(
            self.client,
            namespace=NAMESPACE,
            pod=self.pod,
            container=CONTAINER,
            command=command,
            time_limit=5,
            max_output=1 << 20,
        )


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """A site with the GB200."""
    async with EmbeddedCluster() as cluster:
        machine = write(shipped("gb200-4gpu"), tmp_path / "machine")
        cluster.create("v1", "nodes", {"metadata": {"name": "gb200-4gpu"}})
        operator = GpuOperator(cluster)
        pod = operator.place(machine)
        access = KubeconfigAccess(cluster.kubeconfig(tmp_path / "kubeconfig"))
        async with KubeClient(access, user_agent="test/0") as client:
            yield Site(cluster=cluster, client=client, machine=machine, operator=operator, pod=pod)


async def test_commands_run_in_the_pod(site: Site) -> None:
    """A command in the pod gives what the machine's nvidia-smi prints, byte for byte, damaged or whole."""
    assert (await site.run(*TOPO)).stdout == site.machine.machine.captures.topo
    site.machine.answer(Answer.TOPO, b"half\n")
    assert (await site.run(*TOPO)).stdout == b"half\n"


async def test_exit_codes_arrive(site: Site) -> None:
    """A failing nvidia-smi is a failing command, with its exit code and its words."""
    site.machine.answer(Answer.TOPO, b"Failed to run topology matrix\n", exit_status=255)
    with pytest.raises(ExecExitError) as failed:
        await site.run(*TOPO)
    assert (failed.value.exit_code, failed.value.stdout) == (255, b"Failed to run topology matrix\n")


async def test_other_programs_are_missing(site: Site) -> None:
    """A program that the container does not have is not run."""
    with pytest.raises(ExecError, match=r"was not run: .*executable file not found"):
        await site.run("sh", "-c", "nvidia-smi topo -m")


async def test_pods_are_those_of_the_daemon_set(site: Site) -> None:
    """The pod is running and ready on its Node, has the DaemonSet's labels and is controlled by it."""
    daemon_set = site.cluster.get("apps/v1", "daemonsets", DAEMON_SET, namespace=NAMESPACE)
    pod = site.cluster.get("v1", "pods", site.pod, namespace=NAMESPACE)
    assert pod["metadata"]["labels"].items() >= daemon_set["spec"]["selector"]["matchLabels"].items()
    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (daemon_set["metadata"]["uid"], True)
    assert (pod["spec"]["nodeName"], pod["status"]["phase"]) == ("gb200-4gpu", "Running")


async def test_executions_are_counted(site: Site) -> None:
    """The number of commands that were started in a pod is known."""
    assert site.operator.executions(site.pod) == 0
    await site.run(*TOPO)
    assert site.operator.executions(site.pod) == 1
