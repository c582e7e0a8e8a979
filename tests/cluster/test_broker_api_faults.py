"""Faults of the API server and of the way to it, as the broker lives through them.

Each scenario checks what health says, what stands in the ConfigMap byte by byte, and that the broker recovers by itself.
"""

from __future__ import annotations

import asyncio
import io
import json
import ssl
import time
from pathlib import Path

import pytest
import pytest_asyncio
from yarl import URL

from nicrails.kube import InClusterAccess, KubeClient
from nicrails.service import logs
from nicrails_broker.failures import Pace
from tests.broker.site import CONFIG_MAP, Site, cpu_site, good
from tests.cluster.controlplane import ControlPlane
from tests.cluster.pki import Authority
from tests.cluster.world import World
from tests.support import faults
from tests.support.proxy import FaultProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs("control-plane")


@pytest_asyncio.fixture
async def site(control_plane: ControlPlane, world: World, tmp_path: Path) -> Site:
    """A Node with rails and without GPUs; the ConfigMap is the scenario's business."""
    return await cpu_site(control_plane, world, tmp_path)


class ServiceAccount:
    """The folder that a pod gets its credentials in."""

    def __init__(self, folder: Path, url: str, authority: Path) -> None:
        folder.mkdir()
        self._folder = folder
        host, port = URL(url).host, URL(url).port
        self.access = InClusterAccess(
            environ={"KUBERNETES_SERVICE_HOST": str(host), "KUBERNETES_SERVICE_PORT": str(port)}, directory=folder
        )
        self.trust(authority)

    def trust(self, authority: Path) -> None:
        """Write the certificate authority."""
        (self._folder / "ca.crt").write_bytes(authority.read_bytes())

    def token(self, token: str | None) -> None:
        """Write the token, or remove its file."""
        if token is None:
            (self._folder / "token").unlink()
        else:
            (self._folder / "token").write_text(token)


@pytest.mark.fault("F1")
async def test_no_api_server_at_the_start_and_later(control_plane: ControlPlane, site: Site, tmp_path: Path) -> None:
    """F1: without an API server the broker lives, is not ready, says why, and publishes as soon as there is one."""
    await site.make_config_map()
    async with FaultProxy(control_plane.endpoint) as proxy:
        await proxy.refuse()
        async with site.running(kubeconfig=proxy.kubeconfig(tmp_path / "proxied")) as broker:
            await broker.unhealthy("read-node", "Connect call failed")
            await proxy.listen()
            await good(site, broker)
            async with proxy.refusing():
                await broker.unhealthy("publish", f"can not read ConfigMap {site.world.namespace}/{CONFIG_MAP}")
                assert await site.record() == site.expected()
            await good(site, broker)


@pytest.mark.fault("F1")
async def test_a_restart_of_the_api_server(control_plane: ControlPlane, site: Site) -> None:
    """F1: a restart of the real API server is outlived."""
    await site.make_config_map()
    async with site.running() as broker:
        await good(site, broker)
        await asyncio.to_thread(control_plane.stop_api_server)
        await broker.unhealthy("publish")
        await asyncio.to_thread(control_plane.start_api_server)
        await good(site, broker)


@pytest.mark.fault("F1")
async def test_an_api_server_whose_name_does_not_resolve(site: Site, tmp_path: Path) -> None:
    """F1: a name that can not be resolved is a failure like any other."""
    kubeconfig = tmp_path / "unresolved"
    kubeconfig.write_text(site.kubeconfig.read_text().replace("https://127.0.0.1", "https://api.invalid"))
    async with site.running(kubeconfig=kubeconfig) as broker:
        await broker.unhealthy("read-node", "api.invalid")


@pytest.mark.fault("F2")
async def test_the_server_asks_to_wait(control_plane: ControlPlane, site: Site, tmp_path: Path) -> None:
    """F2: after a 429 the next request comes no sooner than Retry-After says, and nothing is taken for unknown."""
    await site.make_config_map()
    async with FaultProxy(control_plane.endpoint) as proxy:
        with proxy.rule(faults.too_many_requests(1), method="PATCH", times=1) as rule:
            async with site.running(kubeconfig=proxy.kubeconfig(tmp_path / "proxied")) as broker:
                await eventually(lambda: rule.used, within=10, what="the patch was refused")
                refused, asked = time.monotonic(), len(proxy.seen)
                report = await broker.unhealthy("publish", "429 Too Many Requests")
                assert "not known" not in report["reason"]
                await eventually(lambda: len(proxy.seen) > asked, within=10, what="the broker asks again")
                assert time.monotonic() - refused >= 0.9
                await good(site, broker)


