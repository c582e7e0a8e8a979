"""One Node's site for scenarios: a simulated machine, the objects around its broker, and the broker itself in this process."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from nicrails.kube import Access, KubeconfigAccess
from nicrails.settings import Duration, LoggingSettings, ServerSettings
from nicrails_broker.app import Broker
from nicrails_broker.failures import Pace
from nicrails_broker.settings import (
    BrokerSettings,
    GpuSourceSettings,
    HostLldpSettings,
    HostSettings,
    Identity,
    NodeMetadataSettings,
    PluginsSettings,
    ProviderLldpSettings,
    ProviderSettings,
    RailMappingSettings,
    RailSourceSettings,
)
from nicrails_broker.sources import Command
from nicrails_faker.machines import InstalledMachine, load, write
from tests.cluster.controlplane import ControlPlane
from tests.cluster.kubelet import FakeKubelet, exits, succeeds
from tests.cluster.world import Json, World, reference
from tests.support.waiting import eventually

MACHINES = Path(__file__).parent.parent / "machines"
CONFIG_MAP = "topograph-nic-rails"
OBSERVER = "nicrails-observer"
DAEMON_SET = "nvidia-device-plugin-daemonset"

QUICK = Pace(initial=0.05, cap=0.3, slowly=0.2, after_hang=0.4, rarely=0.4)
"""All waits that are no settings, short enough for a test to see several of them."""


def install(name: str, directory: Path) -> InstalledMachine:
    """Put one of the whole machines of the tests into a directory."""
    return write(load(MACHINES / name), directory)


def golden(name: str) -> bytes:
    """The record that a machine must give, without the file's final newline."""
    return (MACHINES / name / "record.json").read_bytes().removesuffix(b"\n")


def for_node(document: bytes, machine: InstalledMachine, node: Json) -> bytes:
    """A golden record with the UID of a Node that a scenario has made."""
    return document.replace(machine.machine.settings.node_uid.encode(), node["metadata"]["uid"].encode())


def settings_for(
    machine: InstalledMachine,
    namespace: str,
    *,
    mapping: Mapping[str, Any] | None = None,
    gpu: Mapping[str, Any] | None = None,
    provider: ProviderSettings | None = None,
    host: Mapping[str, Any] | None = None,
    lldp: Mapping[str, Any] | None = None,
    port: int = 0,
) -> BrokerSettings:
    """Settings of a broker on a simulated machine, without the loader's lower bounds.

    Args:
        machine: Whose sysfs and lldpctl are used.
        namespace: Of everything.
        mapping: Fields of :class:`RailMappingSettings`.
        gpu: Fields of :class:`GpuSourceSettings`.
        provider: Instead of none.
        host: Fields of :class:`HostSettings`.
        lldp: Fields of :class:`HostLldpSettings`.
        port: Of the endpoints; 0 takes a free one.
    """
    rails = machine.machine.settings
    defaults: dict[str, Any] = {
        "refresh_interval": Duration(0.25),
        "start_jitter": Duration(0),
        "verify_interval": Duration(0.1),
        "rail_source": RailSourceSettings(
            host_lldp=HostLldpSettings(
                **{
                    "interface_regex": rails.interface_regex,
                    "rail_id": rails.rail_id,
                    "timeout": Duration(5),
                    **(lldp or {}),
                }
            )
        ),
        "gpu_source": GpuSourceSettings(
            **{"gpu_operator_namespace": namespace, "timeout": Duration(5), **(gpu or {})},
        ),
    }
    return BrokerSettings(
        node_metadata=NodeMetadataSettings(
            plugins=PluginsSettings(gpu_nic_rail_mapping=RailMappingSettings(**defaults | dict(mapping or {}))),
            provider=provider or ProviderSettings(),
        ),
        host=HostSettings(
            **{"sysfs_root": str(machine.sysfs_root), "lldpctl": str(machine.lldpctl), **(host or {})},
        ),
        server=ServerSettings(address="127.0.0.1", port=port),
        logging=LoggingSettings(level="error"),
    )


