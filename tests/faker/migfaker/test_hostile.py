"""Requests, documents and Nodes that mean harm to the MIG faker: it says so, and serves the next request."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path

import pytest
from aiohttp import web

from nicrails_faker.mig import write_topology
from tests.cluster.api import Json
from tests.faker.migfaker.stage import ERROR, SEVEN, THREE, events, faking, make_node, until_event
from tests.faker.played import CONFIG, MIG_NODE
from tests.faker.scene import Scene, embedded
from tests.support.endpoint import ApiEndpoint
from tests.support.proxy import Exchange, FaultProxy
from tests.support.waiting import eventually

ROOM = 256 * 1024 - len(CONFIG)
"""Bytes that a Node without other annotations has for the request."""


@pytest.mark.parametrize(
    "filling",
    ["x", "[", "- ", "&a ", "{a: ", "\n", "\u20ac", "? "],
    ids=["letters", "lists", "items", "anchors", "mappings", "lines", "euros", "keys"],
)
async def test_a_request_that_leaves_no_room(scene: Scene, filling: str) -> None:
    """A request as large as annotations may be ends as failed, told once by an Event where no annotation has room."""
    node = await make_node(scene)
    async with node.kubelet(), faking(scene) as service:
        await node.until_label("nvidia.com/gpu.count", "2")
        await node.annotate(None)
        mapping = await node.annotations()
        assert mapping == {}
        await node.annotate(filling * (ROOM // len(filling.encode())))
        await node.until_state("failed")
        (reason,) = await until_event(scene, "MigConfigFailed")
        assert reason.isprintable()
        await service.until_healthy()
        # The Node comes by again and again, and is told nothing new.
        for number in range(3):
            await node.label({"seen": str(number)})
        await node.annotate(SEVEN)
        await node.until_state("success")
        assert [name for name, _ in await events(scene)].count("MigConfigFailed") == 1
        assert ERROR not in await node.annotations()


async def test_a_request_that_is_mostly_comment(scene: Scene) -> None:
    """A good request of half the room for annotations is served: what the Node is told fits beside it."""
    node = await make_node(scene)
    async with node.kubelet(), faking(scene):
        await node.annotate(SEVEN + "#" * (128 * 1024 - len(SEVEN)))
        await node.until_state("success")
        await node.annotate(SEVEN + "#" * (128 * 1024 - len(SEVEN) + 1))
        await node.until_state("failed")
        assert "131072 are the most" in (await node.annotations())[ERROR]


@pytest.mark.parametrize("moment", ["pending", "success"])
async def test_a_node_that_is_deleted_in_the_middle(scene: Scene, moment: str) -> None:
    """A Node that goes while a request is served leaves no trace in the one that comes under its name."""
    node = await make_node(scene)
    async with faking(scene) as service:
        await node.advertise()
        await node.until_label("nvidia.com/gpu.count", "2")
        await node.annotate(SEVEN)
        await node.until_state("pending")
        if moment == "success":
            await eventually(functools.partial(_cut, scene), within=30, what="the slices are written")
            await node.advertise()
            await node.until_state("success")
        await scene.world.delete_node("n")
        await service.until_unhealthy("there is no such Node")
        await scene.world.node("n", labels=MIG_NODE)
        async with node.kubelet():
            await node.annotate(THREE)
            await node.until_state("success")
            await node.until_label("nvidia.com/mig-2g.10gb.count", "3")
        await service.until_healthy()


@pytest.mark.parametrize("end", ["deleted", "emptied", "gpus: 5", "gpus: [{id: a}, {id: a}]", "&a [*a]", "x" * 900_000])
async def test_a_topology_that_goes_in_the_middle(scene: Scene, end: str) -> None:
    """A topology that is deleted or damaged while a request is served is told, and the request is served with the next one."""
    node = await make_node(scene)
    text = write_topology(await scene.topology("n"))
    path = scene.world.path("configmaps", "topology-n")
    async with faking(scene) as service:
        await node.annotate(SEVEN)
        await node.until_state("pending")
        if end == "deleted":
            await scene.world.api.delete(path)
        else:
            await scene.world.api.merge_patch(path, {"data": None if end == "emptied" else {"topology.yml": end}})
        await service.until_unhealthy("topology")
        assert service.failure.isprintable()
        assert len(service.failure) < 1000
        if end == "deleted":
            await make_topology(scene, text)
        else:
            await scene.world.api.merge_patch(path, {"data": {"topology.yml": text}})
        async with node.kubelet():
            await node.until_state("success")
        await service.until_healthy()


async def test_two_services_on_one_node(scene: Scene) -> None:
    """Two services that serve one Node come to the same end, and leave it alone then."""
    node = await make_node(scene)
    async with node.kubelet(), faking(scene) as one, faking(scene) as other:
        for config, label, count in (
            (SEVEN, "nvidia.com/mig-1g.5gb.count", "7"),
            (THREE, "nvidia.com/mig-2g.10gb.count", "3"),
            ("x", "nvidia.com/mig-2g.10gb.count", "3"),
            (SEVEN, "nvidia.com/mig-1g.5gb.count", "7"),
        ):
            await node.annotate(config)
            await node.until_state("failed" if config == "x" else "success")
            await node.until_label(label, count)
        await one.until_healthy()
        await other.until_healthy()
        before = await node.object()
        # Both have seen the end of it when a third one, which lists anew, has nothing to do.
        async with faking(scene) as third:
            await third.until_healthy()
        assert (await node.object())["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


class Outage:
    """The API server is gone after so many requests.

    Args:
        after: How many are let through.
        lost: The first that is not answered has been done nevertheless.

    Attributes:
        begun: Set with that request.
    """

    def __init__(self, *, after: int, lost: bool) -> None:
        self.begun = asyncio.Event()
        self._left = after
        self._lost = lost

    async def __call__(self, exchange: Exchange) -> web.StreamResponse:
        """What happens to a request."""
        if self._left > 0:
            self._left -= 1
            return await exchange.forward()
        if self._lost and not self.begun.is_set():
            await exchange.ask()
        self.begun.set()
        return exchange.cut()


async def test_an_outage_at_every_moment(tmp_path: Path) -> None:
    """Whichever request the API server is gone at, the change is done once it is back, and the process lives."""
    async with embedded(tmp_path) as (cluster, scene), FaultProxy(ApiEndpoint(url=cluster.url)) as proxy:
        scene.use(ApiEndpoint(url=proxy.url), tmp_path)
        node = await make_node(scene)
        async with node.kubelet(), faking(scene) as service:
            await node.until_label("nvidia.com/gpu.count", "2")
            for lost in (False, True):
                for after in range(4):  # pending, the topology, the success, its Event
                    outage = Outage(after=after, lost=lost)
                    with proxy.rule(outage, watch=False):
                        await node.annotate(SEVEN if after % 2 else THREE)
                        await asyncio.wait_for(outage.begun.wait(), timeout=30)
                    await node.until_label("nvidia.com/mig-1g.5gb.count", "7" if after % 2 else None)
                    await node.until_label("nvidia.com/mig-2g.10gb.count", None if after % 2 else "3")
                    await node.until_state("success")
                    await service.until_healthy()
            async with proxy.refusing():  # and the watches, too
                await node.annotate(None)
                await service.until_unhealthy("no usable answer")
            await node.until_state(None)
            await service.until_healthy()


async def make_topology(scene: Scene, text: str) -> Json:
    """The ConfigMap of the Node's topology, made by hand."""
    labels = {"node-topology": "true", "node-name": "n"}
    return await scene.config_map("topology-n", {"topology.yml": text}, labels=labels)


async def _cut(scene: Scene) -> bool:
    return (await scene.topology("n")).gpus[0].mig_enabled
