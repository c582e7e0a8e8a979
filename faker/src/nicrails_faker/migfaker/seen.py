"""A Node as the MIG faker sees it, and the names that it is spoken to with."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nicrails.kube import Collection, path
from nicrails_faker.mig import GPU_RESOURCE, NodeTopology, advertised_resources, fingerprint
from nicrails_faker.mig.labels import STATE_LABEL
from nicrails_faker.mig.mapping import ANNOTATION as MAPPING_ANNOTATION
from nicrails_faker.mig.profiles import RESOURCE_PREFIX
from nicrails_faker.topologies.config_maps import KWOK_ANNOTATION, texts
from nicrails_faker.working import Cache

CONFIG_ANNOTATION = "run.ai/mig.config"
ERROR_ANNOTATION = "nicrails.io/mig-config-error"
DYNAMIC_LABEL = "node-role.kubernetes.io/runai-dynamic-mig"
RESOURCES_ANNOTATION = "nicrails.io/fake-resources"
"""Resources that a Node without a kubelet was given, so that one can be taken back that is no longer known."""

CONDITION = "MigTopologyWarning"
"""Type of the Node's condition that is True while something about its slices deserves a look."""

_ANNOTATIONS = (CONFIG_ANNOTATION, ERROR_ANNOTATION, MAPPING_ANNOTATION, KWOK_ANNOTATION, RESOURCES_ANNOTATION)
_NVIDIA = "nvidia.com/"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenNode:
    """A Node.

    Attributes:
        name: Its name.
        uid: Its UID.
        resource_version: The version that was seen.
        labels: All of them.
        annotations: Those that count here.
        capacity: Quantities by resource; whole numbers without a suffix, others as they stand there.
        allocatable: As ``capacity``.
        warning: Status, reason and message of the condition :data:`CONDITION`; None if it has none.
    """

    name: str
    uid: str
    resource_version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]
    warning: tuple[str, str, str] | None

    @classmethod
    def of(cls, node: Mapping[str, Any]) -> SeenNode:
        """Of a Node object."""
        metadata, status = node["metadata"], node.get("status") or {}
        annotations = texts(metadata.get("annotations"))
        return cls(
            name=str(metadata["name"]),
            uid=str(metadata["uid"]),
            resource_version=str(metadata["resourceVersion"]),
            labels=texts(metadata.get("labels")),
            annotations={key: annotations[key] for key in _ANNOTATIONS if key in annotations},
            capacity=_quantities(status.get("capacity")),
            allocatable=_quantities(status.get("allocatable")),
            warning=_warning(status.get("conditions")),
        )

    @property
    def config(self) -> str | None:
        """What the annotation asks for, None if it is not there."""
        return self.annotations.get(CONFIG_ANNOTATION)

    @property
    def state(self) -> str | None:
        """What the state label says, None if it is not there."""
        return self.labels.get(STATE_LABEL)

    @property
    def is_dynamic(self) -> bool:
        """Whether requests for this Node are served."""
        return self.labels.get(DYNAMIC_LABEL) == "true"


_SHORTENED = re.compile(r"([0-9]{1,15})(k|M|G|T|P)", re.ASCII)
_THOUSANDS = "kMGTP"


def _quantities(resources: object) -> dict[str, str]:
    """Quantities as numbers; the API server writes 1000 of a resource as ``1k``."""
    found = texts(resources)
    for resource, quantity in found.items():
        if (short := _SHORTENED.fullmatch(quantity)) is not None:
            found[resource] = str(int(short[1]) * 1000 ** (_THOUSANDS.index(short[2]) + 1))
    return found


def _warning(conditions: object) -> tuple[str, str, str] | None:
    for condition in conditions if isinstance(conditions, list) else ():
        found = texts(condition)
        if found.get("type") == CONDITION:
            return found.get("status", ""), found.get("reason", ""), found.get("message", "")
    return None


def node_cache(changed: Callable[[str], None]) -> Cache[SeenNode]:
    """A cache of Nodes by name."""
    return Cache(lambda item: item.name, changed, version=lambda item: item.resource_version)


def nodes(name: str | None = None) -> Collection[SeenNode]:
    """The Nodes to follow: one, or all."""
    return Collection(
        path=path("api", "v1", "nodes"),
        extract=SeenNode.of,
        field_selector="" if name is None else f"metadata.name={name}",
        metadata_only=False,
    )


def is_gpu_resource(resource: str) -> bool:
    """Whether only GPUs and slices are advertised under this name."""
    return resource == GPU_RESOURCE or resource.startswith(RESOURCE_PREFIX)


def difference(node: SeenNode, topology: NodeTopology, *, strict: bool, handed_over: str | None = None) -> str:
    """What a Node does not advertise as its topology says, in words; "" if all is as it says.

    A resource that is no longer advertised may be gone or ``0``: a kubelet never removes one. Resources of others under
    ``nvidia.com/`` do not count.

    Args:
        node: As it is seen.
        topology: What it is to advertise.
        strict: As for the device plugin.
        handed_over: The fingerprint of what the device plugin says that it has told the kubelet; None where it says
            nothing. Numbers alone do not tell a slice from another one of its profile.
    """
    wanted = {
        resource: len(devices)
        for resource, devices in advertised_resources(topology, strict=strict).items()
        if resource.startswith(_NVIDIA)
    }
    there = wanted.keys() | {resource for resource in node.allocatable if is_gpu_resource(resource)}
    wrong = {
        resource: node.allocatable.get(resource, "0")
        for resource in there
        if node.allocatable.get(resource, "0") != str(wanted.get(resource, 0))
    }
    if not wrong and handed_over not in (None, fingerprint(topology, strict=strict)):
        return "the device plugin has not taken these devices over yet"
    return ", ".join(
        f"{resource} is {found} and not {wanted.get(resource, 0)}" for resource, found in sorted(wrong.items())
    )