def chassis_provider(interface_regex: str = ".*", *, refresh: float = 0.25) -> ProviderSettings:
    """The provider ``lldp``."""
    return ProviderSettings(
        name="lldp",
        lldp=ProviderLldpSettings(interface_regex=interface_regex, refresh_interval=Duration(refresh)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A broker that runs.

    Attributes:
        url: Of its endpoints.
        session: To ask them.
    """

    url: str
    session: aiohttp.ClientSession

    async def health(self) -> tuple[int, Json]:
        """Status and report of ``/healthz``."""
        async with self.session.get(f"{self.url}/healthz") as response:
            return response.status, await response.json()

    async def live(self) -> bool:
        """Whether ``/livez`` says so."""
        async with self.session.get(f"{self.url}/livez") as response:
            return response.status == 200

    async def metrics(self) -> dict[str, float]:
        """All samples of ``/metrics`` by ``name{label="value",…}``, labels sorted."""
        async with self.session.get(f"{self.url}/metrics") as response:
            text = await response.text()
        return {
            sample.name
            + ("{" + ",".join(f'{k}="{v}"' for k, v in sorted(sample.labels.items())) + "}" if sample.labels else ""): (
                sample.value
            )
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    async def healthy(self, *, within: float = 15) -> None:
        """Wait for 200."""

        async def condition() -> bool:
            status, report = await self.health()
            assert status == 200, report
            return True

        await eventually(condition, within=within, what="the broker is healthy")

    async def unhealthy(self, step: str, *fragments: str, within: float = 15) -> Json:
        """Wait for 503 with this step and a reason that contains all fragments, while the process is alive."""

        async def condition() -> Json:
            status, report = await self.health()
            assert status == 503, report
            assert report["step"] == step, report
            assert all(fragment in report["reason"] for fragment in fragments), report
            assert report["since"].endswith("Z")
            return report

        report = await eventually(condition, within=within, what=f"the broker is unhealthy at {step}")
        assert await self.live(), "liveness depends on the outside"
        return report


@contextlib.asynccontextmanager
async def running(
    settings: BrokerSettings, identity: Identity, access: Access, *, pace: Pace = QUICK
) -> AsyncIterator[Running]:
    """A broker in this process, stopped and awaited afterwards."""
    stop = asyncio.Event()
    urls: list[str] = []
    broker = Broker(settings, identity, access=access, pace=pace, rng=random.Random(1))
    task = asyncio.create_task(broker.run(stop, lambda host, port: urls.append(f"http://{host}:{port}")))
    try:
        await eventually(lambda: urls or task.done(), within=10, what="the broker serves its endpoints", interval=0.005)
        if not urls:
            task.result()
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
            yield Running(url=urls[0], session=session)
    finally:
        stop.set()
        await task


@dataclass(slots=True, kw_only=True)
class Site:
    """A Node with its machine in a world of its own, on any API server.

    Attributes:
        world: The namespace and what is in it.
        machine: The simulated machine.
        node: The Node object.
        kubelet: What answers exec on the Node.
        kubeconfig: Credentials for a broker.
    """

    world: World
    machine: InstalledMachine
    node: Json
    kubelet: FakeKubelet | None
    kubeconfig: Path
    daemon_set: Json = field(default_factory=dict)
    deployment: Json = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The Node's."""
        name: str = self.node["metadata"]["name"]
        return name

    @property
    def identity(self) -> Identity:
        """The broker's environment."""
        return Identity(node=self.name, namespace=self.world.namespace)

    @property
    def path(self) -> str:
        """Of the shared ConfigMap."""
        return self.world.path("configmaps", CONFIG_MAP)

    def expected(self) -> bytes:
        """The record that must stand in the ConfigMap."""
        return for_node(golden(self.machine.directory.name), self.machine, self.node)

    def settings(self, **options: Any) -> BrokerSettings:
        """As :func:`settings_for`."""
        return settings_for(self.machine, self.world.namespace, **options)

    def running(
        self, *, pace: Pace = QUICK, kubeconfig: Path | None = None, access: Access | None = None, **options: Any
    ) -> contextlib.AbstractAsyncContextManager[Running]:
        """The broker of this site, as :func:`running`; the options are those of :meth:`settings`."""
        access = access or KubeconfigAccess(kubeconfig or self.kubeconfig)
        return running(self.settings(**options), self.identity, access, pace=pace)

    async def make_config_map(self, data: Mapping[str, str] | None = None, **fields: Any) -> Json:
        """What the observer makes: an object that its Deployment controls."""
        if not self.deployment:
            self.deployment = await self.world.deployment(OBSERVER)
        return await self.world.api.create(
            self.world.path("configmaps"),
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": CONFIG_MAP,
                    "ownerReferences": [reference("apps/v1", "Deployment", self.deployment)],
                },
                **({} if data is None else {"data": dict(data)}),
                **fields,
            },
        )

    async def config_map(self) -> Json | None:
        """The ConfigMap as it is."""
        return await self.world.api.get_or_none(self.path)

    async def record(self) -> bytes | None:
        """This Node's value, byte for byte."""
        found = await self.config_map()
        value = (found or {}).get("data", {}).get(self.name)
        return None if value is None else value.encode()

    async def published(
        self, expected: Callable[[bytes | None], bool] | bytes | None = None, *, within: float = 15
    ) -> None:
        """Wait until this Node's value is the expected one: by default that of the machine."""
        wanted = self.expected() if expected is None else expected

        async def condition() -> bool:
            value = await self.record()
            assert wanted(value) if callable(wanted) else value == wanted, f"{value!r}"
            return True

        await eventually(condition, within=within, what=f"the record of {self.name} is published")

    async def make_operator(self, **options: Any) -> Json:
        """The GPU Operator's DaemonSet and its pod on this Node; the kubelet answers from the machine's captures."""
        self.daemon_set = self.daemon_set or await self.world.daemon_set(DAEMON_SET)
        self.answer()
        return await self.world.pod(self.daemon_set, self.name, **options)

    def answer(self) -> None:
        """Let the kubelet answer from the machine's captures."""
        assert self.kubelet is not None
        for command in Command:
            done = self.machine.run_nvidia_smi(command.argv)
            reply = exits(done.exit_status, done.stdout, done.stderr) if done.exit_status else succeeds(done.stdout)
            self.kubelet.answers(command.argv, reply)


async def make_site(
    world: World, machine: InstalledMachine, kubeconfig: Path, kubelet: FakeKubelet | None = None
) -> Site:
    """A site whose Node exists and nothing else."""
    node = await world.node(world.unique(machine.machine.name), kubelet_port=kubelet.port if kubelet else None)
    return Site(world=world, machine=machine, node=node, kubelet=kubelet, kubeconfig=kubeconfig)


async def cpu_site(control_plane: ControlPlane, world: World, folder: Path) -> Site:
    """A Node with rails and without GPUs on a real API server; its broker needs nothing else."""
    machine = install("cpu-only", folder / "cpu-only")
    return await make_site(world, machine, control_plane.kubeconfig(folder / "kubeconfig"))


async def good(site: Site, broker: Running) -> None:
    """Wait until the broker is healthy and the record stands."""
    await broker.healthy()
    await site.published()
    assert (await broker.metrics())['nicrails_broker_duty_done{duty="rails-record"}'] == 1
