"""What a stolen broker token can do with the admission policies on, on a real API server, and what it is told."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import pytest_asyncio

from nicrails.kube import ForbiddenError, KubeClient, KubeconfigAccess, exec_in_pod
from nicrails_broker.sources import Command
from tests.broker.site import DAEMON_SET
from tests.chart import paths
from tests.chart.combinations import ANNOTATIONS, EVERYTHING, POLICIES
from tests.chart.helm import Helm, Json
from tests.chart.stage import ANNOTATION, Stage
from tests.cluster.api import MERGE_PATCH, Answer, Api
from tests.cluster.controlplane import ControlPlane
from tests.cluster.fixtures import StartControlPlane
from tests.cluster.kubelet import FakeKubelet, succeeds
from tests.cluster.world import reference
from tests.support.endpoint import ApiEndpoint
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs("helm", "control-plane")


class Thief:
    """Who has the token of a Node's broker.

    Attributes:
        node: The Node's name.
        config_map: The path of the ConfigMap of the records.
        api: The API server, with the token.
    """

    def __init__(self, stage: Stage, node: str, api: Api, kubeconfig: Path) -> None:
        self._stage = stage
        self._kubeconfig = kubeconfig
        self.config_map = stage.config_map
        self.node = node
        self.api = api

    async def patch(self, body: Json, path: str = "") -> Answer:
        """A merge patch, of the ConfigMap unless said otherwise."""
        return await self.api.ask("PATCH", path or self.config_map, body, headers={"Content-Type": MERGE_PATCH})

    async def annotate(self, body: Json, node: str = "") -> Answer:
        """A merge patch of a Node's metadata."""
        return await self.patch({"metadata": body}, f"/api/v1/nodes/{node or self.node}")

    async def exec(self, command: Sequence[str], pod: str = f"{DAEMON_SET}-00000", namespace: str = "") -> bytes:
        """Run a command; its output."""
        async with KubeClient(KubeconfigAccess(self._kubeconfig), user_agent="thief") as client:
            output = await exec_in_pod(
                client,
                namespace=namespace or self._stage.operator.namespace,
                pod=pod,
                container="nvidia-device-plugin",
                command=command,
                time_limit=10,
                max_output=1 << 20,
            )
        return output.stdout

    async def try_exec(self, command: Sequence[str], pod: str = f"{DAEMON_SET}-00000", **options: str) -> Answer:
        """Ask for an exec without a WebSocket, for an answer with a whole message."""
        query = urlencode([*(("command", word) for word in command), ("stdout", "true"), *options.items()])
        return await self.api.ask("POST", f"{self._stage.operator.path('pods', pod)}/exec?{query}")


@contextlib.asynccontextmanager
async def thief_of(stage: Stage, node: str, *, bound: bool = True) -> AsyncIterator[Thief]:
    """Steal a broker's token."""
    token = await stage.token(node if bound else None)
    endpoint = ApiEndpoint(url=stage.plane.endpoint.url, ca_file=stage.plane.endpoint.ca_file, token=token)
    async with Api.on(endpoint) as api:
        yield Thief(stage, node, api, await stage.kubeconfig(token))


@pytest_asyncio.fixture
async def stage(control_plane: ControlPlane, helm: Helm, kubelet: FakeKubelet, tmp_path: Path) -> AsyncIterator[Stage]:
    """A release with all policies, Nodes ``a`` and ``b`` with brokers, and the records of both."""
    async with Stage.on(control_plane, helm, kubelet, tmp_path, ANNOTATIONS, POLICIES) as stage:
        nodes = [(await stage.node(stem))["metadata"]["name"] for stem in ("a", "b")]
        made = await stage.world.api.get(stage.world.path("deployments", "nicrails-observer", group="apis/apps/v1"))
        metadata = {"name": "topograph-nic-rails", "ownerReferences": [reference("apps/v1", "Deployment", made)]}
        config_map = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": dict.fromkeys(nodes, "old"),
        }
        await stage.world.api.create(stage.world.path("configmaps"), config_map)
        async with thief_of(stage, nodes[0]) as thief:
            await in_force(thief)
        yield stage


async def in_force(thief: Thief) -> None:
    """Wait until the API server has taken notice of all policies, which takes it a second or two."""

    async def denied() -> bool:
        # Dry runs, for a change that was made once is no change any more.
        answers = [
            await thief.patch({"data": {"x": "y"}}, f"{thief.config_map}?dryRun=All"),
            await thief.patch({"metadata": {"labels": {"x": "y"}}}, f"/api/v1/nodes/{thief.node}?dryRun=All"),
        ]
        assert all(answer.status == 403 for answer in answers)
        with pytest.raises(ForbiddenError, match="denied request"):
            await thief.exec(["true"])
        return True

    async def condition() -> bool:
        try:
            return await denied()
        except pytest.fail.Exception as error:
            raise AssertionError(str(error)) from error

    await eventually(condition, within=20, what="the policies are in force", interval=0.1)


