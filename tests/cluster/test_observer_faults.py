"""What the observer outlives, on a real API server behind a proxy that misbehaves."""

from __future__ import annotations

import asyncio
import itertools
import json
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import structlog
from aiohttp import web

from nicrails.kube import InClusterAccess
from tests.cluster.controlplane import ControlPlane
from tests.cluster.pki import Authority
from tests.observer.observing import Observing, observing, quick_settings
from tests.observer.scene import Scene
from tests.support import faults
from tests.support.ports import reserve_port
from tests.support.proxy import Exchange, Fault, FaultProxy, LineEdit
from tests.support.waiting import eventually

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


async def _collects(scene: Scene, observer: Observing, records: dict[str, str]) -> None:
    """The observer does its work: a Node's record goes, the others stay; the Node is taken out of ``records``."""
    name = next(iter(records))
    await scene.world.delete_node(name)
    del records[name]
    await scene.until_records(records, within=40)
    await observer.until_healthy(within=40)


@pytest.mark.fault("F1")
async def test_an_api_server_that_refuses_connections(scene: Scene) -> None:
    """F1: without an API server the observer is unhealthy and alive, says whom it can not reach, and recovers alone."""
    async with scene.observer() as observer:
        records = await scene.published(["a", "b"])
        await observer.until_metric("configmap_records", 2)
        async with scene.proxy.refusing():
            for duty in ("configmap", "nodes"):
                await observer.until_unhealthy(duty, "no usable answer from the API server", str(scene.proxy.port))
            name = next(iter(records))
            await scene.world.delete_node(name)
        del records[name]
        await scene.until_records(records, within=40)
        await observer.until_healthy(within=40)
        await _collects(scene, observer, records)


@pytest.mark.fault("F1")
@pytest.mark.fault("O13")
async def test_an_api_server_that_restarts(control_plane: ControlPlane, tmp_path: Path) -> None:
    """F1, O13: the observer outlives a restart of the API server, lists the Nodes anew and goes on."""
    async with Scene.on(control_plane.endpoint, tmp_path) as scene:
        await scene.node("other")
        access = control_plane.kubeconfig(tmp_path / "direct")
        async with observing(access, scene.world.namespace) as observer:
            await observer.until_healthy()
            records = await scene.published(["a", "b"])
            await asyncio.to_thread(control_plane.stop_api_server, graceful=True)
            try:
                await observer.until_unhealthy("nodes", "no usable answer from the API server")
            finally:
                await asyncio.to_thread(control_plane.start_api_server)
            await observer.until_healthy(within=40)
            await observer.until_metric("node_lists_total", 2)
            await _collects(scene, observer, records)


@pytest.mark.fault("F2")
async def test_a_busy_api_server_is_given_time(scene: Scene) -> None:
    """F2: after a 429 the next try comes no sooner than it was asked for, and the outcome counts as known."""
    async with scene.observer() as observer:
        records = await scene.published(["a", "b"])
        with scene.proxy.rule(faults.too_many_requests(2), method="PATCH", times=2):
            await scene.world.delete_node(next(iter(records)))
            await observer.until_unhealthy("garbage-collection", "remove", "asks to wait", "429")
            assert await scene.records() == records
            del records[next(iter(records))]
            await scene.until_records(records)
        tries = [seen.at for seen in scene.proxy.requests("PATCH")]
        assert len(tries) == 3
        assert all(later - earlier >= 2 for earlier, later in itertools.pairwise(tries))
        assert await observer.metric("patches_total", outcome="unknown") == 0
        await observer.until_healthy()


@pytest.mark.fault("F2")
async def test_a_busy_api_server_at_start(scene: Scene) -> None:
    """F2: a list that is put off by a 429 is asked again only after the time that was asked for."""
    with scene.proxy.rule(faults.too_many_requests(1), path=NODES, times=1):
        async with scene.observer() as observer:
            first, second = [seen.at for seen in scene.proxy.requests("GET", NODES, watch=False)][:2]
            assert second - first >= 1
            assert await observer.metric("failures_total", duty="nodes") == 1


@pytest.mark.fault("F3")
@pytest.mark.parametrize("code", [500, 502, 503, 504])
async def test_a_server_that_fails_reads(scene: Scene, code: int) -> None:
    """F3: while every read is answered by an HTML error the observer is unhealthy and removes nothing; then it goes on."""
    async with scene.observer() as observer:
        records = await scene.published(["a", "b"])
        with scene.proxy.rule(faults.html(code), method="GET"):
            scene.proxy.cut_all()
            for duty in ("configmap", "nodes"):
                await observer.until_unhealthy(duty, f"{code} ", "nginx")
            await scene.world.delete_node(next(iter(records)))
            assert await scene.records() == records
        del records[next(iter(records))]
        await scene.until_records(records, within=40)
        await observer.until_healthy(within=40)