@pytest.mark.parametrize("code", [500, 502, 503, 504])
@pytest.mark.fault("F3")
async def test_error_pages_on_every_request(control_plane: ControlPlane, site: Site, tmp_path: Path, code: int) -> None:
    """F3: HTML instead of JSON, first on every request and then on writes, is outlived; the sentence shows it."""
    await site.make_config_map()
    async with FaultProxy(control_plane.endpoint) as proxy:
        with proxy.rule(faults.html(code), method="PATCH"):
            with proxy.rule(faults.html(code)) as everything:
                broker_runs = site.running(kubeconfig=proxy.kubeconfig(tmp_path / "proxied"))
                broker = await broker_runs.__aenter__()
                await broker.unhealthy("read-node", str(code), "<html>")
                everything.times = 0
            await broker.unhealthy("publish", str(code), "<html>", "it is sent again")
            assert await site.record() is None
        await good(site, broker)
        await broker_runs.__aexit__(None, None, None)


@pytest.mark.fault("F3")
async def test_success_that_is_no_json(control_plane: ControlPlane, site: Site, tmp_path: Path) -> None:
    """F3: a captive portal that says 200 with a page of its own is not taken for an API server."""
    await site.make_config_map()
    async with FaultProxy(control_plane.endpoint) as proxy:
        async with site.running(kubeconfig=proxy.kubeconfig(tmp_path / "proxied")) as broker:
            await good(site, broker)
            with proxy.rule(faults.html(200)):
                await broker.unhealthy("publish", "the answer is not JSON", "a proxy may stand between")
            await good(site, broker)


@pytest.mark.fault("F4")
async def test_a_token_that_the_server_does_not_take(control_plane: ControlPlane, site: Site, tmp_path: Path) -> None:
    """F4: a 401 is told as such; with a good token in the file the broker goes on by itself."""
    await site.make_config_map()
    account = ServiceAccount(tmp_path / "sa", control_plane.endpoint.url, control_plane.authority.file)
    account.token("no such token")
    async with site.running(access=account.access) as broker:
        await broker.unhealthy("read-node", "401 Unauthorized")
        account.token(control_plane.endpoint.token)
        await good(site, broker)


@pytest.mark.fault("F6")
async def test_a_token_file_that_goes_and_comes(control_plane: ControlPlane, site: Site, tmp_path: Path) -> None:
    """F6: a trailing newline is no part of the token, and while its file is missing the last good one is used."""
    await site.make_config_map()
    account = ServiceAccount(tmp_path / "sa", control_plane.endpoint.url, control_plane.authority.file)
    account.token(f"{control_plane.endpoint.token}\n")
    async with site.running(access=account.access) as broker:
        await good(site, broker)
        account.token(None)
        account.access.reload()
        before = (await broker.metrics())["nicrails_broker_last_publication_timestamp_seconds"]

        async def later() -> bool:
            return (await broker.metrics())["nicrails_broker_last_publication_timestamp_seconds"] > before

        await eventually(later, within=10, what="the broker goes on without the file")
        await good(site, broker)


@pytest.mark.fault("F7")
async def test_the_certificate_authority_changes(control_plane: ControlPlane, site: Site, tmp_path: Path) -> None:
    """F7: a server certificate of a new authority is refused until the pod has the authority, and then taken."""
    await site.make_config_map()

    def server(folder: Path) -> tuple[ssl.SSLContext, Path]:
        folder.mkdir()
        authority = Authority(folder)
        pair = authority.issue("server", common_name="server", addresses=["127.0.0.1"])
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pair.certificate, pair.key)
        return context, authority.file

    (old, old_authority), (new, new_authority) = server(tmp_path / "old"), server(tmp_path / "new")
    async with FaultProxy(control_plane.endpoint, tls=old) as proxy:
        account = ServiceAccount(tmp_path / "sa", proxy.url, old_authority)
        account.token(control_plane.endpoint.token)
        async with site.running(access=account.access) as broker:
            await good(site, broker)
            await proxy.refuse()
            await proxy.listen(tls=new)
            await broker.unhealthy("publish", "certificate")
            assert await site.record() == site.expected()
            account.trust(new_authority)
            await good(site, broker)