@pytest_asyncio.fixture
async def thief(stage: Stage) -> AsyncIterator[Thief]:
    """Who has the token of the broker on ``a``."""
    async with thief_of(stage, next(iter(stage.pods))) as made:
        yield made


def denial(answer: Answer, policy: str) -> str:
    """The message of a 403 by this policy; fails for any other answer."""
    body = answer.json()
    assert (answer.status, body["reason"]) == (403, "Forbidden"), body
    head, _, message = body["message"].partition(" denied request: ")
    assert f"ValidatingAdmissionPolicy 'nicrails-{policy}." in head, body
    return str(message)


async def test_the_own_key_may_be_changed(stage: Stage, thief: Thief) -> None:
    """A broker can set, change and remove its own Node's key, as its program does it."""
    uid = (await stage.world.api.get(stage.config_map))["metadata"]["uid"]
    for value in ("new", "newer", None, None, "again"):
        body = {"metadata": {"uid": uid, "managedFields": [{}]}, "data": {thief.node: value}}
        answer = await thief.patch(body)
        assert answer.status == 200, answer.body
        assert (await stage.records() or {}).get(thief.node) == value


async def test_no_other_key_may_be_touched(stage: Stage, thief: Thief) -> None:
    """Adding, changing and removing another key is denied, also beside the own one; the message names Node and key."""
    before = await stage.records()
    _, other = stage.pods
    may_only = f"the broker on Node {thief.node} may change only the key of that Node, not "
    for data, named in (
        ({other: "forged"}, other),
        ({other: None}, other),
        ({"no-node-at-all": "x"}, "no-node-at-all"),
        ({thief.node: "x", other: "forged"}, other),
        ({other: None, "c": "x", "d": "x"}, f"{other} and 2 more"),
    ):
        assert denial(await thief.patch({"data": data}), "record") == may_only + named
    assert denial(await thief.patch({"data": None}), "record") == may_only + other
    replaced = [{"op": "replace", "path": "/data", "value": {}}]
    answer = await thief.api.ask(
        "PATCH", stage.config_map, replaced, headers={"Content-Type": "application/json-patch+json"}
    )
    assert denial(answer, "record") == may_only + other
    assert await stage.records() == before


async def test_nothing_but_the_key_may_be_touched(stage: Stage, thief: Thief) -> None:
    """The rest of the ConfigMap is not a broker's: it can neither be disowned nor frozen nor marked."""
    before = await stage.world.api.get(stage.config_map)
    for body in (
        {"immutable": True},
        {"binaryData": {"x": "eA=="}},
        {"metadata": {"labels": {"x": "y"}}},
        {"metadata": {"annotations": {"x": "y"}}},
        {"metadata": {"ownerReferences": None}},
        {"metadata": {"finalizers": ["example.com/x"]}},
    ):
        for beside in ({}, {"data": {thief.node: "x"}}):
            said = denial(await thief.patch({**body, **beside}), "record")
            assert said.endswith("not labels, annotations, owners, finalizers, binaryData or immutable"), body
    assert await stage.world.api.get(stage.config_map) == before


async def test_a_token_of_no_pod_may_do_nothing(stage: Stage) -> None:
    """A token of the account that was made without a pod names no Node, so no key and no Node is its own."""
    node = next(iter(stage.pods))
    async with thief_of(stage, node, bound=False) as thief:
        assert "belongs to no pod" in denial(await thief.patch({"data": {node: "x"}}), "record")
        assert "belongs to no pod" in denial(await thief.annotate({"annotations": {ANNOTATION: "x"}}), "node")
        with pytest.raises(ForbiddenError, match="belongs to no pod"):
            await thief.exec(Command.TOPOLOGY.argv)


async def test_only_the_two_commands_may_be_run(stage: Stage, thief: Thief) -> None:
    """The broker's two commands run; any other, also one that begins like them, is denied with the two named."""
    for command in Command:
        assert await thief.exec(command.argv) == stage.machine.run_nvidia_smi(command.argv).stdout
    asked = len(stage.kubelet.asked)
    for argv in (
        ["sh", "-c", "id"],
        ["nvidia-smi"],
        ["nvidia-smi", "topo", "-m", "-x"],
        ["nvidia-smi", "topo -m"],
        ["nvidia-smi", "--gpu-reset"],
        [*Command.TOPOLOGY.argv, ";", "id"],
        ["/tmp/nvidia-smi", "topo", "-m"],
    ):
        said = denial(await thief.try_exec(argv), "exec")
        assert said.startswith(
            f'a broker may not run "{" ".join(argv)}", only "nvidia-smi topo -m" and "nvidia-smi --query'
        )
        with pytest.raises(ForbiddenError, match="denied request: a broker may not run"):
            await thief.exec(argv)
    said = denial(await thief.try_exec(["sh", "-c", "id\nid"]), "exec")
    assert said.startswith('a broker may not run this command, only "nvidia-smi topo -m"')
    assert len(stage.kubelet.asked) == asked, "a denied command reached a kubelet"


