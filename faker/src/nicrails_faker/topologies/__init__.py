"""The topology ConfigMaps on a cluster: one for the cluster, one for each Node."""

from __future__ import annotations

from nicrails_faker.topologies.config_maps import (
    KEY,
    KWOK_ANNOTATION,
    NODE_LABEL,
    TOPOLOGY_LABEL,
    TOPOLOGY_SELECTOR,
    UID_ANNOTATION,
    NoTopologyError,
    Stored,
    TopologyError,
    cluster_topology,
    config_map_name,
    document_of,
    stored,
)
from nicrails_faker.topologies.store import FIELD_MANAGER, TopologyStore

__all__ = [
    "FIELD_MANAGER",
    "KEY",
    "KWOK_ANNOTATION",
    "NODE_LABEL",
    "TOPOLOGY_LABEL",
    "TOPOLOGY_SELECTOR",
    "UID_ANNOTATION",
    "NoTopologyError",
    "Stored",
    "TopologyError",
    "TopologyStore",
    "cluster_topology",
    "config_map_name",
    "document_of",
    "stored",
]
