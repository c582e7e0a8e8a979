"""The service: its parts wired together."""

from __future__ import annotations

from pathlib import Path

from nicrails.kube import Reflector
from nicrails_faker.arguments import ArgumentsError
from nicrails_faker.dcgm.accounting import Accountant
from nicrails_faker.dcgm.collector import DcgmCollector
from nicrails_faker.kubelet import PodResources
from nicrails_faker.running import ServiceApp
from nicrails_faker.topologies.config_maps import TopologyError
from nicrails_faker.topologies.documents import documents
from nicrails_faker.topologies.store import TopologyStore

FIELD_MANAGER = "nicrails-faker-metrics"
CONFIG_MAP, POD_RESOURCES, HOLDERS = "config-map", "pod-resources", "holders"
DUTIES = (CONFIG_MAP, POD_RESOURCES, HOLDERS)


def build(app: ServiceApp, *, node: str, namespace: str, name: str, pod_resources: Path, interval: float) -> None:
    """Add the service's parts.

    Args:
        app: With the duties :data:`DUTIES`.
        node: The Node whose GPUs are measured.
        namespace: Where the topologies are.
        name: The cluster's ConfigMap.
        pod_resources: The kubelet's socket.
        interval: Seconds between two questions to the kubelet.

    Raises:
        ArgumentsError: No ConfigMap can have the Node's name.
    """
    store = TopologyStore(app.client, namespace, name, field_manager=FIELD_MANAGER)
    accountant = Accountant(
        node,
        store,
        PodResources(pod_resources),
        asked=app.report(POD_RESOURCES),
        written=app.report(HOLDERS),
        interval=interval,
    )
    try:
        collection = documents(store, node)
    except TopologyError as error:
        raise ArgumentsError(str(error)) from error
    app.registry.register(DcgmCollector(accountant.series))
    report = app.watch_report(CONFIG_MAP, app.report(CONFIG_MAP))
    app.tasks |= {
        CONFIG_MAP: Reflector(app.client, collection, accountant.cache, report).run,
        HOLDERS: accountant.run,
    }
