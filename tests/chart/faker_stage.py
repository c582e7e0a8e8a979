"""The faker's services as processes on a real API server, with the accounts, arguments and environment that the chart gives.

There is no kubelet: its sockets are doubles', and what it would advertise is written by the stage.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp

from nicrails_faker.kubelet import Held
from nicrails_faker.mig import NodeTopology, OtherDevice, fingerprint
from nicrails_faker.topologies.config_maps import ADVERTISED_ANNOTATION
from tests.chart import paths
from tests.chart.combinations import FAKE_NODES, FAKER, MAPPING
from tests.chart.helm import Helm, Json, Rendered, at, merged
from tests.chart.stage import Program
from tests.cluster.controlplane import ControlPlane
from tests.cluster.process import Daemon
from tests.faker.kubelet.double import FakeKubelet, FakePodResources
from tests.faker.played import MIG_NODE, PlayedNode, mig_config
from tests.faker.scene import Scene
from tests.support.ports import release_port, reserve_port
from tests.support.waiting import eventually

NEEDED = {"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ConfigMap"}
GPU, COUNT = "nvidia.com/gpu", "nvidia.com/gpu.count"
CONDITION = "MigTopologyWarning"
SEVEN, THREE = mig_config('{"1g.5gb": 7}'), mig_config('{"2g.10gb": 3}')
TAKEN_WITHIN = 10
"""Seconds for a request; long against what one takes, and short enough to wait for the end of one that is not taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FakerStage:
    """The faker installed in a namespace of its own, and one Node.

    Attributes:
        plane: The control plane.
        scene: The namespace, with an administrator's access.
        folder: For files and sockets.
        objects: What the chart renders.
        restart: Whether the device plugin's pod is to be deleted for each change.
        node: The Node.
        labels: Those that the Node can have here: ``pool`` and ``fake``.
    """

    plane: ControlPlane
    scene: Scene
    folder: Path
    objects: Rendered
    restart: bool
    node: PlayedNode
    labels: Mapping[str, Mapping[str, str]]

    @classmethod
    @contextlib.asynccontextmanager
    async def on(
        cls,
        plane: ControlPlane,
        helm: Helm,
        folder: Path,
        *,
        restart: bool = False,
        change: Callable[[Json], None] = lambda item: None,
    ) -> AsyncIterator[FakerStage]:
        """Install accounts, roles and topology.

        Args:
            plane: The control plane.
            helm: Renders the chart.
            folder: For files and sockets.
            restart: The restart mode.
            change: Is shown every object before it is made, and may change it.
        """
        async with Scene.on(plane.endpoint, folder) as scene:
            namespace = scene.world.namespace
            # Other tests' Nodes are on the same API server.
            pool, fake = f"pool.{namespace}", f"fake.{namespace}"
            values = merged(
                FAKER,
                FAKE_NODES,
                at("faker.mig.onChange", "restart" if restart else "follow"),
                at("faker.mig.takenWithin", f"{TAKEN_WITHIN}s"),
                at("faker.topology.nodePoolLabelKey", pool),
                at("faker.fakeNodes.label", f"{fake}=true"),
                at("faker.devicePlugin.hostDirectory", str(folder / "host")),
                at(f"{MAPPING}.gpuSource.gpuOperatorNamespace", namespace),
            )
            objects = helm.template(values, namespace=namespace)
            made = [item for item in objects if item["kind"] in NEEDED]
            for item in made:
                change(item)
            try:
                await paths.make(scene.world.api, made)
                yield cls(
                    plane=plane,
                    scene=scene,
                    folder=folder,
                    objects=objects,
                    restart=restart,
                    node=PlayedNode(scene, scene.node_name("fake")),
                    labels={"pool": {pool: "default"}, "fake": {fake: "true"}},
                )
            finally:
                await paths.remove(scene.world.api, made)

    @contextlib.asynccontextmanager
    async def service(self, name: str) -> AsyncIterator[Program]:
        """Run a service as its pod would."""
        (item,) = [
            item
            for item in self.objects
            if item["metadata"]["labels"].get("app.kubernetes.io/component") == f"faker-{name}"
        ]
        spec = item["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        token = await asyncio.to_thread(
            self.plane.service_account_token, item["metadata"]["namespace"], spec["serviceAccountName"]
        )
        kubeconfig = self.plane.kubeconfig(self.folder / f"kubeconfig-{name}", token=token)
        port = reserve_port()
        arguments = [*container["args"], "--kubeconfig", str(kubeconfig), "--address", "127.0.0.1", "--port", str(port)]
        arguments += {
            "device-plugin": ["--plugin-directory", str(self._sockets)],
            "metrics": ["--pod-resources", str(self._sockets / "k.sock"), "--interval", "0.2"],
        }.get(name, [])
        environment = {entry["name"]: entry.get("value") or self.node.name for entry in container["env"]}
        daemon = Daemon(
            f"faker-{name}",
            [sys.executable, "-m", "nicrails_faker", *arguments],
            self.folder,
            {**os.environ, **environment},
        )
        daemon.start()
        try:
            yield Program(daemon=daemon, url=f"http://127.0.0.1:{port}")
        finally:
            daemon.kill()
            release_port(port)

    @property
    def _sockets(self) -> Path:
        folder = self.folder / "s"
        folder.mkdir(exist_ok=True)
        return folder

    async def job(self, name: str, program: Program) -> None:
        """All that a service is for; it must have been started before."""
        jobs: Mapping[str, Callable[[Program], Awaitable[None]]] = {
            "topology": self._topology_job,
            "device-plugin": self._plugin_job,
            "mig": self._mig_job,
            "metrics": self._metrics_job,
            "nodes": self._nodes_job,
        }
        await jobs[name](program)

    async def _document(self, **labels: str) -> NodeTopology:
        """Make the Node with a topology, whose strategy has something to warn of once one GPU of two is cut."""
        await self.scene.world.node(self.node.name, labels=labels)
        topology = NodeTopology.create(
            self.node.name, gpu_product="NVIDIA-A100-SXM4-40GB", gpu_count=2, gpu_memory=40960, mig_strategy="single"
        )
        await self.scene.store.create(self.node.name, topology, annotations={})
        return topology

    async def _topology_job(self, program: Program) -> None:
        """A Node of the pool gets a topology, which follows the cluster's, is served, and goes with the Node."""
        name, world = self.node.name, self.scene.world
        await program.healthy()
        await world.node(name, labels=self.labels["pool"])
        await self.scene.until_object(name)
        document = (await world.api.get(world.path("configmaps", "topology")))["data"]["topology.yml"]
        await self.scene.cluster_topology(document.replace("migStrategy: mixed", "migStrategy: single"))

        async def changed() -> bool:
            return (await self.scene.topology(name)).mig_strategy == "single"

        await eventually(changed, within=30, what="the Node's topology follows the cluster's")
        async with aiohttp.ClientSession() as http, http.get(f"{program.url}/topology/nodes/{name}") as answer:
            assert answer.status == 200
        await world.delete_node(name)

        async def gone() -> bool:
            return await self.scene.object(name) is None

        await eventually(gone, within=30, what="the topology goes with its Node")

    async def _plugin_job(self, _: Program) -> None:
        """The kubelet is offered the Node's GPUs, others as soon as the topology has others, and the topology says so."""
        await self._document()
        kubelet = FakeKubelet(self._sockets)
        await kubelet.start()
        try:
            await eventually(lambda: kubelet.allocatable == {GPU: 2}, within=30, what="two GPUs are offered")
            await self.scene.store.update(self.node.name, lambda now: replace(now, gpus=now.gpus[:1]))
            await eventually(lambda: kubelet.allocatable == {GPU: 1}, within=30, what="one GPU is offered")

            async def said() -> bool:
                found = await self.scene.object(self.node.name)
                topology = await self.scene.topology(self.node.name)
                assert found is not None
                assert found["metadata"].get("annotations", {}).get(ADVERTISED_ANNOTATION) == fingerprint(topology)
                return True

            await eventually(said, within=30, what="the topology says what was handed over")
        finally:
            await kubelet.stop()

    async def _mig_job(self, _: Program) -> None:
        """The Node's annotation is obeyed twice, an Event and a condition say so, and in restart mode a pod goes."""
        await self._document(**MIG_NODE)
        world = self.scene.world
        plugin = self.objects.one("DaemonSet", "nvidia-device-plugin-daemonset")
        pod = await world.pod(plugin, self.node.name, owned=False) if self.restart else None
        async with self.node.kubelet():
            await self._cut()
        if pod is not None:

            async def deleted() -> bool:
                found = await world.api.get_or_none(world.path("pods", pod["metadata"]["name"]))
                return found is None or "deletionTimestamp" in found["metadata"]

            await eventually(deleted, within=30, what="the device plugin's pod is deleted")
        # There is no kubelet any more.
        await self._not_taken()

    async def _nodes_job(self, _: Program) -> None:
        """A Node without a kubelet advertises its topology, and its annotation is obeyed."""
        await self._document(**self.labels["fake"], **MIG_NODE)

        async def advertised() -> bool:
            return await self.node.allocatable() == {GPU: "2"}

        await eventually(advertised, within=30, what="the Node advertises two GPUs")
        await self._cut()
        # No Node can have a resource of this name.
        unfit = OtherDevice(name=f"nvidia.com/{'x' * 64}", count=1)
        await self.scene.store.update(self.node.name, lambda now: replace(now, other_devices=(unfit,)))
        await self._not_taken()

    async def _cut(self) -> None:
        """The topology's changes are followed and requests are met, with all that the Node is told."""
        store, name = self.scene.store, self.node.name
        await self.node.until_label(COUNT, "2")
        both = (await self.scene.topology(name)).gpus
        await store.update(name, lambda now: replace(now, gpus=both[:1]))
        await self.node.until_label(COUNT, "1")
        await store.update(name, lambda now: replace(now, gpus=both))
        await self.node.until_label(COUNT, "2")
        await self.node.annotate(SEVEN)
        await self.node.until_state("success")
        await self.node.annotate(THREE)
        await self._until_three()
        await self.node.until_state("success")

        async def told() -> bool:
            node = await self.node.object()
            query = f"fieldSelector=involvedObject.name={self.node.name},reason=MigConfigApplied"
            events = await self.scene.world.api.get(f"/api/v1/namespaces/default/events?{query}")
            assert events["items"], "no Event"
            assert CONDITION in {one["type"] for one in node["status"].get("conditions", ())}, "no condition"
            return True

        await eventually(told, within=30, what="an Event and a condition say so")

    async def _until_three(self) -> None:
        async def cut() -> bool:
            found = (await self.scene.topology(self.node.name)).gpus[0].mig_instances
            return [one.profile for one in found] == ["2g.10gb"] * 3

        await eventually(cut, within=30, what="three slices are in the topology")

    async def _not_taken(self) -> None:
        """A request that nobody takes over is taken back."""
        await self.node.annotate(SEVEN)
        await self.node.until_state("failed")
        await self._until_three()

    async def _metrics_job(self, program: Program) -> None:
        """Who holds a GPU is written down, again if somebody wipes it out, and is in the metrics."""
        topology = await self._document()
        kubelet = FakePodResources(self._sockets / "k.sock")
        kubelet.held = [Held(resource=GPU, device=topology.gpus[0].id, namespace="ns", pod="holder", container="c")]
        await kubelet.start()

        async def written() -> bool:
            return "holder" in str((await self.scene.topology(self.node.name)).gpus[0].status.allocated_by)

        async def shown() -> bool:
            async with aiohttp.ClientSession() as http, http.get(f"{program.url}/metrics") as answer:
                return 'pod="holder"' in await answer.text()

        try:
            for _ in range(2):
                await eventually(written, within=30, what="the topology says who holds the GPU")
                await self.scene.store.update(self.node.name, lambda _: topology)
            await eventually(written, within=30, what="the topology says again who holds the GPU")
            await eventually(shown, within=30, what="the metrics say who holds the GPU")
            # The kubelet's account is part of its health.
            await program.healthy()
        finally:
            await kubelet.stop()
