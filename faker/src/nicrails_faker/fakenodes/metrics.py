"""What the controller of Nodes without a kubelet counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class Metrics:
    """Counters and gauges.

    Args:
        registry: Where they are registered.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.nodes = Gauge("nicrails_faker_fake_nodes", "Nodes without a kubelet.", registry=registry)
        self.patches = Counter(
            "nicrails_faker_resource_patches", "Patches of capacity and allocatable.", registry=registry
        )