async def test_standard_input_and_a_terminal_are_denied(stage: Stage, thief: Thief) -> None:
    """A good command with standard input or a terminal is denied, for that is no broker."""
    for option in ("stdin", "tty"):
        answer = await thief.try_exec(Command.TOPOLOGY.argv, **{option: "true"})
        assert "without standard input and without a terminal" in denial(answer, "exec")


async def test_no_other_pod_and_no_other_namespace(stage: Stage, thief: Thief) -> None:
    """The commands may be run in the DaemonSet's pods alone; outside the namespace there is no permission to begin with."""
    stage.kubelet.answers(Command.TOPOLOGY.argv, succeeds(b"run"))
    await stage.operator.pod(stage.plugin, thief.node, name="driver-x7k2p")
    for pod in ("driver-x7k2p", f"{DAEMON_SET}-2-00000", f"x-{DAEMON_SET}-00000", f"{DAEMON_SET}-0000"):
        said = denial(await thief.try_exec(Command.TOPOLOGY.argv, pod), "exec")
        assert said == f"a broker may run commands only in pods of DaemonSet {stage.operator.namespace}/{DAEMON_SET}"
        with pytest.raises(ForbiddenError, match="denied request"):
            await thief.exec(Command.TOPOLOGY.argv, pod=pod)
    with pytest.raises(ForbiddenError, match=r"cannot (get|create) resource"):
        await thief.exec(Command.TOPOLOGY.argv, pod=stage.pods[thief.node], namespace=stage.world.namespace)


async def test_of_nodes_only_the_own_annotation(stage: Stage, thief: Thief) -> None:
    """The broker may set and remove its annotation on its own Node; anything else on any Node is denied."""
    for value in ("mac:44:38:39:00:00:01", "mac:44:38:39:00:00:02", None):
        answer = await thief.annotate({"annotations": {ANNOTATION: value}})
        assert answer.status == 200, answer.body
    _, other = stage.pods
    said = denial(await thief.annotate({"annotations": {ANNOTATION: "x"}}, other), "node")
    assert said == f"the broker on Node {thief.node} may annotate only that Node, not {other}"
    for body in (
        {"labels": {"x": "y"}},
        {"annotations": {"x": "y"}},
        {"annotations": {ANNOTATION: "x", "y": "z"}},
        {"annotations": {"kept": None}},
        {"finalizers": ["example.com/x"]},
    ):
        await stage.world.api.merge_patch(f"/api/v1/nodes/{thief.node}", {"metadata": {"annotations": {"kept": "x"}}})
        said = denial(await thief.annotate(body), "node")
        assert said == f"the broker on Node {thief.node} may change nothing of it but the annotation {ANNOTATION}"
    taint = {"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}}
    assert "may change nothing of it" in denial(await thief.patch(taint, f"/api/v1/nodes/{thief.node}"), "node")


async def test_nobody_else_is_concerned(stage: Stage) -> None:
    """An administrator, and the observer with its own account, are not held by the brokers' policies."""
    await stage.world.api.merge_patch(stage.config_map, {"data": {"anything": "x"}, "metadata": {"labels": {"x": "y"}}})
    await stage.world.api.merge_patch(stage.config_map, {"data": {"anything": None}})
    for name in stage.pods:
        await stage.world.api.merge_patch(stage.config_map, {"data": {name: None}})
    async with stage.observer() as observer:
        await stage.observer_job()
        await observer.healthy()


@pytest.mark.parametrize(("keys", "size"), [(5000, 180), (250, 4100)], ids=["5000-keys", "full-records"])
async def test_a_full_configmap_is_no_obstacle(stage: Stage, thief: Thief, keys: int, size: int) -> None:
    """With as many keys as there may be, the own key is changed and a foreign one denied, each within two seconds."""
    await stage.world.api.merge_patch(
        stage.config_map, {"data": {f"n{number:04}": "x" * size for number in range(keys)}}
    )
    start = time.monotonic()
    assert (await thief.patch({"data": {thief.node: "new"}})).status == 200
    assert "not n0000" in denial(await thief.patch({"data": {"n0000": "new"}}), "record")
    assert time.monotonic() - start < 4


async def test_the_server_finds_no_fault_in_the_expressions(start_control_plane: StartControlPlane, helm: Helm) -> None:
    """Kubernetes' own type check of the policies has no warning, and it has looked at each."""
    plane = start_control_plane(controllers=["validatingadmissionpolicy-status-controller"])
    policies = helm.template(EVERYTHING).all("ValidatingAdmissionPolicy")
    async with Api.on(plane.endpoint) as api:
        await paths.make(api, policies)

        async def checked() -> list[Any]:
            found = [await api.get(paths.path(policy)) for policy in policies]
            assert all(item["status"]["observedGeneration"] for item in found if item.setdefault("status", {}))
            assert all(item["status"] for item in found)
            return found

        for item in await eventually(checked, within=30, what="all policies are type-checked", interval=0.1):
            assert item["status"]["typeChecking"].get("expressionWarnings", []) == []
