"""The project's chart on a real two-node cluster: two simulated GPU machines, a stand-in for the GPU Operator, a release."""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import aiohttp

from nicrails_faker.machines import InstalledMachine, shipped, write
from tests.chart.combinations import MAPPING, RECORDS
from tests.chart.helm import CHART, Helm, HelmError, Json, at, merged
from tests.cluster.api import Api
from tests.cluster.node import HOST
from tests.cluster.nodecluster import NodeCluster
from tests.e2e.images import TAG
from tests.support.waiting import eventually

RELEASE = "nicrails"
NAMESPACE = "nicrails-system"
OPERATOR = "gpu-operator"
PLUGIN = "nvidia-device-plugin-daemonset"
CONFIG_MAP = "topograph-nic-rails"
MACHINES = {"node1": "h100-8gpu-dualport", "node2": "gb200-4gpu"}
"""What each Node is."""

VALUES: Json = merged(
    RECORDS,
    at(f"{MAPPING}.startJitter", "0s"),
    at(f"{MAPPING}.refreshInterval", "2s"),
    at(f"{MAPPING}.verifyInterval", "1s"),
    at(f"{MAPPING}.gpuSource.timeout", "3s"),
    {
        "broker": {
            "image": {"tag": TAG},
            "hostPaths": {"sysfs": f"{HOST}/machine/sys", "lldpd": f"{HOST}/lldpd"},
            "updateStrategy": {"maxUnavailable": 1},
        },
        "observer": {"image": {"tag": TAG}, "checkInterval": "1s"},
        "tests": {"timeout": "60s"},
    },
)
"""The settings of the documentation on these Nodes, with short intervals."""


def rails(machine: str) -> list[str]:
    """The interfaces of a shipped machine that are on rails."""
    return [name for name in shipped(machine).netdevs if name.startswith("eth_r")]


