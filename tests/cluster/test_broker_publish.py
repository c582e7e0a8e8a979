"""The broker's publication on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from nicrails import NodeUid, PciAddress, RailId, decode
from nicrails.kube import KubeClient, KubeconfigAccess
from nicrails.service import Health
from nicrails_broker.discovery import Discovery
from nicrails_broker.events import Publication
from nicrails_broker.failures import Pace, PublishError, Retry
from nicrails_broker.loop import DutyLoop
from nicrails_broker.node import ApiNode
from nicrails_broker.publisher import ConfigMapStore, Target
from nicrails_broker.reconciler import Reconciler
from nicrails_broker.sources.rails import Rails
from tests.broker.relay import Relay
from tests.broker.site import CONFIG_MAP, OBSERVER, Site, cpu_site, install, make_site
from tests.cluster.controlplane import ControlPlane
from tests.cluster.kubelet import FakeKubelet
from tests.cluster.world import World
from tests.support import faults
from tests.support.proxy import FaultProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs("control-plane")

RULES = (
    {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [CONFIG_MAP], "verbs": ["get", "patch"]},
    {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"]},
)
"""All that a broker needs in the two namespaces, which are one here."""
NODE_RULES = ({"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},)


def store(client: KubeClient, world: World, key: str) -> ConfigMapStore:
    """A store for any key."""
    target = Target(namespace=world.namespace, config_map=CONFIG_MAP, key=key, observer=OBSERVER)
    return ConfigMapStore(client=client, target=target)


def client_of(kubeconfig: Path) -> KubeClient:
    """A client of its own."""
    return KubeClient(KubeconfigAccess(kubeconfig), user_agent="nicrails-broker/test")


async def test_a_gpu_nodes_record_is_published_with_the_documented_permissions_only(
    control_plane: ControlPlane, world: World, kubelet: FakeKubelet, tmp_path: Path
) -> None:
    """A broker with exactly the documented RBAC rules publishes its Node's golden record, byte for byte."""
    await world.service_account("broker", rules=RULES, cluster_rules=NODE_RULES)
    token = await asyncio.to_thread(control_plane.service_account_token, world.namespace, "broker")
    machine = install("h100-8gpu-dual-port", tmp_path / "h100-8gpu-dual-port")
    site = await make_site(world, machine, control_plane.kubeconfig(tmp_path / "kubeconfig", token=token), kubelet)
    await site.make_operator()
    await site.make_config_map()
    async with site.running() as broker:
        await site.published()
        await broker.healthy()
        metrics = await broker.metrics()
    assert metrics["nicrails_broker_record_size_bytes"] == len(site.expected())
    assert [metrics[f"nicrails_broker_record_{what}"] for what in ("rails", "nics", "gpus")] == [8, 16, 8]
    assert kubelet.most_at_once == 1
    assert {asked.command for asked in kubelet.asked} == {
        ("nvidia-smi", "--query-gpu=index,uuid,pci.bus_id", "--format=csv,noheader"),
        ("nvidia-smi", "topo", "-m"),
    }


class OneRail:
    """A rail source whose answer differs from Node to Node."""

    name = "host-lldp"

    def __init__(self, number: int) -> None:
        self._number = number

    async def discover(self) -> Rails:
        """Answer."""
        return {PciAddress(f"{self._number:04x}:1a:00.0"): (RailId(f"rail{self._number}"),)}


