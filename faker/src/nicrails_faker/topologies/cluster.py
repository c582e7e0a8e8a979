"""The cluster's document and the GPU profiles that it names, as watches show them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from nicrails_faker.mig import ClusterTopology, DocumentError, read_cluster_topology
from nicrails_faker.reporting import Report
from nicrails_faker.topologies.config_maps import KEY
from nicrails_faker.topologies.seen import PROFILE_PREFIX, SeenText
from nicrails_faker.working import Cache


class ClusterDocument:
    """What the caches of the cluster's ConfigMap and of the GPU profiles amount to.

    Args:
        name: The name of the cluster's ConfigMap.
        report: The duty that is done while the document is good.

    Attributes:
        changed: Called when the document or a profile has changed.
        config_map: The cache of the cluster's ConfigMap.
        profile_maps: The cache of the GPU profiles' ConfigMaps.
        topology: The document; None while it is missing or wrong, or was not read yet.
        fault: Why there is none, in one sentence.
    """

    def __init__(self, name: str, report: Report) -> None:
        self.changed: Callable[[], None] = lambda: None
        self.config_map: Cache[SeenText] = Cache(lambda item: item.name, lambda _: self._read())
        self.profile_maps: Cache[SeenText] = Cache(lambda item: item.name, lambda _: self.changed())
        self.topology: ClusterTopology | None = None
        self.fault = "the cluster's topology was not read yet"
        self._name = name
        self._report = report

    @property
    def profiles(self) -> Mapping[str, str]:
        """The text of ``profile.yaml`` by profile name."""
        return {
            name.removeprefix(PROFILE_PREFIX): seen.text
            for name, seen in self.profile_maps.items.items()
            if name.startswith(PROFILE_PREFIX) and seen.text is not None
        }

    @property
    def synced(self) -> bool:
        """Whether both were read at least once."""
        return self.config_map.synced and self.profile_maps.synced

    def _read(self) -> None:
        seen = self.config_map.items.get(self._name)
        self.topology = None
        if seen is None:
            self.fault = f"ConfigMap {self._name} does not exist; write it, until then nothing is made or removed"
        elif seen.text is None:
            self.fault = f"ConfigMap {self._name} has no {KEY}; write it, until then nothing is made or removed"
        else:
            try:
                self.topology = read_cluster_topology(seen.text)
            except DocumentError as error:
                self.fault = f"ConfigMap {self._name}, {KEY}: {error}; until it is right nothing is made or removed"
        if self.topology is None:
            self._report.failed("read-cluster-topology", self.fault)
            return
        self.fault = ""
        structlog.get_logger().info("cluster-topology-read", pools=len(self.topology.pools))
        self._report.succeeded()
        self.changed()
