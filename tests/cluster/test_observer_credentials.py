"""Permissions, tokens and certificates that come and go, on a real API server."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web

from nicrails.kube import InClusterAccess
from tests.cluster.controlplane import ControlPlane
from tests.cluster.pki import Authority
from tests.observer.observing import observing
from tests.observer.scene import Scene
from tests.support import faults
from tests.support.proxy import Exchange, FaultProxy

pytestmark = pytest.mark.needs("control-plane")

NODES = "^/api/v1/nodes$"

RULES = [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
    {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["topograph-nic-rails"],
        "verbs": ["get", "patch"],
    },
    {"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["nicrails-observer"], "verbs": ["get"]},
]
"""What the observer needs in its namespace."""
CLUSTER_RULES = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}]
"""What the observer needs in the cluster."""


@pytest_asyncio.fixture
async def scene(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Scene]:
    """A scene on the real API server, with a Node that stays."""
    async with Scene.on(control_plane.endpoint, tmp_path) as scene:
        await scene.node("other")
        yield scene


@pytest.mark.fault("F5")
async def test_permissions_that_come_later(scene: Scene, control_plane: ControlPlane) -> None:
    """F5: what may not be done is told as RBAC names it, tried slowly, and done as soon as it is granted."""
    user = await scene.world.service_account("observer")
    token = await asyncio.to_thread(control_plane.service_account_token, scene.world.namespace, "observer")
    async with scene.observer(healthy=False, access=scene.kubeconfig(token)) as observer:
        namespace = scene.world.namespace
        await observer.until_unhealthy("nodes", "may not list nodes", user)
        await observer.until_unhealthy(
            "configmap", f"get configmaps topograph-nic-rails in namespace {namespace}", user
        )
        tries = len(scene.proxy.seen)
        await asyncio.sleep(2)
        assert len(scene.proxy.seen) - tries <= 8
        await _grant(scene, user)
        await observer.until_healthy(within=50)
        records = await scene.published(["a", "b"])
        await scene.collects(observer, records)


async def _grant(scene: Scene, user: str) -> None:
    """The permissions of the documentation, and no others."""
    await scene.world.service_account("granted", rules=RULES, cluster_rules=CLUSTER_RULES)
    rbac = "apis/rbac.authorization.k8s.io/v1"
    subjects = [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}]
    for place, kind, name in (
        (f"/{rbac}/namespaces/{scene.world.namespace}", "rolebinding", "granted"),
        (f"/{rbac}", "clusterrolebinding", scene.world.unique("granted")),
    ):
        await scene.world.api.merge_patch(f"{place}/{kind}s/{name}", {"subjects": subjects})


@pytest.mark.fault("F5")
@pytest.mark.parametrize(
    ("method", "path", "watch", "duty", "words"),
    [
        ("GET", NODES, True, "nodes", "may not watch nodes"),
        ("GET", "/nodes/", False, "garbage-collection", "may not get nodes"),
        ("PATCH", "configmaps", False, "garbage-collection", "may not patch configmaps topograph-nic-rails"),
        ("GET", "deployments", False, "configmap", "may not get deployments.apps nicrails-observer"),
    ],
)
async def test_a_single_missing_permission(
    scene: Scene, method: str, path: str, *, watch: bool, duty: str, words: str
) -> None:
    """F5: whichever permission is missing, the duty that needs it names it; no record is lost, and it heals."""
    async with scene.observer(healthy=False) as observer:
        await observer.until_metric("configmap_owned", 1)
        records = await scene.published(["a", "b"])
        await observer.until_metric("configmap_records", 2)
        with scene.proxy.rule(faults.status(403, "Forbidden"), method=method, path=path, watch=watch):
            await scene.world.delete_node(next(iter(records)))
            scene.proxy.cut_all()
            await observer.until_unhealthy(duty, words)
        del records[next(iter(records))]
        await scene.until_records(records, within=50)
        await observer.until_healthy(within=50)


class _Pod:
    """A service account's files, and an API server's TLS front that tests can change."""

    def __init__(self, proxy: FaultProxy, folder: Path) -> None:
        self.folder = folder
        self.access = InClusterAccess(
            environ={"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(proxy.port)},
            directory=folder,
        )

    def token(self, text: str) -> None:
        """Rotate the token as the kubelet does: by a rename."""
        fresh = self.folder / "token.new"
        fresh.write_text(text)
        fresh.replace(self.folder / "token")


def _tls(authority: Authority, name: str) -> ssl.SSLContext:
    pair = authority.issue(name, common_name=name, addresses=["127.0.0.1"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    return context


@pytest.mark.fault("F4")
@pytest.mark.fault("F6")
async def test_a_token_that_rotates(scene: Scene, control_plane: ControlPlane, tmp_path: Path) -> None:
    """F4, F6: a refused token is read again at once; a missing file and a newline do no harm; a bad one is told."""
    tls = _tls(control_plane.authority, f"front-{scene.world.namespace}")
    await scene.world.service_account("observer", rules=RULES, cluster_rules=CLUSTER_RULES)
    tokens = [
        await asyncio.to_thread(control_plane.service_account_token, scene.world.namespace, "observer", seconds=seconds)
        for seconds in (3600, 3601, 3602)
    ]
    revoked: set[str] = set()

    async def refuse(exchange: Exchange) -> web.StreamResponse:
        if exchange.request.headers.get("Authorization") in {f"Bearer {token}" for token in revoked}:
            return await faults.status(401, "Unauthorized")(exchange)
        return await exchange.forward()

    async with FaultProxy(control_plane.endpoint, tls=tls) as front:
        pod = _Pod(front, tmp_path)
        (tmp_path / "ca.crt").write_bytes(control_plane.authority.file.read_bytes())
        pod.token(tokens[0] + "\n")
        with front.rule(refuse):
            async with observing(pod.access, scene.world.namespace) as observer:
                await observer.until_healthy()
                records = await scene.published(["a", "b", "c", "d"])
                (tmp_path / "token").unlink()
                await scene.collects(observer, records)

                pod.token(tokens[1])
                failures = await observer.metric("failures_total", duty="configmap")
                revoked.add(tokens[0])
                await scene.collects(observer, records)
                assert await observer.metric("failures_total", duty="configmap") == failures
                assert any(f"Bearer {tokens[1]}" == seen.headers.get("Authorization") for seen in front.seen)

                revoked.add(tokens[1])
                await observer.until_unhealthy("configmap", "does not accept the observer's credentials", "401")
                assert await scene.records() == records
                pod.token(tokens[2] + "\n")
                await observer.until_healthy(within=40)
                await scene.collects(observer, records)


@pytest.mark.fault("F7")
async def test_an_authority_that_rotates(scene: Scene, control_plane: ControlPlane, tmp_path: Path) -> None:
    """F7: a server with a certificate of a new authority is not trusted until the pod has that, and then at once."""
    folder = tmp_path / "new"
    folder.mkdir()
    new = Authority(folder, "new")
    assert control_plane.endpoint.token is not None
    async with FaultProxy(
        control_plane.endpoint, tls=_tls(control_plane.authority, f"old-{scene.world.namespace}")
    ) as front:
        pod = _Pod(front, tmp_path)
        (tmp_path / "ca.crt").write_bytes(control_plane.authority.file.read_bytes())
        pod.token(control_plane.endpoint.token)
        async with observing(pod.access, scene.world.namespace) as observer:
            await observer.until_healthy()
            records = await scene.published(["a", "b"])
            await front.refuse()
            await front.listen(tls=_tls(new, "front"))
            await observer.until_unhealthy("configmap", "certificate is not trusted")
            assert await scene.records() == records
            (tmp_path / "ca.crt").write_bytes(new.file.read_bytes())
            await observer.until_healthy(within=40)
            await scene.collects(observer, records)