@pytest.mark.fault("F3")
@pytest.mark.parametrize(
    "fault",
    [faults.answer_after(504), faults.cut_after, faults.html(503), faults.cut],
    ids=["504 after it was done", "cut after it was done", "503 instead", "cut instead"],
)
async def test_a_patch_of_unknown_outcome(scene: Scene, fault: Fault) -> None:
    """F3: whether an unanswered patch was done or not, in the end the record is gone, counted once, and no other is."""
    async with scene.observer() as observer:
        records = await scene.published(["a", "b"])
        with scene.proxy.rule(fault, method="PATCH", times=1):
            await _collects(scene, observer, records)
        assert await observer.metric("patches_total", outcome="unknown") == 1
        assert await observer.metric("removals_total", reason="node-gone") == 1


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
        await _collects(scene, observer, records)


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


@pytest.mark.fault("F8")
@pytest.mark.fault("O12")
async def test_a_watch_that_falls_silent(scene: Scene) -> None:
    """F8, O12: on a dead connection the watch is given up after the time of silence, and the list repairs the view."""
    async with scene.observer(silence=1.0) as observer:
        records = await scene.published(["a", "b"])
        await observer.until_metric("configmap_records", 2)
        restarts = await observer.metric("watch_restarts_total", reason="silent")
        scene.proxy.flowing.clear()
        name = next(iter(records))
        await scene.world.delete_node(name)
        await observer.until_metric("watch_restarts_total", restarts + 1, reason="silent")
        await observer.until_unhealthy("nodes", "no answer in time")
        assert await scene.records() == records
        scene.proxy.flowing.set()
        del records[name]
        await scene.until_records(records, within=40)
        await observer.until_healthy(within=40)


@pytest.mark.fault("F9")
@pytest.mark.parametrize("hours", [-9, 9])
async def test_a_wall_clock_that_is_set(scene: Scene, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    """F9: setting the time of day by hours changes nothing, for every wait goes by the monotonic clock."""
    async with scene.observer() as observer:
        records = await scene.published(["a", "b", "c"])
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + hours * 3600)
        await _collects(scene, observer, records)
        scene.proxy.cut_all()
        await _collects(scene, observer, records)


@pytest.mark.fault("F12")
async def test_proxies_of_the_environment_are_ignored(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """F12: proxy variables that lead nowhere do not keep the observer from the API server."""
    dead = f"http://127.0.0.1:{reserve_port()}"
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, dead)
        monkeypatch.setenv(name.lower(), dead)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with scene.observer() as observer:
        records = await scene.published(["a", "b"])
        await _collects(scene, observer, records)


@pytest.mark.fault("F14")
async def test_a_flood_of_words_is_cut(scene: Scene) -> None:
    """F14: long and strange words of a server are cut and made printable in the health report and in the log."""
    words = b"\x1b[31m" + b"x" * 100_000
    async with scene.observer() as observer:
        with structlog.testing.capture_logs() as logs, scene.proxy.rule(faults.answer(500, words)):
            scene.proxy.cut_all()
            await observer.until_unhealthy("nodes", "500")
            said = await observer.until_unhealthy("configmap", "500", "xxx")
        assert len(said["reason"]) < 1024
        assert said["reason"].isprintable()
        assert all(len(str(event)) < 2048 for event in logs)
        await observer.until_healthy(within=40)


@pytest.mark.fault("O11")
@pytest.mark.parametrize("times", [1, 2])
async def test_a_list_that_expires_on_the_way(scene: Scene, times: int) -> None:
    """O11: where a page's token has expired the list starts over, and half a list never counts as a list."""
    names = [(await scene.node(f"page-{number:03}"))[0] for number in range(60)]
    expired = 0

    async def expire(exchange: Exchange) -> web.StreamResponse:
        nonlocal expired
        if "continue" not in exchange.seen.query or expired == times:
            return await exchange.forward()
        expired += 1
        return await faults.status(410, "Expired")(exchange)

    with scene.proxy.rule(expire, method="GET", path=NODES, watch=False):
        async with scene.observer() as observer:
            assert expired == times
            assert await observer.metric("node_lists_total") == 1
            assert await observer.metric("nodes") >= len(names)


@pytest.mark.fault("O12")
@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (faults.cut_mid_event, "cut"),
        (faults.instead_of_event(b'{"type":"SURPRISE","object":{"metadata":{"resourceVersion":"1"}}}\n'), "cut"),
        (faults.instead_of_event(b"<html>proxy</html>\n"), "cut"),
        (faults.instead_of_event(b'{"type":"ADDED","object":{"metadata":{}}}\n'), "cut"),
        (faults.instead_of_event(b"x" * (9 * 1024 * 1024)), "cut"),
        (
            faults.instead_of_event(
                faults.event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
            ),
            "gone",
        ),
        (
            faults.instead_of_event(
                faults.event("ERROR", {"kind": "Status", "code": 500, "reason": "InternalError", "message": "etcd"})
            ),
            "refused",
        ),
    ],
    ids=["half an event", "unknown type", "garbage", "no version", "too long", "410", "500"],
)
async def test_a_watch_that_goes_wrong(scene: Scene, edit: LineEdit, reason: str) -> None:
    """O12: whatever comes instead of an event, the Nodes are listed anew and no event is lost or made up."""
    with scene.proxy.rule(faults.lines(edit), path=NODES, watch=True, times=1):
        async with scene.observer() as observer:
            records = await scene.published(["a", "b"])
            await observer.until_metric("watch_restarts_total", 1, reason=reason)
            await observer.until_metric("node_lists_total", 2)
            await _collects(scene, observer, records)
            assert await observer.metric("removals_total", reason="node-gone") == 1


@pytest.mark.fault("O12")
async def test_events_that_come_twice(scene: Scene) -> None:
    """O12: duplicates change nothing: a Node that is replaced loses its old record once and keeps the new one."""
    with scene.proxy.rule(faults.lines(faults.twice), path=NODES, watch=True):
        async with scene.observer() as observer:
            records = await scene.published(["a", "b"])
            name = next(iter(records))
            await scene.world.delete_node(name)
            await scene.world.node(name)
            del records[name]
            await scene.until_records(records)
            removed = [
                await observer.metric("removals_total", reason=reason) for reason in ("node-gone", "node-replaced")
            ]
            assert sum(removed) == 1
            assert await observer.metric("node_lists_total") == 1
            await observer.until_healthy()


@pytest.mark.fault("O12")
async def test_a_watch_that_the_server_ends_in_time_goes_on(scene: Scene) -> None:
    """O12: a watch that ends without an error goes on where it was, without another list."""
    with scene.proxy.rule(faults.watch_then(), path=NODES, watch=True, times=2):
        async with scene.observer() as observer:
            await observer.until_metric("watch_restarts_total", 2, reason="timeout")
            records = await scene.published(["a", "b"])
            await _collects(scene, observer, records)
            assert await observer.metric("node_lists_total") == 1


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
                await _collects(scene, observer, records)

                pod.token(tokens[1])
                failures = await observer.metric("failures_total", duty="configmap")
                revoked.add(tokens[0])
                await _collects(scene, observer, records)
                assert await observer.metric("failures_total", duty="configmap") == failures
                assert any(f"Bearer {tokens[1]}" == seen.headers.get("Authorization") for seen in front.seen)

                revoked.add(tokens[1])
                await observer.until_unhealthy("configmap", "does not accept the observer's credentials", "401")
                assert await scene.records() == records
                pod.token(tokens[2] + "\n")
                await observer.until_healthy(within=40)
                await _collects(scene, observer, records)


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
            await _collects(scene, observer, records)


@pytest.mark.fault("F10")
async def test_stopping_in_the_middle_of_a_patch(scene: Scene) -> None:
    """F10: told to stop during a patch the observer ends soon, says so until then, and the records are whole either way."""
    async with scene.observer() as observer:
        records = await scene.published(["a", "b"])
        with scene.proxy.rule(faults.silence, method="PATCH") as rule:
            await scene.world.delete_node(next(iter(records)))
            await eventually(lambda: rule.used, within=20, what="the patch is under way")
            started = time.monotonic()
            observer.stop.set()
            await eventually(lambda: not observer.app.health.healthy, within=5, what="the observer says that it stops")
            await observer.task
            assert time.monotonic() - started < 5
        assert await scene.records() == records
    async with scene.observer():
        del records[next(iter(records))]
        await scene.until_records(records)


async def test_disabled_it_idles(scene: Scene) -> None:
    """With ``enabled: false`` the observer is healthy and asks the API server for nothing."""
    async with scene.observer(settings=quick_settings(enabled=False)) as observer:
        _, body = await observer.get("/healthz")
        assert json.loads(body) == {"status": "healthy", "duties": {}}
        assert scene.proxy.seen == []
