"""The demonstration's acts. Each brings something about, waits for what can be observed, and tests the promises."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial

import nicrails
from nicrails_faker.demo.conditions import Conditions
from nicrails_faker.demo.endpoints import Endpoints, Health
from nicrails_faker.demo.processes import Program
from nicrails_faker.demo.screen import Screen
from nicrails_faker.demo.stage import CONFIG_MAP, Actor, Stage
from nicrails_faker.demo.table import table
from nicrails_faker.demo.waiting import NotYetError
from nicrails_faker.demo.witness import Witness
from nicrails_faker.machines import Answer, Machine

START_PATIENCE = 25.0
"""Seconds that the first promise may take, in which all programs start at once, on a busy machine from a cold disk."""
TICK = 0.01


class Story:
    """The acts, in their order.

    Args:
        stage: What they play on.
        screen: Where they are told.
        endpoints: How the services are asked.
    """

    def __init__(self, stage: Stage, screen: Screen, endpoints: Endpoints) -> None:
        self._stage = stage
        self._screen = screen
        self._see = Conditions(stage, endpoints)
        self._witness = Witness(screen, stage.programs)

    async def play(self, machines: Sequence[Machine]) -> None:
        """Play all acts but the last; without records there is nothing to show after the first."""
        self._screen.title("Records appear")
        self._screen.doing(f"An embedded Kubernetes API listens on {self._stage.cluster.url}.")
        self._screen.doing(
            f"Writing {len(machines)} simulated machines to disk: sysfs trees, lldpctl, captured output."
        )
        self._stage.install(machines)
        self._screen.doing(f"Starting one observer and {len(machines)} brokers, the real programs.")
        # The observer will see two Nodes go, and then nothing of the one that comes back under its old name.
        curtain = self._stage.hide_nodes(after=2)
        observer = self._stage.start()
        if not await self._appear(observer):
            self._screen.lines("", "The other acts need all records, so they are left out.")
            return
        await self._delete("cpu-rails", observer)
        await self._replace("gb200-4gpu", observer, curtain)
        await self._damage("h100-8gpu-dualport")

    async def _appear(self, observer: Program) -> bool:
        self._screen.doing("Waiting for them: the observer makes the ConfigMap, every broker looks at its machine.")
        if not await self._witness.promise(
            f"the observer created ConfigMap {CONFIG_MAP}, owned by its Deployment",
            self._see.config_map_owned,
            about=observer,
            within=START_PATIENCE,
        ):
            return False
        all_there = True
        for actor in self._stage.actors.values():
            all_there &= await self._witness.promise(
                f"the record of {actor.name} is the expected one, byte for byte",
                partial(self._see.record_expected, actor),
                about=actor.broker,
            )
            self._show(actor)
        programs = list(self._stage.programs.running)
        return all_there and await self._witness.promise(
            f"all {len(programs)} services are healthy", partial(self._see.healthy, programs), about=observer
        )

    async def _delete(self, name: str, observer: Program) -> None:
        self._screen.title("A Node is deleted")
        actor = self._stage.actors[name]
        others = {node: text for node, text in self._stage.records().items() if node != name}
        self._screen.doing(f"Deleting Node {name}; its broker still runs.")
        start = time.monotonic()
        self._stage.delete_node(actor)
        await self._witness.promise(
            f"the observer removed the record of {name}",
            partial(self._see.record_gone, actor),
            about=observer,
            interval=TICK,
            detail=lambda _: f", {time.monotonic() - start:.2f} s after the Node",
        )

        async def refuses() -> Health:
            health = await self._see.unhealthy(actor.broker)
            await self._see.record_gone(actor)
            return health

        await self._witness.promise(
            "its broker does not bring the record back and says why",
            refuses,
            about=actor.broker,
            detail=lambda health: f' ("{health.sentence}")',
        )
        self._witness.check(
            "the records of all other Nodes are unchanged", self._stage.records() == others, about=observer
        )
        self._screen.doing(f"The broker of {name} goes with its pod.")
        code = (await self._stage.programs.stop(actor.broker))[actor.broker.name]
        self._witness.check(
            "it stopped in order, with exit code 0", code == 0, about=actor.broker, why=f"exit code {code}"
        )

    async def _replace(self, name: str, observer: Program, curtain: asyncio.Event) -> None:
        self._screen.title("A Node is replaced under its old name")
        actor = self._stage.actors[name]
        try:
            lists, removals = await self._see.node_lists(observer), await self._see.removals(observer)
            contradictions = await self._see.contradictions(observer)
        except NotYetError as error:
            self._witness.broken("the observer counts what it does", str(error), about=observer)
            return
        self._screen.doing(
            "Freezing the observer until the new record is there, and hiding the new Node from its watch."
        )
        observer.hold()
        try:
            before = actor.uid
            self._stage.replace_node(actor)
            self._screen.doing(
                f"Node {name} is deleted and made anew; its UID was {before[:8]}…, now it is {actor.uid[:8]}…"
            )
            await self._witness.promise(
                f"the broker of {name} published the record of the new Node by itself",
                partial(self._see.record_expected, actor),
                about=actor.broker,
            )
        finally:
            observer.resume()
        self._screen.doing(
            "The observer goes on. It sees the Node go and a record that stands there: the dangerous order."
        )

        async def asked() -> None:
            if await self._see.contradictions(observer) <= contradictions:
                raise NotYetError("the observer has not found out that its watch is wrong")
            await self._see.record_expected(actor)

        await self._witness.promise(
            "it asked the API itself before it removed anything, and kept the new record", asked, about=observer
        )
        self._screen.doing("Ending its watch, so that it lists all Nodes and looks at all records.")
        curtain.set()
        passes: list[float] = []

        async def survived() -> None:
            if await self._see.node_lists(observer) <= lists:
                raise NotYetError("the observer has not listed the Nodes again")
            passes.append(await self._see.passes(observer))
            # One look may have been under way when the list came; the second one began after it.
            if passes[-1] < passes[0] + 2:
                raise NotYetError("the observer has not looked at all records again")
            await self._see.record_expected(actor)

        await self._witness.promise(
            "the new record survived the observer's full reconciliation", survived, about=observer
        )

        async def nothing_removed() -> None:
            now = await self._see.removals(observer)
            if now != removals:
                raise NotYetError(f"it removed {now - removals:g} records")

        await self._witness.promise("the observer removed nothing meanwhile", nothing_removed, about=observer)

    async def _damage(self, name: str) -> None:
        self._screen.title("A capture is damaged")
        actor = self._stage.actors[name]
        broker, machine = actor.broker, actor.machine
        before = self._stage.records().get(name)
        topo = machine.machine.captures.topo or b""
        self._screen.doing(f"From now on `nvidia-smi topo -m` of {name} is cut off in the middle of a row.")
        machine.answer(Answer.TOPO, topo[: len(topo) // 3])

        async def complains() -> None:
            health = await self._see.unhealthy(broker)
            self._screen.doing(f"/healthz of its broker answers {health.status}:")
            for key in ("step", "reason", "since"):
                self._screen.prose(str(health.report.get(key)), start=f"            {key:6}  ")

        await self._witness.promise(
            "its broker is unhealthy and says which step failed and why", complains, about=broker
        )
        tried = self._stage.executions(actor)

        async def goes_on() -> None:
            if self._stage.executions(actor) < tried + 2:
                raise NotYetError("the broker has not tried again")
            await self._see.unhealthy(broker)
            await self._see.alive(broker)

        await self._witness.promise("it is alive all the same, and tries again", goes_on, about=broker)
        self._witness.check(
            "the old record stands, byte for byte", self._stage.records().get(name) == before, about=broker
        )
        self._screen.doing("The capture is whole again.")
        machine.heal()

        async def recovered() -> None:
            await self._see.healthy([broker])
            await self._see.record_expected(actor)

        await self._witness.promise(
            "its broker is healthy again by itself, with the same record", recovered, about=broker
        )

    async def end(self) -> None:
        """The last act: everything ends when it is told to."""
        self._screen.title("Everything is told to stop")
        programs = [program for program in self._stage.programs.running if program.exit_code is None]
        self._screen.doing(f"SIGTERM to {len(programs)} processes, as the kubelet sends it.")
        codes = await self._stage.programs.stop(*programs)
        wrong = [program for program in programs if codes[program.name] != 0]
        self._screen.promise(
            "every service stopped in order, with exit code 0",
            kept=not wrong,
            why=", ".join(f"{program.name}: {codes[program.name]}" for program in wrong),
            log=wrong[0].tail() if wrong else (),
        )

    def _show(self, actor: Actor) -> None:
        record = nicrails.read_records(self._stage.records()).get(actor.name)
        self._screen.lines("")
        self._screen.prose(f"Node {actor.name}: {actor.machine.machine.description}", start="  ")
        if record is not None:
            self._screen.lines(*table(record, actor.indices(), self._screen.style.width))
        self._screen.lines("")
