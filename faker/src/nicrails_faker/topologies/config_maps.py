"""What a topology ConfigMap is: its name, labels, annotations and document; no I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nicrails.text import excerpt
from nicrails_faker.mig import ClusterTopology, DocumentError, NodeTopology, read_cluster_topology, read_topology

KEY = "topology.yml"

TOPOLOGY_LABEL = "node-topology"
NODE_LABEL = "node-name"
TOPOLOGY_SELECTOR = f"{TOPOLOGY_LABEL}=true"
KWOK_ANNOTATION = "kwok.x-k8s.io/node"
ADVERTISED_ANNOTATION = "nicrails.io/advertised"
"""The fingerprint of the devices that the Node's device plugin has handed over to the kubelet."""
UID_ANNOTATION = "nicrails.io/node-uid"
"""The UID of the Node that a document was made for; a Node that was replaced has another one."""

MAX_NAME, MAX_LABEL = 253, 63

_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)


class TopologyError(Exception):
    """A topology ConfigMap is missing, is not one, or is unreadable; the message is one sentence."""


class NoTopologyError(TopologyError):
    """There is no such ConfigMap (yet)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The topology of a Node as it stands in its ConfigMap.

    Attributes:
        topology: What the document says.
        text: The document itself.
        name: The ConfigMap's name.
        uid: The ConfigMap's UID.
        resource_version: The version that was read.
        node: The Node's name.
        node_uid: The UID of the Node that it was made for, "" where nothing is said.
        annotations: The ConfigMap's annotations.
    """

    topology: NodeTopology
    text: str
    name: str
    uid: str
    resource_version: str
    node: str
    node_uid: str
    annotations: Mapping[str, str]


def config_map_name(topology: str, node: str) -> str:
    """The name of a Node's ConfigMap.

    Args:
        topology: The name of the cluster's.
        node: The Node's name.

    Raises:
        TopologyError: No ConfigMap can have that name, or none can carry the Node's name as a label.
    """
    name = f"{topology}-{node}"
    if len(name) > MAX_NAME:
        raise TopologyError(
            f"the ConfigMap of Node {excerpt(node, 80)} would have a name of {len(name)} characters, {MAX_NAME} are the"
            " most; give the Node a shorter name"
        )
    if len(node) > MAX_LABEL:
        raise TopologyError(
            f"the name of Node {excerpt(node, 80)} has {len(node)} characters, the label {NODE_LABEL} takes"
            f" {MAX_LABEL}; give the Node a shorter name"
        )
    if _NAME.fullmatch(name) is None:
        raise TopologyError(
            f'"{excerpt(name, 120)}" can not be the name of a ConfigMap; it needs lower case letters, digits, - and .'
        )
    return name


def stored(config_map: Mapping[str, Any], known: Stored | None = None) -> Stored:
    """The topology in a ConfigMap.

    Args:
        config_map: As the API server gives it.
        known: What was read before; an equal text has an equal topology, and is not read again.

    Raises:
        TopologyError: It is not the ConfigMap of a Node's topology, or its document is unreadable.
    """
    metadata = config_map["metadata"]
    name = str(metadata["name"])
    labels = texts(metadata.get("labels"))
    node = labels.get(NODE_LABEL, "")
    if labels.get(TOPOLOGY_LABEL) != "true" or not node:
        raise TopologyError(
            f"ConfigMap {name} has not the labels {TOPOLOGY_SELECTOR} and {NODE_LABEL}, so it is no Node's topology and"
            " is left alone; remove it, or name the topology otherwise"
        )
    text = document_of(config_map)
    try:
        topology = known.topology if known is not None and known.text == text else read_topology(text)
    except DocumentError as error:
        raise TopologyError(f"ConfigMap {name}, {KEY}: {error}") from error
    annotations = texts(metadata.get("annotations"))
    return Stored(
        topology=topology,
        text=text,
        name=name,
        uid=str(metadata["uid"]),
        resource_version=str(metadata["resourceVersion"]),
        node=node,
        node_uid=annotations.get(UID_ANNOTATION, ""),
        annotations=annotations,
    )


def document_of(config_map: Mapping[str, Any], key: str = KEY) -> str:
    """The text under a key of a ConfigMap.

    Raises:
        TopologyError: There is none.
    """
    data = config_map.get("data")
    text = data.get(key) if isinstance(data, dict) else None
    if not isinstance(text, str):
        raise TopologyError(
            f"ConfigMap {config_map['metadata']['name']} has no {key}; write it, or remove the ConfigMap"
        )
    return text


def cluster_topology(config_map: Mapping[str, Any]) -> ClusterTopology:
    """The topology in the cluster's ConfigMap.

    Raises:
        TopologyError: It is unreadable.
    """
    text = document_of(config_map)
    try:
        return read_cluster_topology(text)
    except DocumentError as error:
        raise TopologyError(f"ConfigMap {config_map['metadata']['name']}, {KEY}: {error}") from error


def texts(value: object) -> dict[str, str]:
    """The texts of a JSON object of texts, such as labels; nothing if it is none."""
    if not isinstance(value, dict):
        return {}
    return {str(key): item for key, item in value.items() if isinstance(item, str)}
