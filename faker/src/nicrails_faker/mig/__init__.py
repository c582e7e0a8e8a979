"""Fake MIG: what a GPU can be cut into, what is asked for, and what a Node then advertises.

All of it is pure: texts and values in, texts and values out. Nothing here talks to a cluster.
"""

from __future__ import annotations

from nicrails_faker.mig.advertised import (
    GPU_RESOURCE,
    Condition,
    Reason,
    Strategy,
    advertised_resources,
    conditions,
    fingerprint,
    refusals,
    strategy_of,
)
from nicrails_faker.mig.cluster_topology import ClusterTopology, read_cluster_topology, write_cluster_topology
from nicrails_faker.mig.errors import DocumentError, GeometryError, MigError, PlanError, ProductError
from nicrails_faker.mig.geometry import Slice, Wanted, gpu_instance_id, place
from nicrails_faker.mig.identity import gpu_uuid, mig_uuid
from nicrails_faker.mig.plan import plan
from nicrails_faker.mig.pools import FlatPool, Pool, PoolSpec, ProfilePool, spec_of
from nicrails_faker.mig.products import PRODUCTS, Product, find_product
from nicrails_faker.mig.profiles import Profile, resource_name
from nicrails_faker.mig.request import MigRequest, parse_request
from nicrails_faker.mig.topology import Gpu, Holder, MigInstance, NodeTopology, OtherDevice, Status
from nicrails_faker.mig.topology_yaml import read_topology, write_topology

__all__ = [
    "GPU_RESOURCE",
    "PRODUCTS",
    "ClusterTopology",
    "Condition",
    "DocumentError",
    "FlatPool",
    "GeometryError",
    "Gpu",
    "Holder",
    "MigError",
    "MigInstance",
    "MigRequest",
    "NodeTopology",
    "OtherDevice",
    "PlanError",
    "Pool",
    "PoolSpec",
    "Product",
    "ProductError",
    "Profile",
    "ProfilePool",
    "Reason",
    "Slice",
    "Status",
    "Strategy",
    "Wanted",
    "advertised_resources",
    "conditions",
    "find_product",
    "fingerprint",
    "gpu_instance_id",
    "gpu_uuid",
    "mig_uuid",
    "parse_request",
    "place",
    "plan",
    "read_cluster_topology",
    "read_topology",
    "refusals",
    "resource_name",
    "spec_of",
    "strategy_of",
    "write_cluster_topology",
    "write_topology",
]