# A contended patch takes the server up to 34 s before it gives up, and the next try comes after a back-off.
@pytest.mark.timeout(200)
async def test_two_hundred_brokers_publish_at_once(control_plane: ControlPlane, world: World, tmp_path: Path) -> None:
    """All 200 records stand byte for byte after 200 brokers have patched one ConfigMap at the same moment."""
    site = await cpu_site(control_plane, world, tmp_path)
    await site.make_config_map()
    names = [world.unique(f"n{number}") for number in range(200)]
    uids = {name: (await world.node(name))["metadata"]["uid"] for name in names}
    health = Health(names)
    async with contextlib.AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(_owned_tasks())
        for number, name in enumerate(names):
            client = await stack.enter_async_context(client_of(site.kubeconfig))
            rng = random.Random(number)
            reconciler = Reconciler(
                discovery=Discovery(rails=OneRail(number), gpus=None, node=ApiNode(client, name), emit=lambda _: None),
                store=store(client, world, name),
                refresh=0,
                verify=60,
                settle=45,
                emit=lambda _: None,
                rng=rng,
            )
            loop = DutyLoop(
                duty=health[name], once=reconciler.once, pace=Pace(), rng=rng, emit=lambda _: None, start_jitter=0
            )
            tasks.append(asyncio.create_task(loop.run()))
        await eventually(lambda: health.healthy, within=150, what="all 200 have published")
    found = await site.config_map()
    assert found is not None
    assert found["data"] == {
        name: (
            f'{{"gpus":{{}},"nics":{{"{number:04x}:1a:00.0":["rail{number}"]}},"nodeUID":"{uids[name]}",'
            '"railSource":"host-lldp","schemaVersion":"v1alpha1"}'
        )
        for number, name in enumerate(names)
    }
    assert "managedFields" not in found["metadata"]


@contextlib.asynccontextmanager
async def _owned_tasks() -> Any:
    tasks: list[asyncio.Task[None]] = []
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_second_of_two_equal_publications_sends_nothing(
    control_plane: ControlPlane, world: World, tmp_path: Path
) -> None:
    """While nothing changes, discoveries and looks go on and no patch is sent; the object is not touched."""
    site = await cpu_site(control_plane, world, tmp_path)
    await site.make_config_map()
    async with FaultProxy(control_plane.endpoint) as proxy:
        async with site.running(kubeconfig=proxy.kubeconfig(tmp_path / "proxied")) as broker:
            await site.published()
            before = await site.config_map()

            async def refreshed() -> bool:
                metrics = await broker.metrics()
                return metrics['nicrails_broker_publications_total{result="unchanged"}'] >= 8

            await eventually(refreshed, within=20, what="eight equal publications")
        assert len(proxy.requests("PATCH")) == 1
        assert await site.config_map() == before


async def test_a_publication_moves_as_many_bytes_as_the_record_has(
    control_plane: ControlPlane, world: World, tmp_path: Path
) -> None:
    """Look and patch together cost the same bytes on the wire beside 1, 100 and 1,000 other records."""
    site = await cpu_site(control_plane, world, tmp_path)
    await site.make_config_map()
    record = site.expected()
    port = URL(control_plane.endpoint.url).port
    assert port is not None
    counts = {}
    for others in (1, 100, 1000):
        data = {f"other-{number}": "x" * 900 for number in range(others)}
        await world.api.merge_patch(site.path, {"metadata": {"managedFields": [{}]}, "data": data})
        async with Relay.to(port) as relay:
            async with client_of(relay.kubeconfig(site.kubeconfig, tmp_path / "relayed")) as client:
                assert await store(client, world, site.name).put(record) is Publication.WRITTEN
                assert await store(client, world, site.name).put(None) is Publication.REMOVED
            counts[others] = relay.count
    assert max(counts.values()) - min(counts.values()) < 400, counts
    # Two looks and two patches with their headers, and one TLS handshake.
    assert max(counts.values()) < len(record) + 12_000, counts


async def test_the_first_publication_ends_the_servers_book_keeping(
    control_plane: ControlPlane, world: World, tmp_path: Path
) -> None:
    """Where the server notes a manager of every key, one publication ends that, also while others publish."""
    site = await cpu_site(control_plane, world, tmp_path)
    made = await site.make_config_map()
    assert made["metadata"]["managedFields"]
    await world.api.merge_patch(site.path, {"data": {f"other-{number}": "x" for number in range(300)}})
    async with client_of(site.kubeconfig) as client:
        await asyncio.gather(*(store(client, world, f"n{number}").put(b"{}") for number in range(40)))
    found = await site.config_map()
    assert found is not None
    assert "managedFields" not in found["metadata"]
    assert len(found["data"]) == 340
    # What comes later without our patch is not noted either, so no other client can make it grow again by a plain patch.
    await world.api.merge_patch(site.path, {"data": {"plain": "x"}})
    assert "managedFields" not in (await site.config_map() or {})["metadata"]