@pytest.mark.fault("F5")
async def test_permissions_come_later(control_plane: ControlPlane, site: Site, world: World, tmp_path: Path) -> None:
    """F5: a 403 is told with what to grant; as the permissions come the broker goes on, without a restart."""
    await site.make_config_map()
    nodes = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
    useless = {"apiGroups": [""], "resources": ["events"], "verbs": ["get"]}
    user = await world.service_account("broker", cluster_rules=[useless])
    role = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{world.unique('broker')}"
    token = await asyncio.to_thread(control_plane.service_account_token, world.namespace, "broker")
    async with site.running(kubeconfig=control_plane.kubeconfig(tmp_path / "unprivileged", token=token)) as broker:
        await broker.unhealthy("read-node", "403", user, "needs get on nodes")
        await world.api.merge_patch(role, {"rules": [nodes]})
        await broker.unhealthy("publish", "403", "needs get on that ConfigMap")
        config_maps = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
        await world.api.merge_patch(role, {"rules": [nodes, config_maps]})
        await broker.unhealthy("publish", "403", "needs patch on that ConfigMap")
        assert await site.record() is None
        await world.api.merge_patch(role, {"rules": [nodes, {**config_maps, "verbs": ["get", "patch"]}]})
        await good(site, broker)


@pytest.mark.fault("F8")
async def test_a_connection_that_is_dead_without_saying_so(
    control_plane: ControlPlane, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F8: a server that takes requests and never answers is noticed by the time limit; that limit is below 75 s."""
    limits = KubeClient.request.__kwdefaults__
    assert limits is not None
    assert limits["timeout"] <= 75
    monkeypatch.setitem(limits, "timeout", 0.5)
    await site.make_config_map()
    async with FaultProxy(control_plane.endpoint) as proxy:
        async with site.running(kubeconfig=proxy.kubeconfig(tmp_path / "proxied")) as broker:
            await good(site, broker)
            with proxy.rule(faults.silence):
                await broker.unhealthy("publish", "no answer in time")
            await good(site, broker)


@pytest.mark.fault("F8")
async def test_a_frozen_api_server(control_plane: ControlPlane, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """F8: a real API server that is frozen, with its connections open, is noticed and outlived."""
    assert KubeClient.request.__kwdefaults__ is not None
    monkeypatch.setitem(KubeClient.request.__kwdefaults__, "timeout", 1.0)
    await site.make_config_map()
    async with site.running() as broker:
        await good(site, broker)
        with control_plane.frozen():
            await broker.unhealthy("publish", "no answer in time")
        await good(site, broker)


@pytest.mark.parametrize("hours", [-30, 30])
@pytest.mark.fault("F9")
async def test_the_wall_clock_jumps(site: Site, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    """F9: a wall clock that is set by hours neither stops the looks nor causes a write."""
    await site.make_config_map()
    async with site.running() as broker:
        await good(site, broker)
        version = (await site.config_map() or {})["metadata"]["resourceVersion"]
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + hours * 3600)
        before = await broker.metrics()
        unchanged = 'nicrails_broker_publications_total{result="unchanged"}'

        async def three_more() -> bool:
            return (await broker.metrics())[unchanged] >= before[unchanged] + 3

        await eventually(three_more, within=10, what="three more looks")
        await good(site, broker)
        assert (await site.config_map() or {})["metadata"]["resourceVersion"] == version


@pytest.mark.fault("F12")
async def test_proxy_variables_are_ignored(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """F12: the API server is reached directly, whatever proxy the environment names."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    await site.make_config_map()
    async with site.running() as broker:
        await good(site, broker)


@pytest.mark.fault("F14")
async def test_a_fault_that_lasts_does_not_flood_the_log(site: Site) -> None:
    """F14: the same failure, many times a second, is one line; server messages are cut."""
    stream = io.StringIO()
    logs.configure("info", stream)
    pace = Pace(initial=0.01, cap=0.01, slowly=0.01)
    async with site.running(pace=pace) as broker:

        async def often() -> bool:
            return (await broker.metrics()).get(
                'nicrails_broker_failures_total{duty="rails-record",step="publish"}', 0
            ) > 30

        await eventually(often, within=20, what="thirty failures")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len([line for line in lines if line["event"] == "step-failed"]) == 1
    assert all(len(str(value)) <= 1024 for line in lines for value in line.values())
