"""Nodes without a kubelet: their status says what their topology has, and their MIG requests are served."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from nicrails.kube import ApiError, ConflictError, NotFoundError
from nicrails.text import excerpt
from nicrails_faker.fakenodes.metrics import Metrics
from nicrails_faker.fakenodes.resources import refused_names, resource_changes
from nicrails_faker.mig.labels import is_feature_label
from nicrails_faker.mig.mapping import ANNOTATION as MAPPING_ANNOTATION
from nicrails_faker.migfaker.nodes import NodeWriter
from nicrails_faker.migfaker.reconciler import Reconciler
from nicrails_faker.migfaker.seen import RESOURCES_ANNOTATION, SeenNode
from nicrails_faker.reporting import explain
from nicrails_faker.topologies.config_maps import KWOK_ANNOTATION, TopologyError
from nicrails_faker.topologies.documents import Document, Unreadable
from nicrails_faker.working import Cache, Outcomes

KWOK_FAKE = "fake"


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeNodes:
    """Which Nodes have no kubelet: those of KWOK, and those with a label.

    Attributes:
        label: The label's key.
        value: Its value.
    """

    label: str = "nicrails.io/fake-node"
    value: str = "true"

    def __contains__(self, node: SeenNode) -> bool:
        return node.annotations.get(KWOK_ANNOTATION) == KWOK_FAKE or node.labels.get(self.label) == self.value


class Controller:
    """Does what is due for one Node at a time.

    Args:
        fake: Which Nodes are meant; all others are never written to.
        nodes: The Nodes as they are seen.
        documents: Their topologies as they are seen.
        writer: Writes to Nodes.
        reconciler: Serves their requests.
        outcomes: The duty that is done while every Node is right.
        metrics: Counts.
        strict: As for ``advertised_resources``.
    """

    def __init__(
        self,
        fake: FakeNodes,
        nodes: Cache[SeenNode],
        documents: Cache[Document],
        writer: NodeWriter,
        reconciler: Reconciler,
        *,
        outcomes: Outcomes,
        metrics: Metrics,
        strict: bool,
    ) -> None:
        self._fake = fake
        self._nodes = nodes
        self._documents = documents
        self._writer = writer
        self._reconciler = reconciler
        self._outcomes = outcomes
        self._metrics = metrics
        self._strict = strict
        metrics.nodes.set_function(lambda: sum(node in fake for node in nodes.items.values()))

    async def work(self, name: str) -> bool:
        """Look at a Node; returns whether all that was due is done."""
        node = self._nodes.items.get(name)
        if node is None:
            await self._reconciler.reconcile(name)
            self._outcomes.done(name)
            return True
        if node not in self._fake:
            self._outcomes.done(name)
            return True
        try:
            wrong = await self._look(node)
        except ConflictError:
            return False
        except NotFoundError:
            # It has just gone; its event follows.
            return True
        except ApiError as error:
            self._outcomes.failed(name, explain(error))
            return False
        except TopologyError as error:
            wrong = str(error)
        if wrong:
            self._outcomes.failed(name, wrong)
        else:
            self._outcomes.done(name)
        return True

    async def _look(self, node: SeenNode) -> str:
        document = self._documents.items.get(node.name)
        if isinstance(document, Unreadable):
            # What it advertises stays as it is.
            return document.reason
        if document is None and RESOURCES_ANNOTATION in node.annotations:
            # The last trace, the annotation, goes with the resources below.
            await self._writer.patch(
                node,
                labels=dict.fromkeys(filter(is_feature_label, node.labels)),
                annotations={MAPPING_ANNOTATION: None},
            )
        changes = resource_changes(node, None if document is None else document.topology, strict=self._strict)
        if changes:
            await self._writer.patch_resources(
                node, capacity=changes.capacity, allocatable=changes.allocatable, annotations=changes.annotations
            )
            self._metrics.patches.inc()
            structlog.get_logger().debug("resources-written", node=node.name, resources=dict(changes.allocatable))
        if document is None:
            # A Node without GPUs is as it should be, unless somebody wants some of them cut.
            return await self._reconciler.reconcile(node.name) if node.is_dynamic and node.config is not None else ""
        wrong = await self._reconciler.reconcile(node.name)
        if not wrong and (refused := refused_names(document.topology)):
            return f'"{excerpt(refused[0], 120)}" is no name of an extended resource; correct it in the topology'
        return wrong
