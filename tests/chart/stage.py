"""An installed release on a real API server, with both programs as processes that have what their pods would have.

There is no kubelet: the pods are objects, so that their tokens name a Node as mounted ones do, and the programs run here
with the rendered settings, accounts and environment. The GPU Operator's exec is answered by the fake kubelet.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from nicrails_broker.sources import Command
from nicrails_faker.machines import InstalledMachine
from tests.broker.site import DAEMON_SET, for_node, golden, install
from tests.chart import paths
from tests.chart.combinations import MAPPING, RECORDS
from tests.chart.helm import Helm, Json, Rendered, at, is_hook, merged
from tests.cluster.controlplane import ControlPlane
from tests.cluster.kubelet import FakeKubelet, succeeds
from tests.cluster.process import Daemon
from tests.cluster.world import World
from tests.observer.documents import record
from tests.support.ports import release_port, reserve_port
from tests.support.waiting import eventually

CONFIG_MAP = "topograph-nic-rails"
ANNOTATION = "topograph.run/lldp-chassis-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A running broker or observer.

    Attributes:
        daemon: The process.
        url: Of its endpoints.
    """

    daemon: Daemon
    url: str

    async def health(self) -> tuple[int, Json]:
        """Status and report of ``/healthz``; status 0 before it answers."""
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as session,
                session.get(f"{self.url}/healthz") as response,
            ):
                return response.status, await response.json()
        except (aiohttp.ClientError, TimeoutError):
            assert self.daemon.running, self.daemon.tail()
            return 0, {}

    async def healthy(self) -> None:
        """Wait until it is."""

        async def condition() -> bool:
            status, report = await self.health()
            assert status == 200, report
            return True

        await eventually(condition, within=30, what=f"{self.daemon.name} is healthy", interval=0.1)

    async def refused(self, verb: str, resource: str) -> str:
        """Wait until it is unhealthy because the API server refuses it this; the reason."""

        async def condition() -> str:
            _, report = await self.health()
            reasons = " ".join(str(duty.get("reason")) for duty in report.get("duties", {}).values())
            assert "403" in reasons, report
            assert verb in reasons, report
            assert resource in reasons, report
            return reasons

        return await eventually(condition, within=30, what=f"{self.daemon.name} misses {verb} {resource}", interval=0.1)


