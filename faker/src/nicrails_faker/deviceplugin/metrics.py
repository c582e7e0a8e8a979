"""What the device plugin counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class Metrics:
    """The metrics; series of a resource are there as soon as it is offered.

    Args:
        registry: Where they are registered.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.devices = Gauge(
            "nicrails_faker_devices", "Devices that are offered, by resource.", ("resource",), registry=registry
        )
        self.registrations = Counter(
            "nicrails_faker_registrations",
            "Registrations that the kubelet has taken, by resource.",
            ("resource",),
            registry=registry,
        )
        self.allocations = Counter(
            "nicrails_faker_allocations",
            "Containers that were given devices, by resource.",
            ("resource",),
            registry=registry,
        )
        self.refusals = Counter(
            "nicrails_faker_refused_allocations",
            "Allocations of devices that are not there, by resource.",
            ("resource",),
            registry=registry,
        )

    def offered(self, resource: str, count: int) -> None:
        """A resource has so many devices now."""
        self.devices.labels(resource).set(count)
        for counter in (self.registrations, self.allocations, self.refusals):
            counter.labels(resource)

    def forgotten(self, resource: str) -> None:
        """A resource has no plugin any more."""
        for metric in (self.devices, self.registrations, self.allocations, self.refusals):
            metric.remove(resource)
