"""What a Node is told: labels, mapping, the state of its request, a condition, and Events."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from nicrails.kube import InvalidError
from nicrails.text import excerpt
from nicrails_faker.mig import NodeTopology, ProductError, conditions
from nicrails_faker.mig.labels import STATE_LABEL, feature_labels, is_feature_label
from nicrails_faker.mig.mapping import ANNOTATION as MAPPING_ANNOTATION
from nicrails_faker.mig.mapping import mig_mapping
from nicrails_faker.migfaker.metrics import Metrics
from nicrails_faker.migfaker.nodes import NodeWriter
from nicrails_faker.migfaker.seen import ERROR_ANNOTATION, SeenNode

PENDING, SUCCESS, FAILED = "pending", "success", "failed"
MAX_ERROR = 1000
"""Characters of the annotation that says why a request failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How requests are served.

    Attributes:
        strict: Nodes advertise what NVIDIA's plugin would, and nothing where that would not start.
        taken_within: Seconds for a Node to advertise what was written.
        labels: Whether Nodes get the labels of GPU Feature Discovery.
        plugin: Whether Nodes have a device plugin, so that what it says to have handed over counts.
    """

    strict: bool = False
    taken_within: float = 60.0
    labels: bool = True
    plugin: bool = True


class Teller:
    """Tells Nodes; nothing is sent where a Node says it already.

    Args:
        writer: Writes to Nodes.
        options: How requests are served.
        metrics: Counts.
    """

    def __init__(self, writer: NodeWriter, options: Options, metrics: Metrics) -> None:
        self._writer = writer
        self._options = options
        self._metrics = metrics
        self._unwritten: dict[str, tuple[str, str]] = {}

    async def pending(self, node: SeenNode) -> None:
        """A request is on its way."""
        await self._writer.patch(node, labels={STATE_LABEL: PENDING}, annotations={})

    async def failed(self, node: SeenNode, reason: str, outcome: str) -> None:
        """A request failed; everything else stays as it is."""
        reason = excerpt(reason, MAX_ERROR)
        told = node.annotations.get(ERROR_ANNOTATION) == reason or self._unwritten.get(node.name) == (node.uid, reason)
        if node.state == FAILED and told:
            return
        try:
            await self._writer.patch(node, labels={STATE_LABEL: FAILED}, annotations={ERROR_ANNOTATION: reason})
            self._unwritten.pop(node.name, None)
        except InvalidError as error:
            # The annotations that are there leave no room for another one; the state must be told nevertheless.
            structlog.get_logger().warning("mig-config-error-not-written", node=node.name, reason=str(error))
            await self._writer.patch(node, labels={STATE_LABEL: FAILED}, annotations={ERROR_ANNOTATION: None})
            self._unwritten[node.name] = (node.uid, reason)
        self._metrics.requests.labels(outcome).inc()
        structlog.get_logger().warning("mig-failed", node=node.name, reason=reason)
        await self._writer.event(node, "MigConfigFailed", reason, warning=True)

    async def succeeded(self, node: SeenNode, topology: NodeTopology) -> None:
        """The Node advertises what was asked for: all is said in one patch; a removed request leaves no state."""
        asked = node.config is not None
        labels, annotations = self._features(node, topology)
        labels[STATE_LABEL] = SUCCESS if asked else None
        annotations[ERROR_ANNOTATION] = None
        await self._writer.patch(node, labels=labels, annotations=annotations)
        if not asked or node.state != SUCCESS:
            self._metrics.requests.labels("applied").inc()
            structlog.get_logger().info("mig-applied", node=node.name, off=not asked)
            await self._writer.event(node, "MigConfigApplied", _told(topology))
        await self._warn(node, topology)

    async def follow(self, node: SeenNode, topology: NodeTopology) -> None:
        """Labels and mapping are those of the topology."""
        labels, annotations = self._features(node, topology)
        await self._writer.patch(node, labels=labels, annotations=annotations)
        await self._warn(node, topology)

    async def _warn(self, node: SeenNode, topology: NodeTopology) -> None:
        """The Node's condition says what about it deserves a look; a Node that never had any has no condition."""
        found = conditions(topology)
        if found:
            message = excerpt("; ".join(one.message for one in found), MAX_ERROR)
            wanted = ("True", found[0].reason.value, message)
        elif node.warning is not None:
            wanted = ("False", "AsUsual", "nothing about the GPUs and slices deserves a look")
        else:
            return
        if node.warning != wanted:
            status, reason, message = wanted
            await self._writer.patch_condition(node, status=status, reason=reason, message=message)

    def _features(self, node: SeenNode, topology: NodeTopology) -> tuple[dict[str, str | None], dict[str, str | None]]:
        labels: dict[str, str | None] = {}
        if self._options.labels:
            labels |= dict.fromkeys(filter(is_feature_label, node.labels))
            labels |= feature_labels(topology, strict=self._options.strict)
        return labels, {MAPPING_ANNOTATION: _mapping(node.name, topology)}


def _mapping(node: str, topology: NodeTopology) -> str | None:
    try:
        return mig_mapping(topology)
    except ProductError as error:
        # Slices that somebody wrote into the document; a place that nobody knows is not made up.
        structlog.get_logger().warning("no-mig-mapping", node=node, reason=str(error))
        return None


def _told(topology: NodeTopology) -> str:
    cut = [
        f"GPU {index} into {', '.join(excerpt(one.profile, 40) for one in gpu.mig_instances) or 'no slices'}"
        for index, gpu in enumerate(topology.gpus)
        if gpu.mig_enabled
    ]
    return f"cut {'; '.join(cut)}" if cut else "MIG is off"