async def test_a_repeated_patch_writes_nothing(control_plane: ControlPlane, world: World, tmp_path: Path) -> None:
    """A patch that is repeated, a removal included, leaves the object's version as it is."""
    site = await cpu_site(control_plane, world, tmp_path)
    await site.make_config_map()
    async with client_of(site.kubeconfig) as client:
        for record in (b"{}", None):
            versions = set()
            for _ in range(3):
                await store(client, world, "n1").put(record)
                versions.add((await site.config_map() or {})["metadata"]["resourceVersion"])
            assert len(versions) == 1


async def test_the_uid_is_a_precondition(control_plane: ControlPlane, world: World, tmp_path: Path) -> None:
    """A ConfigMap that is replaced between look and patch is not written, and the record gets into the new one."""
    site = await cpu_site(control_plane, world, tmp_path)
    await site.make_config_map()
    release = asyncio.Event()
    async with (
        FaultProxy(control_plane.endpoint) as proxy,
        client_of(proxy.kubeconfig(tmp_path / "proxied")) as client,
    ):
        with proxy.rule(faults.held(release), method="PATCH", times=1):
            put = asyncio.create_task(store(client, world, "n1").put(b"{}"))
            await eventually(lambda: proxy.requests("PATCH"), within=10, what="the patch is under way")
            await world.api.delete(site.path)
            await eventually(lambda: _gone(site), within=20, what="the ConfigMap is gone")
            await site.make_config_map()
            release.set()
            with pytest.raises(PublishError, match="was replaced at this moment") as caught:
                await put
    assert caught.value.retry is Retry.SOON
    assert "data" not in (await site.config_map() or {})


async def _gone(site: Site) -> bool:
    return await site.config_map() is None


@pytest.mark.parametrize(
    "fault",
    [faults.cut, faults.cut_after, faults.answer_after(504, b"gateway"), faults.html(502)],
    ids=lambda f: f.__qualname__,
)
@pytest.mark.fault("F3")
async def test_a_publication_of_unknown_outcome_is_repeated(
    control_plane: ControlPlane, world: World, tmp_path: Path, fault: Any
) -> None:
    """F3: a patch whose answer is lost or replaced by a gateway's is sent again, and the record stands."""
    site = await cpu_site(control_plane, world, tmp_path)
    await site.make_config_map()
    async with FaultProxy(control_plane.endpoint) as proxy:
        with proxy.rule(fault, method="PATCH", times=2):
            async with site.running(kubeconfig=proxy.kubeconfig(tmp_path / "proxied")) as broker:
                await broker.healthy()
                metrics = await broker.metrics()
        assert len(proxy.requests("PATCH")) == 3
    assert metrics['nicrails_broker_publications_total{result="failed"}'] == 2
    assert metrics['nicrails_broker_failures_total{duty="rails-record",step="publish"}'] == 2
    assert await site.record() == site.expected()


@pytest.mark.fault("B11")
async def test_a_node_that_is_made_anew_gets_a_record_of_its_own(
    control_plane: ControlPlane, world: World, tmp_path: Path
) -> None:
    """B11: after the Node was deleted and made again under its name, the record has the new UID."""
    site = await cpu_site(control_plane, world, tmp_path)
    await site.make_config_map()
    async with site.running() as broker:
        await site.published()
        old = site.expected()
        await world.delete_node(site.name)
        await broker.unhealthy("read-node", f"Node {site.name} does not exist")
        assert await site.record() == old
        site.node = await world.node(site.name)
        await site.published()
        await broker.healthy()
    assert decode(await site.record() or b"").node_uid == NodeUid(site.node["metadata"]["uid"])


@pytest.mark.fault("B12")
async def test_two_brokers_of_one_node_agree(control_plane: ControlPlane, world: World, tmp_path: Path) -> None:
    """B12: two brokers of one Node publish the same bytes, so the second changes nothing and neither fails."""
    site = await cpu_site(control_plane, world, tmp_path)
    await site.make_config_map()
    async with site.running() as first:
        await site.published()
        version = (await site.config_map() or {})["metadata"]["resourceVersion"]
        async with site.running() as second:
            await second.healthy()
            await first.healthy()
        assert (await site.config_map() or {})["metadata"]["resourceVersion"] == version
