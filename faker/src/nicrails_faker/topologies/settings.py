"""What the cluster's document says about every Node of a pool, and how it is brought into a Node's document; pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from nicrails_faker.mig import ClusterTopology, NodeTopology, OtherDevice, Pool, spec_of
from nicrails_faker.mig.document import YamlMapping, YamlScalar, YamlValue, string
from nicrails_faker.mig.errors import DocumentError
from nicrails_faker.mig.topology_yaml import write_topology

MACHINE = "machine"
"""Key of a pool and of a Node's document: the simulated machine that gives PCI addresses and NICs to ``nvidia-smi``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """What a change of the cluster's document changes in the documents that there are.

    Attributes:
        mig_strategy: Of all Nodes.
        other_devices: Of each Node of the pool.
        machine: Of each Node of the pool; "" is none.
    """

    mig_strategy: str
    other_devices: tuple[OtherDevice, ...]
    machine: str

    @property
    def fingerprint(self) -> str:
        """A short text that is another one for other settings."""
        document = write_topology(
            NodeTopology(
                gpu_memory=0,
                gpu_product=self.machine,
                gpus=(),
                mig_strategy=self.mig_strategy,
                other_devices=self.other_devices,
            )
        )
        return hashlib.sha256(document.encode()).hexdigest()[:16]

    def into(self, topology: NodeTopology) -> NodeTopology:
        """The topology with these settings; GPUs, slices and who holds them stay as they are."""
        return replace(
            topology,
            mig_strategy=self.mig_strategy,
            other_devices=self.other_devices,
            extra=_with_machine(topology.extra, self.machine),
        )


def settings_of(cluster: ClusterTopology, pool: str, profiles: Mapping[str, str]) -> ClusterSettings:
    """The settings of the Nodes of a pool.

    Args:
        cluster: The cluster's document, which has the pool.
        pool: The pool's name.
        profiles: The text of ``profile.yaml`` by profile name.

    Raises:
        DocumentError: The pool's profile is missing or wrong.
    """
    found = cluster.pools[pool]
    return ClusterSettings(
        mig_strategy=cluster.mig_strategy,
        other_devices=spec_of(found, profiles).other_devices,
        machine=_machine(pool, found),
    )


def _machine(name: str, pool: Pool) -> str:
    value = _get(pool.extra, MACHINE)
    if value is None:
        return ""
    if not isinstance(value, YamlScalar):
        raise DocumentError(f"nodePools.{name}.{MACHINE}", "expected the name of a machine")
    return value.text


def _with_machine(extra: YamlMapping, machine: str) -> YamlMapping:
    entries = [entry for entry in extra.entries if entry[0].text != MACHINE]
    if machine:
        entries.append((string(MACHINE), string(machine)))
    return YamlMapping(tuple(sorted(entries, key=lambda entry: entry[0].text)))


def _get(values: YamlMapping, name: str) -> YamlValue | None:
    return next((value for key, value in values.entries if key.text == name), None)