@dataclass(slots=True, kw_only=True)
class Site:
    """A cluster and what is installed on it.

    Attributes:
        cluster: The two Nodes.
        helm: Speaks to the cluster as administrator.
        machines: What stands in each Node's host folder, by Node.
        api: The administrator's client; new for every test.
        installed: The values of the release; None: nobody knows, or there is none.
    """

    cluster: NodeCluster
    helm: Helm
    machines: dict[str, InstalledMachine]
    api: Api = field(init=False)
    installed: Json | None = None
    _broken: str = ""

    @classmethod
    @contextlib.contextmanager
    def on(cls, cluster: NodeCluster, folder: Path) -> Iterator[Self]:
        """Put machines on the Nodes and the GPU Operator's stand-in into the cluster."""
        machines = {
            name: write(shipped(machine), cluster.nodes[name].host / "machine") for name, machine in MACHINES.items()
        }
        for namespace in (OPERATOR, NAMESPACE):
            cluster.plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        cluster.plane.request("POST", f"/apis/apps/v1/namespaces/{OPERATOR}/daemonsets", operator())
        yield cls(cluster=cluster, helm=Helm(folder, cluster.kubeconfig), machines=machines)

    @contextlib.asynccontextmanager
    async def checked(self) -> AsyncIterator[None]:
        """What brings the cluster into the state that a test starts from; once that failed, it fails at once."""
        assert not self._broken, f"an earlier test left the cluster unusable: {self._broken}"
        try:
            yield
        except (AssertionError, HelmError) as error:
            self._broken = str(error)[:1000]
            raise

    # --- the release ---------------------------------------------------------------------------------------------

    def install(self, *values: Mapping[str, Any]) -> bool:
        """Install or upgrade the release with these values over :data:`VALUES`; False if it has exactly these."""
        wanted = merged(VALUES, *values)
        if wanted == self.installed:
            return False
        self.installed = None
        self.helm.run("upgrade", RELEASE, str(CHART), "--install", "--namespace", NAMESPACE, values=wanted)
        self.installed = wanted
        return True

    def rollback(self, revision: int) -> None:
        """Return to an earlier revision."""
        self.installed = None
        self.helm.run("rollback", RELEASE, str(revision), "--namespace", NAMESPACE)

    def revision(self) -> int:
        """The revision that is installed."""
        history = json.loads(self.helm.run("history", RELEASE, "--namespace", NAMESPACE, "--output", "json"))
        return int(history[-1]["revision"])

    def uninstall(self) -> None:
        """Take the release away, if it is there."""
        self.installed = None
        self.helm.run("uninstall", RELEASE, "--namespace", NAMESPACE, "--ignore-not-found", "--wait")

    def test(self) -> str:
        """``helm test``; the output.

        Raises:
            HelmError: A test failed; with the pods' words.
        """
        try:
            return self.helm.run("test", RELEASE, "--namespace", NAMESPACE, "--logs")
        except HelmError as error:
            said = self.cluster.kubectl("-n", NAMESPACE, "logs", f"{RELEASE}-verify", "--tail=20")
            raise HelmError(f"{error}\n{said}") from error

    # --- records -------------------------------------------------------------------------------------------------

    async def config_map(self, name: str = CONFIG_MAP) -> Json | None:
        """The ConfigMap of all records, if it is there."""
        return await self.api.get_or_none(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}")

    async def records(self, name: str = CONFIG_MAP) -> dict[str, str]:
        """The records by Node."""
        found = await self.config_map(name)
        return dict((found or {}).get("data") or {})

    async def golden(self, *nodes: str) -> dict[str, str]:
        """The records that must stand, with the UIDs of the Nodes as they are now."""
        expected: dict[str, str] = {}
        for name in nodes or tuple(MACHINES):
            machine = self.machines[name].machine
            assert machine.record is not None
            node = await self.api.get(f"/api/v1/nodes/{name}")
            expected[name] = machine.record.decode().replace(machine.settings.node_uid, node["metadata"]["uid"])
        return expected

    async def stand(self, *nodes: str, name: str = CONFIG_MAP, within: float = 60) -> None:
        """Wait until exactly the golden records of these Nodes (all, if none is named) stand."""

        async def right() -> bool:
            assert await self.records(name) == await self.golden(*nodes)
            return True

        await eventually(right, within=within, what=f"the golden records stand in {name}", interval=0.2)

    async def settled(self, within: float = 90) -> None:
        """Wait until all is as after an installation: pods ready, golden records, nothing else."""
        await self.ready(within=within)
        await self.stand(within=within)

    # --- pods ----------------------------------------------------------------------------------------------------

    async def pods(self, component: str, namespace: str = NAMESPACE) -> list[Json]:
        """The pods of ``broker`` or ``observer`` that are not going."""
        selector = f"app.kubernetes.io/component={component}"
        found = await self.api.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}")
        return [pod for pod in found["items"] if "deletionTimestamp" not in pod["metadata"]]

    async def broker(self, node: str) -> Json:
        """The broker's pod on a Node."""
        found = [pod for pod in await self.pods("broker") if pod["spec"].get("nodeName") == node]
        assert len(found) == 1, [pod["metadata"]["name"] for pod in found]
        return found[0]

    async def ready(self, *, brokers: int = 2, observers: int = 1, within: float = 90) -> None:
        """Wait until exactly so many brokers and observers are there and all are Ready."""

        async def all_ready() -> bool:
            for component, count in (("broker", brokers), ("observer", observers)):
                found = await self.pods(component)
                states = {pod["metadata"]["name"]: is_ready(pod) for pod in found}
                assert list(states.values()) == [True] * count, states
            return True

        await eventually(all_ready, within=within, what="all pods are Ready by their probes", interval=0.2)

    async def endpoint(self, pod: Json, path: str) -> tuple[int, str]:
        """Status and body of an endpoint of a pod, through the API server."""
        name = pod["metadata"]["name"]
        answer = await self.api.ask("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}:8080/proxy{path}")
        return answer.status, answer.body.decode()

    async def reason(self, node: str, *fragments: str, within: float = 60) -> Json:
        """Wait until the broker of a Node is unhealthy for a reason with all these fragments; the report."""

        async def condition() -> Json:
            status, body = await self.endpoint(await self.broker(node), "/healthz")
            assert status == 503, body
            assert all(fragment in body for fragment in fragments), body
            return dict(json.loads(body))

        return await eventually(
            condition, within=within, what=f"the broker of {node} says {' and '.join(fragments)}", interval=0.2
        )

    async def healthy(self, node: str, within: float = 60) -> None:
        """Wait until the broker of a Node is healthy."""

        async def condition() -> bool:
            status, body = await self.endpoint(await self.broker(node), "/healthz")
            assert status == 200, body
            return True

        await eventually(condition, within=within, what=f"the broker of {node} is healthy", interval=0.2)

    def run_in(self, pod: Json, *argv: str, namespace: str = NAMESPACE) -> str:
        """Run a command in a pod; its output."""
        return self.cluster.kubectl("-n", namespace, "exec", pod["metadata"]["name"], "--", *argv)

    def logs(self, pod: Json, *options: str) -> str:
        """What a pod logged."""
        return self.cluster.kubectl("-n", NAMESPACE, "logs", pod["metadata"]["name"], *options)

    async def operator_pod(self, node: str) -> Json:
        """The pod of the GPU Operator's stand-in on a Node that is not going."""
        found = await self.api.get(f"/api/v1/namespaces/{OPERATOR}/pods?labelSelector=app={PLUGIN}")
        there = [
            pod
            for pod in found["items"]
            if pod["spec"].get("nodeName") == node and "deletionTimestamp" not in pod["metadata"]
        ]
        assert len(there) == 1, [pod["metadata"]["name"] for pod in there]
        return dict(there[0])

    async def operator_ready(self, within: float = 60) -> None:
        """Wait until the GPU Operator's stand-in has a ready pod on each Node."""

        async def condition() -> bool:
            for node in MACHINES:
                assert is_ready(await self.operator_pod(node)), node
            return True

        await eventually(condition, within=within, what="the GPU Operator's pods are ready", interval=0.2)

    def describe(self) -> str:
        """Nodes, pods, records, what the pods said last and what happened last, for the report of a failed test."""
        parts = []
        for arguments in (
            ("get", "nodes"),
            ("get", "pods", "--all-namespaces", "-o", "wide"),
            ("-n", NAMESPACE, "get", "configmaps", CONFIG_MAP, "-o", "jsonpath={.data}"),
            ("-n", NAMESPACE, "logs", "--prefix", "--tail=6", "-l", "app.kubernetes.io/component=broker"),
            ("-n", NAMESPACE, "logs", "--prefix", "--tail=6", "-l", "app.kubernetes.io/component=observer"),
            ("get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"),
        ):
            try:
                said = self.cluster.kubectl(*arguments)
            except AssertionError as error:
                said = str(error)
            lines = [line[:600] for line in said.splitlines()[-25:]]
            parts.append("\n".join([f"--- kubectl {' '.join(arguments)}", *lines]))
        return "\n".join(parts)

    @contextlib.asynccontextmanager
    async def as_bearer(self, token: str) -> AsyncIterator[Bearer]:
        """A client with somebody else's token."""
        context = self.cluster.plane.endpoint.ssl_context()
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
            yield Bearer(session=session, url=self.cluster.plane.endpoint.url, token=token, tls=context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearer:
    """Whoever holds a token."""

    session: aiohttp.ClientSession
    url: str
    token: str
    tls: ssl.SSLContext | None

    async def ask(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> tuple[int, str]:
        """Status and message of one request."""
        async with self.session.request(
            method,
            self.url + path,
            data=None if body is None else json.dumps(body),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": content_type},
            ssl=self.tls or True,
        ) as response:
            text = (await response.read()).decode(errors="replace")
        try:
            return response.status, str(json.loads(text).get("message", text))
        except json.JSONDecodeError:
            return response.status, text


def is_ready(pod: Json) -> bool:
    """Whether a pod's probes say so."""
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def operator(name: str = PLUGIN) -> Json:
    """A DaemonSet that looks like the GPU Operator's and whose ``nvidia-smi`` is the simulated machine's."""
    labels = {"app": name}
    container = {
        "name": "nvidia-device-plugin",
        "image": f"nicrails-faker:{TAG}",
        "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"],
        "env": [{"name": "PATH", "value": "/machine/bin:/usr/bin:/bin"}],
        "volumeMounts": [{"name": "machine", "mountPath": "/machine", "readOnly": True}],
        "readinessProbe": {"exec": {"command": ["test", "!", "-e", "/machine/not-ready"]}, "periodSeconds": 1},
    }
    spec = {
        "containers": [container],
        "volumes": [{"name": "machine", "hostPath": {"path": f"{HOST}/machine", "type": "Directory"}}],
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 5,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": OPERATOR, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }
