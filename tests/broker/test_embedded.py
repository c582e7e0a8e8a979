"""The whole broker on the embedded cluster: every shipped machine, and the faults that need no real control plane.

What is proven here runs on any machine; ``tests/cluster`` proves the same and more on a real kube-apiserver.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from nicrails.kube import KubeconfigAccess
from nicrails.service import ServiceError
from nicrails_broker.settings import Identity
from nicrails_broker.sources import Command
from nicrails_faker.api import EmbeddedCluster
from nicrails_faker.machines import Answer, InstalledMachine, names, shipped, write
from nicrails_faker.machines.gpu_operator import NAMESPACE as OPERATOR
from nicrails_faker.machines.gpu_operator import GpuOperator
from tests.broker.site import CONFIG_MAP, OBSERVER, Running, for_node, running, settings_for
from tests.support.waiting import eventually

NAMESPACE = "nicrails"


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    """An embedded cluster with the namespace of the services."""
    async with EmbeddedCluster(seed=1) as made:
        made.create("v1", "namespaces", {"metadata": {"name": NAMESPACE}})
        yield made


class Stage:
    """A machine on the embedded cluster."""

    def __init__(self, cluster: EmbeddedCluster, machine: InstalledMachine, folder: Path) -> None:
        self.cluster = cluster
        self.machine = machine
        self.name = machine.machine.name
        self.node = cluster.create("v1", "nodes", {"metadata": {"name": self.name}})
        self.operator = GpuOperator(cluster)
        self.pod = self.operator.place(machine) if machine.machine.gpus else ""
        self._kubeconfig = cluster.kubeconfig(folder / "kubeconfig")

    @property
    def expected(self) -> bytes:
        """The record that must stand."""
        record = self.machine.machine.record
        assert record is not None
        return for_node(record.removesuffix(b"\n"), self.machine, self.node)

    def broker(self, **options: Any) -> Any:
        """The broker of this machine."""
        settings = settings_for(self.machine, OPERATOR, **options)
        return running(settings, Identity(node=self.name, namespace=NAMESPACE), KubeconfigAccess(self._kubeconfig))

    def make_config_map(self) -> None:
        """What the observer makes."""
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        owner = self.cluster.create(
            "apps/v1", "deployments", {"metadata": {"name": OBSERVER}, "spec": spec}, namespace=NAMESPACE
        )
        reference = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": OBSERVER,
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
        document = {"metadata": {"name": CONFIG_MAP, "ownerReferences": [reference]}}
        self.cluster.create("v1", "configmaps", document, namespace=NAMESPACE)

    def record(self) -> bytes | None:
        """This Node's value."""
        found = self.cluster.get("v1", "configmaps", CONFIG_MAP, namespace=NAMESPACE)
        value = found.get("data", {}).get(self.name)
        return None if value is None else value.encode()

    async def published(self, expected: bytes | None) -> None:
        """Wait until this Node's value is that."""

        def condition() -> bool:
            assert self.record() == expected
            return True

        await eventually(condition, within=15, what=f"the record of {self.name} stands")


