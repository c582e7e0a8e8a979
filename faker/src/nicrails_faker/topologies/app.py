"""The service: its parts wired together."""

from __future__ import annotations

from nicrails.kube import Collection, Reflector, path
from nicrails_faker.reporting import WatchReport
from nicrails_faker.running import ServiceApp
from nicrails_faker.topologies import server
from nicrails_faker.topologies.cluster import ClusterDocument
from nicrails_faker.topologies.config_maps import KEY, TOPOLOGY_SELECTOR
from nicrails_faker.topologies.keeper import Keeper
from nicrails_faker.topologies.metrics import Metrics
from nicrails_faker.topologies.seen import PROFILE_KEY, PROFILE_LABEL, SeenDocument, SeenNode, SeenText
from nicrails_faker.topologies.store import TopologyStore
from nicrails_faker.working import Outcomes

FIELD_MANAGER = "nicrails-faker-topology"

NODES, DOCUMENTS, CONFIG_MAP, PROFILES = "nodes", "config-maps", "cluster-config-map", "gpu-profiles"
CLUSTER_TOPOLOGY, TOPOLOGIES = "cluster-topology", "topologies"
DUTIES = (NODES, DOCUMENTS, CONFIG_MAP, PROFILES, CLUSTER_TOPOLOGY, TOPOLOGIES)


def build(app: ServiceApp, *, namespace: str, name: str) -> None:
    """Add the service's parts.

    Args:
        app: With the duties :data:`DUTIES`.
        namespace: Where the ConfigMaps are.
        name: The cluster's ConfigMap.
    """
    client = app.client
    store = TopologyStore(client, namespace, name, field_manager=FIELD_MANAGER)
    cluster = ClusterDocument(name, app.report(CLUSTER_TOPOLOGY))
    keeper = Keeper(client, store, cluster, Outcomes(app.report(TOPOLOGIES), "keep-topologies"), Metrics(app.registry))
    nodes = Collection(path=path("api", "v1", "nodes"), extract=SeenNode.of)
    documents = Collection(path=store.path(), extract=SeenDocument.of, label_selector=TOPOLOGY_SELECTOR)
    config_map = Collection(
        path=store.path(),
        extract=lambda item: SeenText.of(item, KEY),
        field_selector=f"metadata.name={name}",
        metadata_only=False,
    )
    profiles = Collection(
        path=store.path(),
        extract=lambda item: SeenText.of(item, PROFILE_KEY),
        label_selector=PROFILE_LABEL,
        metadata_only=False,
    )

    def watching(duty: str) -> WatchReport:
        return app.watch_report(duty, app.report(duty))

    app.tasks |= {
        NODES: Reflector(client, nodes, keeper.nodes, watching(NODES)).run,
        DOCUMENTS: Reflector(client, documents, keeper.documents, watching(DOCUMENTS)).run,
        CONFIG_MAP: Reflector(client, config_map, cluster.config_map, watching(CONFIG_MAP)).run,
        PROFILES: Reflector(client, profiles, cluster.profile_maps, watching(PROFILES)).run,
        "keeper": keeper.work.run,
    }
    app.web.add_routes(server.routes(store, cluster))
