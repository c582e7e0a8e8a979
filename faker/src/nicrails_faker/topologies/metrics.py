"""What the keeper of the topologies counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class Metrics:
    """Counters and gauges; every series is there from the start.

    Args:
        registry: Where they are registered.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.nodes = Gauge("nicrails_faker_nodes", "Nodes that the watch shows.", registry=registry)
        self.documents = Gauge("nicrails_faker_topologies", "Topologies that the watch shows.", registry=registry)
        self.created = Counter("nicrails_faker_topologies_created", "Topologies made.", registry=registry)
        self.updated = Counter(
            "nicrails_faker_topologies_updated", "Topologies that a change was carried to.", registry=registry
        )
        self.pruned = Counter(
            "nicrails_faker_topologies_pruned", "Topologies removed, by reason.", ("reason",), registry=registry
        )
        for reason in ("node-gone", "node-replaced"):
            self.pruned.labels(reason)
