"""Fake GPUs on the two-node cluster: the chart's faker instead of the stand-in for the GPU Operator."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from nicrails_faker.machines import shipped, write
from nicrails_faker.mig import NodeTopology, read_topology
from tests.chart.combinations import MAPPING
from tests.chart.helm import Json, at
from tests.cluster.node import HOST
from tests.e2e.images import TAG
from tests.e2e.site import OPERATOR, PLUGIN, Site, is_ready, operator
from tests.support.waiting import eventually

POOL_LABEL = "run.ai/simulated-gpu-node-pool"
MIG_LABEL = "node-role.kubernetes.io/runai-dynamic-mig"
REQUEST = "run.ai/mig.config"
MAPPED = "run.ai/mig-mapping"
STATE = "nvidia.com/mig.config.state"
REASON = "nicrails.io/mig-config-error"
GPU = "nvidia.com/gpu"
MACHINE = "a100-old-driver"
"""Two GPUs and four rails."""

VALUES: Json = {
    "faker": {
        "enabled": True,
        "image": {"tag": TAG},
        "topology": {
            "nodePools": {
                "default": {
                    "gpuProduct": "NVIDIA-A100-SXM4-40GB",
                    "gpuCount": 2,
                    "gpuMemory": 40960,
                    "machine": MACHINE,
                }
            }
        },
    },
    "broker": {"hostPaths": {"sysfs": f"{HOST}/mig/sys"}},
    **at(f"{MAPPING}.railSource.hostLLDP.interfaceRegex", "^eth_r([0-3])_p[0-9]+$"),
}


def slices(*wanted: tuple[str, int, int], gpu: int = 0) -> str:
    """A request in Run:ai's form: profile, position and size of each slice of one GPU."""
    lines = [f"  - {{name: {name}, position: {position}, size: {size}}}" for name, position, size in wanted]
    head = f'version: v1\nmig-configs:\n  selected:\n  - devices: ["{gpu}"]\n    mig-enabled: true\n    mig-devices:\n'
    return head + "\n".join(f"  {line}" for line in lines) + "\n"


SEVEN = slices(*(("1g.5gb", position, 1) for position in range(7)))
THREE = slices(*(("2g.10gb", position, 2) for position in (0, 2, 4)))


