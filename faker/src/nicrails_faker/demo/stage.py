"""What the demonstration plays on: an embedded cluster, machines on disk, and the real services as processes."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

import nicrails
from nicrails import GpuUuid, NodeUid
from nicrails_faker.api import EmbeddedCluster, Fault, StatusError
from nicrails_faker.demo.curtain import Curtain
from nicrails_faker.demo.processes import Program, Programs
from nicrails_faker.demo.scenery import DEPLOYMENT, NAMESPACE, Scenery
from nicrails_faker.machines import InstalledMachine, Machine, write

CONFIG_MAP = "topograph-nic-rails"
INTERVAL = "1s"
"""Between two looks of a service at anything; minutes in a real cluster, short here since a person is waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """The programs that are run; ``--config FILE --kubeconfig FILE`` is appended."""

    broker: Sequence[str] = (sys.executable, "-m", "nicrails_broker", "run")
    observer: Sequence[str] = (sys.executable, "-m", "nicrails_observer", "run")


@dataclass(slots=True, kw_only=True)
class Actor:
    """A Node with its machine and its broker.

    Attributes:
        machine: On disk.
        uid: The Node's present UID.
        broker: The process.
    """

    machine: InstalledMachine
    uid: NodeUid
    broker: Program

    @property
    def name(self) -> str:
        """The Node's name."""
        return self.machine.machine.name

    def expected(self) -> bytes:
        """The golden record with the Node's UID.

        Raises:
            ValueError: The machine has none.
        """
        golden = self.machine.machine.record
        if golden is None:
            raise ValueError(f"machine {self.name} has no golden record")
        return nicrails.encode(dataclasses.replace(nicrails.decode(golden), node_uid=self.uid))

    def indices(self) -> dict[GpuUuid, int]:
        """The index of each GPU, as its inventory tells it."""
        rows = (self.machine.machine.captures.inventory or b"").decode().splitlines()
        cells = [row.split(", ") for row in rows]
        return {GpuUuid(uuid): int(index) for index, uuid, _ in cells}


class Stage:
    """Everything that plays; nothing runs before :meth:`start`.

    Args:
        cluster: Already serving.
        folder: For machines, settings and logs; must exist.
        commands: The programs.
    """

    def __init__(self, cluster: EmbeddedCluster, folder: Path, commands: Commands) -> None:
        self.cluster = cluster
        self.folder = folder
        self.commands = commands
        self.kubeconfig = cluster.kubeconfig(folder / "kubeconfig")
        self.programs = Programs(folder)
        self.actors: dict[str, Actor] = {}
        self._scenery = Scenery(cluster)
        self._installed: list[tuple[InstalledMachine, NodeUid]] = []

    def install(self, machines: Sequence[Machine]) -> None:
        """Put the machines on disk and create their Nodes."""
        for machine in machines:
            installed = write(machine, self.folder / "machines" / machine.name)
            self._installed.append((installed, self._scenery.add(installed)))

    def start(self) -> Program:
        """Start all services, none of which waits for another; gives the observer."""
        config = self._write("observer.json", {"observer": {"checkInterval": INTERVAL, "fullInterval": INTERVAL}})
        observer = self._start("observer", self.commands.observer, config, DEPLOYMENT_NAME=DEPLOYMENT)
        for machine, uid in self._installed:
            name = machine.machine.name
            config = self._write(f"broker-{name}.json", _broker_settings(machine))
            broker = self._start(f"broker of {name}", self.commands.broker, config, NODE_NAME=name)
            self.actors[name] = Actor(machine=machine, uid=uid, broker=broker)
        return observer

    def delete_node(self, actor: Actor) -> None:
        """Delete a Node and the GPU Operator's pod on it."""
        self._scenery.remove(actor.machine)

    def replace_node(self, actor: Actor) -> None:
        """Delete a Node and create another one of the same name."""
        self._scenery.remove(actor.machine)
        actor.uid = self._scenery.add(actor.machine)

    def hide_nodes(self, *, after: int) -> asyncio.Event:
        """Let the next watch of Nodes show so many events and no more; it ends with 410 when the event is set."""
        rises = asyncio.Event()
        self.cluster.faults.add(Fault(action=Curtain(after=after, rises=rises), verb="watch", path="/api/v1/nodes"))
        return rises

    def config_map(self) -> dict[str, Any] | None:
        """The shared ConfigMap, or None."""
        try:
            return self.cluster.get("v1", "configmaps", CONFIG_MAP, namespace=NAMESPACE)
        except StatusError:
            return None

    def records(self) -> dict[str, str]:
        """What the ConfigMap holds: Node name to document."""
        return dict((self.config_map() or {}).get("data") or {})

    def executions(self, actor: Actor) -> int:
        """How many commands were run in the GPU Operator's pod of a Node."""
        return self._scenery.executions(actor.machine)

    def _write(self, name: str, settings: dict[str, Any]) -> Path:
        file = self.folder / name
        # JSON is YAML.
        file.write_bytes(orjson.dumps({**settings, "server": {"address": "127.0.0.1", "port": 0}}))
        return file

    def _start(self, name: str, command: Sequence[str], config: Path, **environ: str) -> Program:
        argv = [*command, "--config", str(config), "--kubeconfig", str(self.kubeconfig)]
        return self.programs.start(name, argv, {**os.environ, "POD_NAMESPACE": NAMESPACE, **environ})


def _broker_settings(installed: InstalledMachine) -> dict[str, Any]:
    settings = installed.machine.settings
    mapping = {
        "refreshInterval": INTERVAL,
        "verifyInterval": INTERVAL,
        "startJitter": 0,
        "railSource": {
            "name": "host-lldp",
            "hostLLDP": {"interfaceRegex": settings.interface_regex, "railID": settings.rail_id},
        },
    }
    return {
        "nodeMetadata": {"plugins": {"gpuNicRailMapping": mapping}},
        "host": {"sysfsRoot": str(installed.sysfs_root), "lldpctl": str(installed.lldpctl)},
    }
