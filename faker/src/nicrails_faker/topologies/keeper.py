"""Keeps a topology for each Node of a pool: makes what is missing, carries changes of the cluster's, prunes what is over.

Nothing is judged by a watch alone where it would remove something: a Node that seems to be gone or replaced is read once
more. While the cluster's document is missing or wrong nothing is made, changed or removed.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from nicrails.kube import METADATA, ApiError, ConflictError, KubeClient, NotFoundError, UnreachableError, path
from nicrails_faker.mig import DocumentError
from nicrails_faker.reporting import explain
from nicrails_faker.topologies.cluster import ClusterDocument
from nicrails_faker.topologies.config_maps import KWOK_ANNOTATION, UID_ANNOTATION, TopologyError
from nicrails_faker.topologies.metrics import Metrics
from nicrails_faker.topologies.seen import SETTINGS_ANNOTATION, SeenDocument, SeenNode
from nicrails_faker.topologies.settings import ClusterSettings, settings_of
from nicrails_faker.topologies.store import TopologyStore
from nicrails_faker.working import Cache, Outcomes, Worklist

WORKERS = 8
NOBODY = ""
"""In place of a Node's name: work that tells how it goes where there are no Nodes."""


class Keeper:
    """Brings the Nodes' topologies in line.

    Args:
        client: The API server.
        store: The ConfigMaps.
        cluster: The cluster's document.
        outcomes: The duty that is done while every Node's topology is right.
        metrics: Counts.

    Attributes:
        nodes: The cache of the Nodes.
        documents: The cache of the ConfigMaps.
        work: The names of Nodes that need a look.
    """

    def __init__(
        self, client: KubeClient, store: TopologyStore, cluster: ClusterDocument, outcomes: Outcomes, metrics: Metrics
    ) -> None:
        self._client = client
        self._store = store
        self._cluster = cluster
        self._outcomes = outcomes
        self._metrics = metrics
        self._prefix = f"{store.name}-"
        self._begun = False
        self.work = Worklist(self._work, workers=WORKERS)
        self.nodes: Cache[SeenNode] = Cache(lambda item: item.name, self._changed)
        self.documents: Cache[SeenDocument] = Cache(
            lambda item: item.name, lambda name: self._changed(name.removeprefix(self._prefix))
        )
        cluster.changed = self.all_changed
        metrics.nodes.set_function(lambda: len(self.nodes.items))
        metrics.documents.set_function(lambda: len(self.documents.items))

    def all_changed(self) -> None:
        """Every Node needs a look."""
        if not self._synced:
            # A name would only be worked on to find that out.
            return
        self._begun = True
        names = {name.removeprefix(self._prefix) for name in self.documents.items}
        for name in self.nodes.items.keys() | names | {NOBODY}:
            self.work.add(name)

    @property
    def _synced(self) -> bool:
        return self.nodes.synced and self.documents.synced and self._cluster.synced

    def _changed(self, name: str) -> None:
        if self._begun:
            self.work.add(name)
        else:
            self.all_changed()

    async def _work(self, name: str) -> bool:
        try:
            await self._look(name)
        except ConflictError:
            # Somebody else has written; what stands there now is looked at.
            return False
        except ApiError as error:
            self._outcomes.failed(name, explain(error))
            return False
        except (TopologyError, DocumentError) as error:
            self._outcomes.failed(name, str(error))
            return False
        self._outcomes.done(name)
        return True

    async def _look(self, name: str) -> None:
        cluster = self._cluster.topology
        if name == NOBODY or cluster is None:
            return
        node, document = self.nodes.items.get(name), self.documents.items.get(f"{self._prefix}{name}")
        if document is not None and document.node != name:
            # Its name is that of a topology, its label says something else: it is not ours.
            document = None
        if document is not None and await self._prune(name, node, document):
            document = None
        pool = node.labels.get(cluster.pool_label, "") if node is not None else ""
        if node is None or pool not in cluster.pools:
            return
        settings = settings_of(cluster, pool, self._cluster.profiles)
        annotations = {UID_ANNOTATION: node.uid, SETTINGS_ANNOTATION: settings.fingerprint}
        if node.kwok:
            annotations[KWOK_ANNOTATION] = node.kwok
        if document is None:
            topology = settings.into(cluster.node(name, pool, self._cluster.profiles))
            if await self._store.create(name, topology, annotations=annotations):
                self._metrics.created.inc()
                structlog.get_logger().info("topology-created", node=name, pool=pool, gpus=len(topology.gpus))
                return
            # The watch is behind, or a ConfigMap of that name is another one's, which the read below tells.
        elif (document.settings, document.node_uid) == (settings.fingerprint, node.uid) and node.kwok in (
            "",
            document.kwok,
        ):
            return
        await self._bring(name, settings, annotations)

    async def _bring(self, name: str, settings: ClusterSettings, annotations: Mapping[str, str]) -> None:
        found = await self._store.read(name)
        if found is None or found.node_uid not in ("", annotations[UID_ANNOTATION]):
            # It was removed or replaced in between; its event brings the name back.
            return
        if all(found.annotations.get(key) == value for key, value in annotations.items()):
            return
        topology = found.topology
        if found.annotations.get(SETTINGS_ANNOTATION) != annotations[SETTINGS_ANNOTATION]:
            topology = settings.into(topology)
        await self._store.apply(found, topology, annotations=annotations)
        self._metrics.updated.inc()
        structlog.get_logger().info("topology-updated", node=name, strategy=settings.mig_strategy)

    async def _prune(self, name: str, node: SeenNode | None, document: SeenDocument) -> bool:
        """Remove a document whose Node is over; one that says nothing of its Node is kept, for nothing proves it."""
        if not document.node_uid or (node is not None and node.uid == document.node_uid):
            return False
        live = await self._live_uid(name)
        if live == document.node_uid:
            return False
        if not await self._store.delete(document.name, document.uid):
            raise ConflictError("DELETE", "it has changed")
        self._metrics.pruned.labels("node-gone" if live is None else "node-replaced").inc()
        structlog.get_logger().info("topology-pruned", node=name, was=document.node_uid, now=live or "gone")
        return True

    async def _live_uid(self, name: str) -> str | None:
        try:
            answer = await self._client.request("GET", path("api", "v1", "nodes", name), accept=METADATA)
        except NotFoundError as error:
            if error.reason != "NotFound":
                raise UnreachableError(error.request, f"a 404 that is not the API server's: {error.message}") from error
            return None
        return SeenNode.of(answer.object()).uid