@dataclass(slots=True, kw_only=True)
class Fakes:
    """The faker in the cluster.

    Attributes:
        site: The cluster and its release.
    """

    site: Site

    @classmethod
    @contextlib.asynccontextmanager
    async def on(cls, site: Site, values: Mapping[str, Any]) -> AsyncIterator[Self]:
        """Install the release with the faker; the stand-in comes back afterwards."""
        plugins = f"/apis/apps/v1/namespaces/{OPERATOR}/daemonsets"
        fakes = cls(site=site)
        found = await site.api.get_or_none(f"{plugins}/{PLUGIN}")
        # The faker's has the same name.
        if found is not None and found["metadata"]["labels"].get("app") == PLUGIN:
            site.uninstall()
            await site.api.delete(f"{plugins}/{PLUGIN}")
            await fakes._empty()
        for name, node in site.cluster.nodes.items():
            if not (node.host / "mig").exists():
                write(shipped(MACHINE), node.host / "mig")
            await site.api.merge_patch(
                f"/api/v1/nodes/{name}", {"metadata": {"labels": {POOL_LABEL: "default", MIG_LABEL: "true"}}}
            )
        if site.install(VALUES, values):
            await fakes.ready()
        yield fakes

    @staticmethod
    async def off(site: Site) -> None:
        """Take the faker away and bring the stand-in back."""
        site.uninstall()
        for name in site.cluster.nodes:
            metadata = {"labels": {POOL_LABEL: None, MIG_LABEL: None}, "annotations": {REQUEST: None}}
            await site.api.merge_patch(f"/api/v1/nodes/{name}", {"metadata": metadata})
        await Fakes(site=site)._empty()
        await site.api.create(f"/apis/apps/v1/namespaces/{OPERATOR}/daemonsets", operator())

    async def ready(self) -> None:
        """Wait until each Node has a ready plugin, MIG faker and exporter, and both brokers have published."""

        async def condition() -> bool:
            found = await self.site.api.get(f"/api/v1/namespaces/{OPERATOR}/pods")
            there = [pod for pod in found["items"] if "deletionTimestamp" not in pod["metadata"]]
            states = {pod["metadata"]["name"]: is_ready(pod) for pod in there}
            assert len(states) >= 7, states
            assert all(states.values()), states
            return True

        await eventually(condition, within=120, what="all pods of the faker are Ready", interval=0.2)
        await self.site.ready()

    async def _empty(self) -> None:
        async def gone() -> bool:
            found = await self.site.api.get(f"/api/v1/namespaces/{OPERATOR}/pods")
            assert not found["items"], [pod["metadata"]["name"] for pod in found["items"]]
            return True

        await eventually(gone, within=60, what="no pod is left of the GPU Operator", interval=0.2)

    # --- Nodes ---------------------------------------------------------------------------------------------------

    async def node(self, name: str = "node1") -> Json:
        """A Node."""
        return await self.site.api.get(f"/api/v1/nodes/{name}")

    async def ask(self, request: str | None, name: str = "node1") -> None:
        """Write the annotation, or remove it."""
        await self.site.api.merge_patch(f"/api/v1/nodes/{name}", {"metadata": {"annotations": {REQUEST: request}}})

    async def allocatable(self, name: str = "node1") -> dict[str, int]:
        """The allocatable resources of NVIDIA's names that are not zero."""
        found = (await self.node(name))["status"].get("allocatable", {})
        return {key: int(value) for key, value in found.items() if key.startswith("nvidia.com/") and value != "0"}

    async def advertises(self, expected: Mapping[str, int], name: str = "node1", within: float = 60) -> None:
        """Wait until exactly these resources are allocatable."""

        async def condition() -> bool:
            assert await self.allocatable(name) == expected
            return True

        await eventually(condition, within=within, what=f"{name} advertises {dict(expected)}", interval=0.05)

    async def state(self, expected: str | None, name: str = "node1", within: float = 60) -> Json:
        """Wait until the label has this value; the Node."""

        async def condition() -> Json:
            node = await self.node(name)
            found = node["metadata"].get("labels", {}).get(STATE)
            assert found == expected, (found, node["metadata"]["annotations"].get(REASON))
            return node

        return await eventually(condition, within=within, what=f"{name} has the state {expected}", interval=0.05)

    async def mapping(self, name: str = "node1") -> Json:
        """The mapping that the annotation has, decoded."""
        text = (await self.node(name))["metadata"]["annotations"][MAPPED]
        return dict(json.loads(base64.b64decode(text)))

    async def topology(self, name: str = "node1") -> NodeTopology:
        """The topology of a Node, from its ConfigMap."""
        found = await self.site.api.get(f"/api/v1/namespaces/{OPERATOR}/configmaps/topology-{name}")
        return read_topology(found["data"]["topology.yml"])

    # --- pods ----------------------------------------------------------------------------------------------------

    async def run(self, name: str, resource: str, node: str = "node1") -> Json:
        """A pod that asks for one of a resource, once it runs."""
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": node},
                "terminationGracePeriodSeconds": 1,
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "main",
                        "image": f"nicrails-observer:{TAG}",
                        "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"],
                        "resources": {"limits": {resource: "1"}},
                    }
                ],
            },
        }
        await self.site.api.create("/api/v1/namespaces/default/pods", body)

        async def runs() -> Json:
            pod = await self.site.api.get(f"/api/v1/namespaces/default/pods/{name}")
            assert pod["status"]["phase"] == "Running", pod["status"]
            return pod

        return await eventually(runs, within=60, what=f"{name} runs", interval=0.1)

    def said(self, pod: str, *argv: str) -> str:
        """Run a command in a pod; its output."""
        return self.site.cluster.kubectl("-n", "default", "exec", pod, "--", *argv)

    async def end(self, *names: str) -> None:
        """Remove pods and wait until they are gone."""
        for name in names:
            await self.site.api.delete(f"/api/v1/namespaces/default/pods/{name}", grace=1)

        async def gone() -> bool:
            for name in names:
                assert await self.site.api.get_or_none(f"/api/v1/namespaces/default/pods/{name}") is None
            return True

        await eventually(gone, within=60, what=f"{names} are gone", interval=0.1)

    async def plugin_pods(self) -> dict[str, int]:
        """Restarts of the device plugin's pods, by UID."""
        selector = "labelSelector=app.kubernetes.io/component=faker-device-plugin"
        found = await self.site.api.get(f"/api/v1/namespaces/{OPERATOR}/pods?{selector}")
        return {pod["metadata"]["uid"]: pod["status"]["containerStatuses"][0]["restartCount"] for pod in found["items"]}

    async def whole(self, name: str = "node1") -> None:
        """Bring a Node back to whole GPUs."""
        await self.ask(None, name)
        await self.state(None, name)
        await self.advertises({GPU: 2}, name)

    async def restart_kubelet(self, name: str = "node1") -> None:
        """Stop and start a Node's kubelet."""
        kubelet = self.site.cluster.nodes[name].kubelet
        await asyncio.to_thread(kubelet.stop)
        kubelet.start()
