"""The harness itself: what the other tests of this folder take for granted."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from tests.cluster import programs
from tests.cluster.api import Api, RefusedError
from tests.cluster.controlplane import ControlPlane, ControlPlaneError
from tests.cluster.flags import ISSUER
from tests.cluster.world import World, reference
from tests.support.endpoint import ApiEndpoint
from tests.support.waiting import eventually, eventually_sync

pytestmark = pytest.mark.needs("control-plane")


class TestControlPlane:
    """A real API server that tests can disturb."""

    async def test_is_a_real_api_server(self, control_plane: ControlPlane) -> None:
        """The endpoint is a kube-apiserver that knows its version and takes the administrator's token."""
        async with Api.on(control_plane.endpoint) as api:
            version = await api.get("/version")
            assert version["major"] == "1"
            assert version["gitVersion"] != "v0.0.0", "the version stamp is missing"
            review = await api.create(
                "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
            )
        assert "system:masters" in review["status"]["userInfo"]["groups"]

    async def test_wants_a_token(self, control_plane: ControlPlane) -> None:
        """A made-up token is a 401, and nobody's requests are a 403."""
        for token, status in (("made-up", 401), (None, 403)):
            stranger = ApiEndpoint(url=control_plane.endpoint.url, ca_file=control_plane.endpoint.ca_file, token=token)
            async with Api.on(stranger) as api:
                assert (await api.ask("GET", "/api/v1/nodes")).status == status

    async def test_comes_back_with_its_data(self, control_plane: ControlPlane, world: World) -> None:
        """An outage refuses connections, and the same server with the same data is back after it."""
        made = await world.node(world.unique("node"))
        with control_plane.outage(), pytest.raises(aiohttp.ClientConnectionError):
            await world.api.get("/version")
        assert (await world.api.get(f"/api/v1/nodes/{world.unique('node')}"))["metadata"] == made["metadata"]

    async def test_freezes(self, control_plane: ControlPlane) -> None:
        """A frozen API server takes connections and answers none until it is resumed."""
        async with Api.on(control_plane.endpoint) as api:
            with control_plane.frozen(), pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await api.get("/version")
            assert await api.get("/version")

    @pytest.mark.needs("garbage-collector")
    async def test_collects_garbage(self, world: World) -> None:
        """A ConfigMap goes when the Deployment that owns it goes."""
        owner = await world.deployment()
        body = {"metadata": {"name": "owned", "ownerReferences": [reference("apps/v1", "Deployment", owner)]}}
        await world.api.create(world.path("configmaps"), body)
        await world.api.delete(world.path("deployments", owner["metadata"]["name"], group="apis/apps/v1"))

        async def gone() -> bool:
            return await world.api.get_or_none(world.path("configmaps", "owned")) is None

        await eventually(gone, within=30, what="the owned ConfigMap is collected")

    async def test_issues_tokens_bound_to_a_pod(self, control_plane: ControlPlane, world: World) -> None:
        """A pod's token authenticates as its account and names the pod's Node, as a mounted one does."""
        node = world.unique("node")
        await world.node(node)
        pod = await world.pod(await world.daemon_set(), node)
        token = control_plane.service_account_token(world.namespace, "workload", pod=pod["metadata"]["name"])
        holder = ApiEndpoint(url=control_plane.endpoint.url, ca_file=control_plane.endpoint.ca_file, token=token)
        async with Api.on(holder) as api:
            review = await api.create(
                "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
            )
        user = review["status"]["userInfo"]
        assert user["username"] == f"system:serviceaccount:{world.namespace}:workload"
        assert user["extra"]["authentication.kubernetes.io/node-name"] == [node]

    def test_says_why_a_token_is_refused(self, control_plane: ControlPlane) -> None:
        """No token for an account that does not exist, and the sentence names it."""
        with pytest.raises(ControlPlaneError, match=r"serviceaccounts/nobody/token: 404 .*not found"):
            control_plane.service_account_token("default", "nobody", audiences=[ISSUER])

    async def test_grants_what_is_asked(self, control_plane: ControlPlane, world: World) -> None:
        """An account may do what its rules say and nothing else."""
        await world.service_account(
            "reader", rules=[{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
        )
        token = control_plane.service_account_token(world.namespace, "reader")
        holder = ApiEndpoint(url=control_plane.endpoint.url, ca_file=control_plane.endpoint.ca_file, token=token)
        async with Api.on(holder) as api:

            async def allowed() -> bool:
                return (await api.ask("GET", world.path("configmaps"))).status == 200

            await eventually(allowed, within=5, what="the new role is in force")
            assert (await api.ask("GET", world.path("secrets"))).status == 403

    def test_its_kubeconfig_works(self, control_plane: ControlPlane, tmp_path: Path) -> None:
        """The kubeconfig carries all that a client needs."""
        path = control_plane.kubeconfig(tmp_path / "kubeconfig")
        assert path.stat().st_mode & 0o077 == 0
        assert control_plane.endpoint.url in path.read_text()

    def test_shows_the_log_of_a_server_that_does_not_start(self) -> None:
        """A control plane that cannot come up says so at once, with the log."""
        with (
            pytest.raises(ControlPlaneError, match=r"(?s)kube-apiserver ended while it started.*no-such-option"),
            ControlPlane.running(programs.find(), api_server_args=["--no-such-option"], controllers=[]),
        ):
            pytest.fail("came up with an unknown option")

    def test_two_at_once_do_not_meet(self, control_plane: ControlPlane) -> None:
        """A second control plane has its own address and its own data."""
        with ControlPlane.running(programs.find(), controllers=[]) as other:
            assert other.endpoint.url != control_plane.endpoint.url
            assert other.endpoint.token != control_plane.endpoint.token
            assert (
                other.request("GET", "/api/v1/namespaces/default")["metadata"]["uid"]
                != control_plane.request("GET", "/api/v1/namespaces/default")["metadata"]["uid"]
            )

    def test_ends_with_a_killed_run(self) -> None:
        """A test run that is killed leaves no process and no folder behind."""
        script = (
            "import os, sys, time\n"
            "from tests.cluster import programs\n"
            "from tests.cluster.controlplane import ControlPlane\n"
            "with ControlPlane.running(programs.find()) as plane:\n"
            "    print(plane.folder, *plane.pids, flush=True)\n"
            "    time.sleep(60)\n"
        )
        root = Path(__file__).parents[2]
        with subprocess.Popen([sys.executable, "-c", script], cwd=root, stdout=subprocess.PIPE, text=True) as run:
            assert run.stdout is not None
            folder, *pids = run.stdout.readline().split()
            assert len(pids) >= 2
            run.send_signal(signal.SIGKILL)
        eventually_sync(
            lambda: not Path(folder).exists() and not any(Path("/proc", pid, "exe").exists() for pid in pids),
            within=10,
            what=f"{folder} and processes {pids} are gone",
        )


class TestWorld:
    """Objects that go when the scenario ends."""

    async def test_leaves_nothing(self, control_plane: ControlPlane) -> None:
        """Nodes, roles, pods that terminate and the namespace itself are gone after the world."""
        async with World.on(control_plane.endpoint) as world:
            node = world.unique("node")
            await world.node(node)
            await world.service_account(
                "x", cluster_rules=[{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]
            )
            pod = await world.pod(await world.daemon_set(), node)
            await world.delete_pod(pod["metadata"]["name"], grace=600)
            left = await world.api.get(world.path("pods", pod["metadata"]["name"]))
            assert left["metadata"]["deletionTimestamp"]
            namespace = world.namespace
        async with Api.on(control_plane.endpoint) as api:
            assert await api.get_or_none(f"/api/v1/nodes/{node}") is None
            role = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/x-{namespace.removeprefix('test-')}"
            assert await api.get_or_none(role) is None

            async def gone() -> bool:
                return await api.get_or_none(f"/api/v1/namespaces/{namespace}") is None

            if "kube-controller-manager" in programs.find():
                await eventually(gone, within=30, what=f"namespace {namespace} is gone")

    async def test_says_what_was_refused(self, world: World) -> None:
        """A precondition that the API server refuses fails the scenario with the server's own words."""
        with pytest.raises(RefusedError, match=r"POST .*422 .*Invalid value"):
            await world.node("Not_A_Name")

    async def test_pods_are_as_a_kubelet_reports_them(self, world: World) -> None:
        """A pod is on its Node, is its DaemonSet's, and has the phase and readiness that were asked for."""
        node = world.unique("node")
        await world.node(node)
        daemon_set = await world.daemon_set()
        for phase, ready in (("Running", True), ("Running", False), ("Pending", True)):
            pod = await world.pod(daemon_set, node, phase=phase, ready=ready)
            assert pod["spec"]["nodeName"] == node
            assert pod["status"]["phase"] == phase
            [condition] = [c["status"] for c in pod["status"]["conditions"] if c["type"] == "Ready"]
            assert condition == ("True" if ready and phase == "Running" else "False")
            [owner] = pod["metadata"]["ownerReferences"]
            assert (owner["uid"], owner["controller"]) == (daemon_set["metadata"]["uid"], True)
