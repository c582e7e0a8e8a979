"""One discovery outside the service, with inputs from files where they are given."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nicrails import NodeUid, RecordError, encode
from nicrails.kube import KubeClient
from nicrails.settings import Fault, SettingsError, dns_name
from nicrails_broker.app import access, user_agent
from nicrails_broker.discovery import Discovery, OwnNode
from nicrails_broker.events import CommandWarned, Event, WithoutNeighbor
from nicrails_broker.failures import BrokerError
from nicrails_broker.host import Sysfs
from nicrails_broker.node import ApiNode, GivenNode
from nicrails_broker.settings import MISSING_RAIL_SOURCE, BrokerSettings
from nicrails_broker.sources import Captures, Command, Surroundings, gpu_source, rail_source

NO_NODE_UID = NodeUid("00000000-0000-0000-0000-000000000000")
"""The ``nodeUID`` where none is given and no Node can be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a discovery gets besides its settings.

    Attributes:
        captures: Inputs from files.
        node: ``NODE_NAME``, or None.
        node_uid: The UID to use, or None to ask the API server.
        in_cluster: Whether the process runs as a pod.
    """

    captures: Captures
    node: str | None
    node_uid: NodeUid | None
    in_cluster: bool


def read_inputs(
    *, lldp: str | None, topology: str | None, inventory: str | None, node_uid: str | None, environ: Mapping[str, str]
) -> Inputs:
    """What the command line and the environment say.

    Raises:
        SettingsError: The UID or the Node's name is none.
    """
    smi = {Command.TOPOLOGY: topology, Command.INVENTORY: inventory}
    node = environ.get("NODE_NAME") or None
    try:
        uid = NodeUid.parse(node_uid) if node_uid is not None else None
        if node is not None:
            dns_name(node)
    except ValueError as error:
        raise SettingsError((Fault(path="", problem=f"--node-uid or NODE_NAME: {error}"),)) from error
    return Inputs(
        captures=Captures(
            lldp=Path(lldp) if lldp is not None else None,
            smi={command: Path(file) for command, file in smi.items() if file is not None},
        ),
        node=node,
        node_uid=uid,
        in_cluster=bool(environ.get("KUBERNETES_SERVICE_HOST")),
    )


async def discover_once(settings: BrokerSettings, inputs: Inputs, warn: Callable[[str], None]) -> bytes:
    """The canonical record, or ``null`` where none would be published.

    Args:
        settings: With a rail source, enabled or not.
        inputs: What comes from elsewhere.
        warn: Gets sentences about what is odd and no failure.

    Raises:
        SettingsError: There is no rail source.
        BrokerError: The discovery failed.
    """
    mapping = settings.node_metadata.plugins.gpu_nic_rail_mapping
    if mapping.rail_source is None:
        raise SettingsError((MISSING_RAIL_SOURCE,))
    emit = _Warnings(warn)
    async with contextlib.AsyncExitStack() as stack:
        client = None
        if settings.kubernetes.kubeconfig is not None or inputs.in_cluster:
            client = await stack.enter_async_context(KubeClient(access(settings.kubernetes), user_agent=user_agent()))
        around = Surroundings(
            host=settings.host,
            sysfs=Sysfs(Path(settings.host.sysfs_root)),
            client=client,
            node=inputs.node,
            emit=emit,
            captures=inputs.captures,
        )
        discovery = Discovery(
            rails=rail_source(mapping.rail_source, around),
            gpus=gpu_source(mapping.gpu_source, around),
            node=_node(inputs, client),
            emit=emit,
        )
        record = await discovery.discover()
    if record is None:
        return b"null"
    try:
        return encode(record)
    except RecordError as error:
        raise BrokerError(f"the record contradicts itself: {error}") from error


def _node(inputs: Inputs, client: KubeClient | None) -> OwnNode:
    if inputs.node_uid is not None:
        return GivenNode(inputs.node_uid)
    if client is not None and inputs.node is not None:
        return ApiNode(client, inputs.node)
    return GivenNode(NO_NODE_UID)


class _Warnings:
    """A sink of events that tells what a person should know."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn

    def __call__(self, event: Event) -> None:
        match event:
            case WithoutNeighbor(interfaces=interfaces) if interfaces:
                self._warn(
                    f"no LLDP neighbour on {', '.join(interfaces[:16])}; check the cable, the switch port and lldpd"
                )
            case CommandWarned(command=command, said=said):
                self._warn(f"{command} warned: {said}")
            case _:
                pass