@dataclass(slots=True, kw_only=True)
class Stage:
    """A release in a namespace of its own, and the GPU Operator in another one.

    Attributes:
        plane: The control plane.
        helm: Renders the chart.
        world: The release's namespace.
        operator: The GPU Operator's.
        machine: The simulated host of the broker.
        kubelet: Answers exec on all Nodes.
        folder: For files.
        values: Of the release.
        objects: What the chart renders.
        pods: The pods of brokers, by Node.
        made: What was made of the objects.
        plugin: The GPU Operator's DaemonSet.
    """

    plane: ControlPlane
    helm: Helm
    world: World
    operator: World
    machine: InstalledMachine
    kubelet: FakeKubelet
    folder: Path
    values: Json
    objects: Rendered
    pods: dict[str, str] = field(default_factory=dict)
    made: list[Json] = field(default_factory=list)
    plugin: Json = field(default_factory=dict)

    @classmethod
    @contextlib.asynccontextmanager
    async def on(
        cls,
        plane: ControlPlane,
        helm: Helm,
        kubelet: FakeKubelet,
        folder: Path,
        *values: Mapping[str, object],
        change: Callable[[Json], None] = lambda item: None,
    ) -> AsyncIterator[Stage]:
        """Install the chart with records and these values.

        Args:
            plane: The control plane.
            helm: Renders the chart.
            kubelet: For exec.
            folder: For files.
            values: Over the usual ones.
            change: Is shown every object before it is made, and may change it.
        """
        machine = install("h100-8gpu-dual-port", folder / "h100-8gpu-dual-port")
        rails = machine.machine.settings
        async with World.on(plane.endpoint) as world, World.on(plane.endpoint) as operator:
            settings = merged(
                RECORDS,
                at(
                    MAPPING,
                    {
                        "startJitter": 0,
                        "refreshInterval": "1s",
                        "verifyInterval": "1s",
                        "railSource": {"hostLLDP": {"interfaceRegex": rails.interface_regex, "railID": rails.rail_id}},
                        "gpuSource": {"gpuOperatorNamespace": operator.namespace},
                    },
                ),
                {
                    "nodeMetadata": {"provider": {"lldp": {"refreshInterval": "1s", "interfaceRegex": "^eth_r0_"}}},
                    "host": {"sysfsRoot": str(machine.sysfs_root), "lldpctl": str(machine.lldpctl)},
                    "server": {"address": "127.0.0.1"},
                    "observer": {"checkInterval": "200ms"},
                },
                *values,
            )
            stage = cls(
                plane=plane,
                helm=helm,
                world=world,
                operator=operator,
                machine=machine,
                kubelet=kubelet,
                folder=folder,
                values=settings,
                objects=helm.template(settings, namespace=world.namespace),
            )
            try:
                await stage._install(change)
                yield stage
            finally:
                await paths.remove(world.api, stage.made)

    async def _install(self, change: Callable[[Json], None]) -> None:
        for item in self.objects:
            if not is_hook(item):
                change(item)
                self.made.append(item)
                await self.world.api.create(paths.collection(item), item)
        for command in Command:
            self.kubelet.answers(command.argv, succeeds(self.machine.run_nvidia_smi(command.argv).stdout))
        self.plugin = await self.operator.daemon_set(DAEMON_SET)

    async def node(self, stem: str) -> Json:
        """A Node with the GPU Operator's pod and a broker's pod."""
        node = await self.world.node(self.world.unique(stem), kubelet_port=self.kubelet.port)
        name = node["metadata"]["name"]
        await self.operator.pod(self.plugin, name, name=f"{DAEMON_SET}-{len(self.pods):05}")
        # Nobody owns it: there is no controller of DaemonSets, and the garbage collector would take it.
        pod = await self.world.pod(
            self.objects.one("DaemonSet"), name, name=f"broker-{name}", owned=False, service_account=self.broker_account
        )
        self.pods[name] = pod["metadata"]["name"]
        return node

    @property
    def broker_account(self) -> str:
        """The brokers' ServiceAccount."""
        name: str = self.objects.pod("DaemonSet")["serviceAccountName"]
        return name

    @property
    def config_map(self) -> str:
        """The path of the ConfigMap of the records."""
        return self.world.path("configmaps", CONFIG_MAP)

    async def token(self, node: str | None) -> str:
        """A token as a broker's pod on this Node has it, or one that belongs to no pod."""
        pod = None if node is None else self.pods[node]
        return await asyncio.to_thread(
            self.plane.service_account_token, self.world.namespace, self.broker_account, pod=pod
        )

    async def kubeconfig(self, token: str) -> Path:
        """A kubeconfig with a token."""
        return self.plane.kubeconfig(self.folder / f"kubeconfig-{hash(token):x}", token=token)

    @contextlib.asynccontextmanager
    async def broker(self, node: str) -> AsyncIterator[Program]:
        """The broker of a Node."""
        token = await self.token(node)
        with self._program(
            "nicrails_broker", "DaemonSet", await self.kubeconfig(token), {"NODE_NAME": node}
        ) as program:
            yield program

    @contextlib.asynccontextmanager
    async def observer(self) -> AsyncIterator[Program]:
        """The observer."""
        account = self.objects.pod("Deployment")["serviceAccountName"]
        token = await asyncio.to_thread(self.plane.service_account_token, self.world.namespace, account)
        with self._program("nicrails_observer", "Deployment", await self.kubeconfig(token), {}) as program:
            yield program

    @contextlib.contextmanager
    def _program(self, module: str, kind: str, kubeconfig: Path, fields: Mapping[str, str]) -> Iterator[Program]:
        port = reserve_port()
        objects = self.helm.template(merged(self.values, at("server.port", port)), namespace=self.world.namespace)
        config = self.folder / f"settings-{port}.yaml"
        config.write_text(objects.settings())
        (container,) = objects.pod(kind)["containers"]
        told = {"POD_NAMESPACE": self.world.namespace, **fields}
        environment = {entry["name"]: entry.get("value") or told[entry["name"]] for entry in container["env"]}
        verb, option, _ = container["args"]
        daemon = Daemon(
            f"{module}-{port}",
            [sys.executable, "-m", module, verb, option, str(config), "--kubeconfig", str(kubeconfig)],
            self.folder,
            {**os.environ, **environment},
        )
        daemon.start()
        try:
            yield Program(daemon=daemon, url=f"http://127.0.0.1:{port}")
        finally:
            daemon.kill()
            release_port(port)

    def expected(self, node: Json) -> str:
        """The record that a Node must get."""
        return for_node(golden(self.machine.directory.name), self.machine, node).decode()

    async def records(self) -> dict[str, str] | None:
        """The records; None without the ConfigMap."""
        found = await self.world.api.get_or_none(self.config_map)
        return None if found is None else dict(found.get("data") or {})

    async def until_records(self, expected: Mapping[str, str]) -> None:
        """Wait until the records are exactly these."""

        async def condition() -> bool:
            assert await self.records() == dict(expected)
            return True

        await eventually(condition, within=30, what=f"records of exactly {sorted(expected)}")

    async def broker_job(self, node: Json) -> None:
        """All that a broker is for: the record, byte for byte, and the annotation if it is on."""
        name = node["metadata"]["name"]

        async def done() -> bool:
            assert (await self.records() or {}).get(name) == self.expected(node)
            if self.values["nodeMetadata"]["provider"].get("name") == "lldp":
                found = await self.world.api.get(f"/api/v1/nodes/{name}")
                assert found["metadata"].get("annotations", {}).get(ANNOTATION), "no annotation"
            return True

        await eventually(done, within=30, what=f"the broker of {name} has done its job")

    async def observer_job(self) -> None:
        """All that the observer is for: the ConfigMap is made, and the record of a Node that goes is removed."""

        async def made() -> bool:
            return await self.records() is not None

        await eventually(made, within=30, what="the observer makes the ConfigMap")
        stays, goes = (
            await self.world.node(self.world.unique("stays")),
            await self.world.node(self.world.unique("goes")),
        )
        names = {node["metadata"]["name"]: record(node["metadata"]["uid"]) for node in (stays, goes)}
        await self.world.api.merge_patch(self.config_map, {"data": names})
        await self.world.delete_node(goes["metadata"]["name"])

        async def gone() -> bool:
            records = await self.records() or {}
            assert stays["metadata"]["name"] in records
            return goes["metadata"]["name"] not in records

        await eventually(gone, within=30, what="the observer removes the record of the Node that is gone")
