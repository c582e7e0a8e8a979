"""What can be observed of the services, each as a coroutine that raises ``NotYetError`` while it is not the case."""

from __future__ import annotations

from collections.abc import Sequence

from nicrails_faker.demo.endpoints import Endpoints, Health
from nicrails_faker.demo.processes import Program
from nicrails_faker.demo.scenery import DEPLOYMENT, NAMESPACE
from nicrails_faker.demo.stage import CONFIG_MAP, Actor, Stage
from nicrails_faker.demo.waiting import NotKeptError, NotYetError


class Conditions:
    """Conditions of one stage.

    Args:
        stage: What is looked at.
        endpoints: How the services are asked.
    """

    def __init__(self, stage: Stage, endpoints: Endpoints) -> None:
        self._stage = stage
        self._endpoints = endpoints

    async def config_map_owned(self) -> None:
        """The ConfigMap exists and its controller is the observer's Deployment, by UID."""
        config_map = self._stage.config_map()
        if config_map is None:
            raise NotYetError(f"there is no ConfigMap {CONFIG_MAP}")
        deployment = self._stage.cluster.get("apps/v1", "deployments", DEPLOYMENT, namespace=NAMESPACE)
        owners = config_map["metadata"].get("ownerReferences") or [{}]
        if (owners[0].get("uid"), owners[0].get("controller")) != (deployment["metadata"]["uid"], True):
            raise NotYetError(f"its owner is {owners[0]}")

    async def record_expected(self, actor: Actor) -> None:
        """A Node's record is its golden one with its present UID, byte for byte.

        Raises:
            NotKeptError: There is a record of this very Node, and it is another one. A wrong record must not be published
                even for a moment, so there is nothing to wait for.
        """
        document = self._stage.records().get(actor.name)
        if document is None:
            health = await self._endpoints.health(actor.broker)
            raise NotYetError(f"there is no record; /healthz of its broker: {health.sentence}")
        if document.encode() == actor.expected():
            return
        if f'"nodeUID":"{actor.uid}"' in document:
            raise NotKeptError(f"the record is another: {document}")
        raise NotYetError("the record is that of the former Node")

    async def record_gone(self, actor: Actor) -> None:
        """A Node has no record."""
        if actor.name in self._stage.records():
            raise NotYetError("the record is there")

    async def healthy(self, programs: Sequence[Program]) -> None:
        """All these services are healthy."""
        for program in programs:
            health = await self._endpoints.health(program)
            if health.status != 200:
                raise NotYetError(f"/healthz of the {program.name} answers {health.status}: {health.sentence}")

    async def unhealthy(self, program: Program) -> Health:
        """A service is not healthy and gives a reason, which is returned."""
        health = await self._endpoints.health(program)
        if health.status == 200 or not health.report.get("reason"):
            raise NotYetError(f"/healthz answers {health.status}: {health.report}")
        return health

    async def alive(self, program: Program) -> None:
        """A service's event loop turns."""
        if not await self._endpoints.alive(program):
            raise NotYetError("/livez fails")

    async def node_lists(self, observer: Program) -> float:
        """How often the observer has read a complete list of the Nodes."""
        return await self._endpoints.metric(observer, "nicrails_observer_node_lists_total")

    async def passes(self, observer: Program) -> float:
        """How often the observer has looked at all records."""
        return await self._endpoints.metric(observer, "nicrails_observer_passes_total", outcome="done")

    async def contradictions(self, observer: Program) -> float:
        """How often the observer kept a record because a Node exists that its watch did not show."""
        return await self._endpoints.metric(observer, "nicrails_observer_contradictions_total")

    async def removals(self, observer: Program) -> float:
        """How many records the observer has removed."""
        return await self._endpoints.metric(observer, "nicrails_observer_removals_total")
