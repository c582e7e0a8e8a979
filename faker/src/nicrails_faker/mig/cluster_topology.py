"""The topology of a cluster: its pools of Nodes.

It is the text under ``topology.yml`` in the ConfigMap ``topology``. Both formats of fake-gpu-operator are read, also mixed in
one document; what is not known here is kept and written back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nicrails.text import excerpt
from nicrails_faker.mig.document import YamlList, YamlMapping, YamlValue, child, mapping, ordered, string, whole
from nicrails_faker.mig.errors import DocumentError
from nicrails_faker.mig.fields import Fields, expect_count, expect_mapping
from nicrails_faker.mig.pools import FlatPool, Pool, ProfilePool, spec_of
from nicrails_faker.mig.topology import NOTHING, NodeTopology
from nicrails_faker.mig.topology_yaml import (
    MAX_DEVICES,
    MAX_GPUS,
    MAX_MEMORY,
    check_others,
    dump_other_devices,
    other_devices,
)
from nicrails_faker.mig.yaml_text import emit, parse

DEFAULT_POOL_LABEL = "run.ai/simulated-gpu-node-pool"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTopology:
    """The pools of a cluster.

    Attributes:
        pools: By name, in the order of their names.
        pool_label: The Node label whose value is the name of the pool.
        mig_strategy: Of all Nodes, as it stands in the document.
        extra: What else stands there, such as ``gpuOperator``.
    """

    pools: Mapping[str, Pool]
    pool_label: str = DEFAULT_POOL_LABEL
    mig_strategy: str = ""
    extra: YamlMapping = NOTHING

    def node(self, name: str, pool: str, profiles: Mapping[str, str]) -> NodeTopology:
        """The topology of a new Node of a pool.

        Args:
            name: The Node's name.
            pool: The name of its pool.
            profiles: The text of ``profile.yaml`` by profile name.

        Raises:
            DocumentError: There is no such pool, or its profile is missing or wrong.
        """
        if pool not in self.pools:
            known = ", ".join(self.pools) or "none"
            raise DocumentError("nodePools", f'no pool "{excerpt(pool, 60)}"; known are {known}')
        spec = spec_of(self.pools[pool], profiles)
        return NodeTopology.create(
            name,
            gpu_product=spec.gpu_product,
            gpu_count=spec.gpu_count,
            gpu_memory=spec.gpu_memory,
            mig_strategy=self.mig_strategy,
            driver_version=spec.driver_version,
            cuda_version=spec.cuda_version,
            other_devices=spec.other_devices,
        )


def read_cluster_topology(text: str) -> ClusterTopology:
    """Read ``topology.yml`` of a cluster.

    Raises:
        DocumentError: It is not one; the message names the path.
    """
    fields = Fields("", parse(text))
    pools = expect_mapping("nodePools", fields.take("nodePools") or NOTHING)
    return ClusterTopology(
        pools={
            name.text: _pool(child("nodePools", name.text), value)
            for name, value in sorted(pools.entries, key=lambda entry: entry[0].text)
        },
        pool_label=fields.text("nodePoolLabelKey", DEFAULT_POOL_LABEL),
        mig_strategy=fields.text("migStrategy"),
        extra=fields.rest(),
    )


def write_cluster_topology(topology: ClusterTopology) -> str:
    """The document of a topology; equal topologies give equal text."""
    pools = mapping((name, _dump_pool(topology.pools[name])) for name in sorted(topology.pools))
    return emit(
        mapping(
            (
                ("nodePools", pools),
                ("nodePoolLabelKey", string(topology.pool_label)),
                ("migStrategy", string(topology.mig_strategy)),
            ),
            topology.extra,
        )
    )


def _pool(path: str, value: YamlValue) -> Pool:
    fields = Fields(path, value)
    gpu = fields.take("gpu")
    if gpu is None:
        return FlatPool(
            gpu_product=fields.text("gpuProduct"),
            gpu_count=fields.count("gpuCount", most=MAX_GPUS),
            gpu_memory=fields.count("gpuMemory", most=MAX_MEMORY),
            other_devices=other_devices(fields),
            extra=fields.rest(),
        )
    inner = Fields(fields.at("gpu"), gpu)
    resources = tuple(
        (name.text, expect_count(child(at, name.text), count, most=MAX_DEVICES))
        for at, item in fields.items("resources")
        for name, count in expect_mapping(at, item).entries
    )
    check_others(fields.at("resources"), [count for _, count in resources])
    return ProfilePool(
        backend=inner.text("backend"),
        profile=inner.text("profile"),
        overrides=expect_mapping(inner.at("overrides"), ordered(inner.take("overrides") or NOTHING)),
        resources=resources,
        gpu_extra=inner.rest(),
        extra=fields.rest(),
    )


def _dump_pool(pool: Pool) -> YamlMapping:
    if isinstance(pool, FlatPool):
        return mapping(
            (
                ("gpuProduct", string(pool.gpu_product)),
                ("gpuCount", whole(pool.gpu_count)),
                ("gpuMemory", whole(pool.gpu_memory)),
                ("otherDevices", dump_other_devices(pool.other_devices)),
            ),
            pool.extra,
        )
    gpu = mapping(
        (
            ("backend", string(pool.backend) if pool.backend else None),
            ("profile", string(pool.profile) if pool.profile else None),
            ("overrides", pool.overrides or None),
        ),
        pool.gpu_extra,
    )
    resources = YamlList(tuple(mapping([(name, whole(count))]) for name, count in pool.resources))
    return mapping((("gpu", gpu), ("resources", resources if pool.resources else None)), pool.extra)
