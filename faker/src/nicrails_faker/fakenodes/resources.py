"""What has to change in the status of a Node without a kubelet so that it advertises its topology; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nicrails_faker.mig import NodeTopology, advertised_resources
from nicrails_faker.mig.resource_names import is_extended_resource
from nicrails_faker.migfaker.seen import RESOURCES_ANNOTATION, SeenNode, is_gpu_resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Parts of a merge patch; None removes.

    Attributes:
        capacity: Quantities by resource.
        allocatable: Quantities by resource.
        annotations: Which resources were given, so that one can be taken back that nobody knows any more.
    """

    capacity: Mapping[str, str | None]
    allocatable: Mapping[str, str | None]
    annotations: Mapping[str, str | None]

    def __bool__(self) -> bool:
        return bool(self.capacity or self.allocatable or self.annotations)


def resource_changes(node: SeenNode, topology: NodeTopology | None, *, strict: bool = False) -> Changes:
    """What is to change on a Node; nothing is remembered, all is read from the Node.

    Resources of GPUs and slices are the topology's alone; of others only those that the Node was given before are taken
    away. A Node that has no topology and was given nothing is left alone.

    Args:
        node: As it is.
        topology: What it has; None where it has no topology any more.
        strict: As for ``advertised_resources``.
    """
    given = set(filter(None, node.annotations.get(RESOURCES_ANNOTATION, "").split(",")))
    if topology is None and RESOURCES_ANNOTATION not in node.annotations:
        return Changes(capacity={}, allocatable={}, annotations={})
    wanted = {} if topology is None else _counts(topology, strict=strict)
    said = None if topology is None else ",".join(sorted(wanted))
    return Changes(
        capacity=_changes(node.capacity, wanted, given),
        allocatable=_changes(node.allocatable, wanted, given),
        annotations={} if node.annotations.get(RESOURCES_ANNOTATION) == said else {RESOURCES_ANNOTATION: said},
    )


def _counts(topology: NodeTopology, *, strict: bool) -> Mapping[str, str]:
    found = advertised_resources(topology, strict=strict)
    return {name: str(len(ids)) for name, ids in found.items() if is_extended_resource(name)}


def refused_names(topology: NodeTopology) -> tuple[str, ...]:
    """Names of the topology's resources that no kubelet would take from a device plugin, so no Node is given them."""
    return tuple(name for name in advertised_resources(topology) if not is_extended_resource(name))


def _changes(found: Mapping[str, str], wanted: Mapping[str, str], given: Iterable[str]) -> Mapping[str, str | None]:
    stale = {name for name in found if (is_gpu_resource(name) or name in given) and name not in wanted}
    return dict.fromkeys(sorted(stale)) | {name: count for name, count in wanted.items() if found.get(name) != count}