@pytest.fixture
def stage(cluster: EmbeddedCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Stage:
    """A shipped machine, the one of the parameter or one with eight GPUs."""
    machine = shipped(getattr(request, "param", "h100-8gpu-dualport"))
    return Stage(cluster, write(machine, tmp_path / "machine"), tmp_path)


@pytest.mark.parametrize("stage", names(), indirect=True)
async def test_every_shipped_machine_publishes_its_record(stage: Stage) -> None:
    """Each machine of the demo gets exactly its golden record published by the real broker."""
    stage.make_config_map()
    async with stage.broker() as broker:
        await stage.published(stage.expected)
        await broker.healthy()


async def stays(stage: Stage, broker: Running, step: str, *fragments: str) -> None:
    """The broker says what is wrong, and the record stays."""
    await broker.unhealthy(step, *fragments)
    assert stage.record() == stage.expected


@pytest.mark.fault("B6")
async def test_damage_is_refused_and_healed(stage: Stage) -> None:
    """B6, B9: damaged output of each program is refused by name, the record stays, and it heals by itself."""
    stage.make_config_map()
    async with stage.broker() as broker:
        await stage.published(stage.expected)
        await broker.healthy()
        for answer, step in (
            (Answer.TOPO, "discover-gpus"),
            (Answer.INVENTORY, "discover-gpus"),
            (Answer.LLDP, "discover-rails"),
        ):
            whole = (stage.machine.answers / answer.value).read_bytes()
            stage.machine.answer(answer, whole[: len(whole) // 2 + 5])
            await stays(stage, broker, step, "lldpctl" if answer is Answer.LLDP else "nvidia-smi")
            stage.machine.answer(answer, whole, exit_status=9)
            await stays(stage, broker, step)
            stage.machine.heal()
            await broker.healthy()


@pytest.mark.fault("B1")
async def test_the_observer_comes_later(stage: Stage) -> None:
    """B1, B4: without the ConfigMap nothing is made; when it comes, and when it comes anew, the record gets into it."""
    async with stage.broker() as broker:
        await broker.unhealthy("publish", f"{CONFIG_MAP} does not exist")
        assert stage.cluster.list("v1", "configmaps", namespace=NAMESPACE) == []
        stage.make_config_map()
        await stage.published(stage.expected)
        stage.cluster.delete("apps/v1", "deployments", OBSERVER, namespace=NAMESPACE)
        await broker.unhealthy("publish", f"{CONFIG_MAP} does not exist")
        stage.make_config_map()
        await stage.published(stage.expected)
        await broker.healthy()


@pytest.mark.fault("B5")
async def test_the_operators_pod_goes_and_comes(stage: Stage) -> None:
    """B5: without the GPU Operator's pod the update fails and the record stays until the pod is back."""
    stage.make_config_map()
    async with stage.broker() as broker:
        await stage.published(stage.expected)
        stage.operator.remove(stage.pod)
        await stays(stage, broker, "discover-gpus", "no pod of DaemonSet")
        stage.operator.place(stage.machine)
        await broker.healthy()


async def test_a_node_without_rails_has_no_record(stage: Stage) -> None:
    """B9: when lldpd knows no neighbour any more, the Node's key goes."""
    stage.make_config_map()
    async with stage.broker() as broker:
        await stage.published(stage.expected)
        stage.machine.answer(Answer.LLDP, b'{"lldp": [{}]}')
        await stage.published(None)
        await broker.healthy()


async def test_gpus_are_left_out_where_the_settings_say_so(stage: Stage) -> None:
    """With ``gpuNode: never`` no command is run, and the record has rails only."""
    stage.make_config_map()
    async with stage.broker(gpu={"gpu_node": "never"}) as broker:
        await broker.healthy()
        metrics = await broker.metrics()
    assert b'"gpus":{}' in (stage.record() or b"")
    assert stage.operator.executions(stage.pod) == 0
    assert metrics['nicrails_broker_source_state{kind="gpus",source="none",state="disabled"}'] == 1


async def test_gpus_are_asked_for_where_the_settings_say_so(stage: Stage) -> None:
    """With ``gpuNode: always`` sysfs is not asked whether there are GPUs."""
    stage.make_config_map()
    for device in stage.machine.machine.gpus:
        (stage.machine.sysfs_root / "bus/pci/devices" / device).unlink()
    async with stage.broker(gpu={"gpu_node": "always"}):
        await stage.published(stage.expected)
    assert stage.operator.executions(stage.pod) >= len(Command)


async def test_a_taken_port_is_a_failure_of_the_service(stage: Stage) -> None:
    """F13: two brokers on one port: the second ends with one sentence."""
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        with pytest.raises(ServiceError, match=rf"can not listen on 127\.0\.0\.1 port {port}"):
            async with stage.broker(port=port):
                pass
