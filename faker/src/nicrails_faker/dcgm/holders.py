"""Who holds which GPU or slice, as the topology has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from nicrails_faker.kubelet import Held
from nicrails_faker.mig import NodeTopology, Status


def with_holders(topology: NodeTopology, held: Iterable[Held]) -> NodeTopology:
    """The topology in which exactly these containers hold their devices.

    Args:
        topology: The Node's.
        held: What the kubelet says; devices that the topology does not have are left out.
    """
    holders: dict[str, Held] = {}
    for one in held:
        holders.setdefault(one.device, one)
    return replace(
        topology,
        gpus=tuple(
            replace(
                gpu,
                status=_status(gpu.status, holders, gpu.id),
                mig_instances=tuple(
                    replace(one, status=_status(one.status, holders, one.uuid)) for one in gpu.mig_instances
                ),
            )
            for gpu in topology.gpus
        ),
    )


def _status(status: Status, holders: Mapping[str, Held], device: str) -> Status:
    held = holders.get(device)
    namespace, pod, container = ("", "", "") if held is None else (held.namespace, held.pod, held.container)
    # Keys of others beside these stay.
    return replace(status, allocated_by=replace(status.allocated_by, namespace=namespace, pod=pod, container=container))
