"""Which pod of the GPU Operator a command may run in: exactly one, and certainly of this Node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nicrails.kube import ApiError, KubeClient, NotFoundError, controller, core_path, path
from nicrails.text import excerpt
from nicrails_broker.failures import Retry, SourceError, api_failure

DEFAULT_CONTAINER = "nvidia-device-plugin"
"""The container of NVIDIA's charts that has the driver; ``config-manager`` may stand beside it."""
MAX_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The DaemonSet whose pods have nvidia-smi.

    Attributes:
        namespace: Of the GPU Operator.
        daemon_set: Its name.
        container: The container to use, or None for the only one, or else :data:`DEFAULT_CONTAINER`.
    """

    namespace: str
    daemon_set: str
    container: str | None

    def __str__(self) -> str:
        return f"DaemonSet {self.namespace}/{self.daemon_set}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a command is run."""

    namespace: str
    pod: str
    container: str


async def find_place(client: KubeClient, workload: Workload, node: str) -> Place:
    """Find the one pod that is on the Node, has the DaemonSet's labels and is its own, runs, is ready and stays.

    Raises:
        SourceError: There is none, or there are several; the sentence says what was found.
    """
    daemon_set = await _daemon_set(client, workload)
    pods = await _pods(client, workload, node, label_selector(daemon_set.get("spec", {}).get("selector")))
    uid = str(daemon_set.get("metadata", {}).get("uid", ""))
    fit: list[Place] = []
    unfit: list[str] = []
    for pod in pods:
        name = excerpt(str(pod.get("metadata", {}).get("name", "")))
        place = _judge(pod, workload, node, uid)
        if isinstance(place, Place):
            fit.append(place)
        else:
            unfit.append(f"{name} ({place})")
    if len(fit) == 1:
        return fit[0]
    if fit:
        raise SourceError(
            f"{len(fit)} pods of {workload} are ready on Node {node}: {_shown(place.pod for place in fit)}; "
            "exactly one is expected, so one of them has to go"
        )
    if unfit:
        raise SourceError(
            f"no pod of {workload} is ready on Node {node}: {_shown(unfit)}; waiting for it, see its events and logs"
        )
    raise SourceError(
        f"no pod of {workload} is on Node {node}; check the GPU Operator's node labels and tolerations, "
        "or set gpuSource.gpuNode: never if this Node has no GPU to publish"
    )


def label_selector(selector: object) -> str:
    """The query parameter of a ``LabelSelector``, both of its parts.

    Raises:
        SourceError: The selector is empty or has an operator that is not known; half a selector would match too much.
    """
    fields = selector if isinstance(selector, dict) else {}
    labels = fields.get("matchLabels") or {}
    terms = [f"{key}={value}" for key, value in sorted(labels.items())]
    for expression in fields.get("matchExpressions") or ():
        key, operator = expression.get("key", ""), expression.get("operator", "")
        values = ",".join(expression.get("values") or ())
        known = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        if operator not in known:
            raise SourceError(f"the DaemonSet's selector has the unknown operator {excerpt(str(operator), 40)!r}")
        terms.append(known[operator])
    if not terms:
        raise SourceError("the DaemonSet has no selector")
    return ",".join(terms)


async def _daemon_set(client: KubeClient, workload: Workload) -> Mapping[str, Any]:
    try:
        answer = await client.request(
            "GET", path("apis", "apps", "v1", "namespaces", workload.namespace, "daemonsets", workload.daemon_set)
        )
        return answer.object()
    except NotFoundError as error:
        raise SourceError(
            f"{workload} does not exist; the GPU Operator is not installed yet, or gpuSource.gpuOperatorNamespace and "
            "gpuSource.daemonSet name another",
            retry=Retry.SLOWLY,
        ) from error
    except ApiError as error:
        reason, retry, after = api_failure(
            error, f"can not read {workload}", grant="get on daemonsets in that namespace"
        )
        raise SourceError(reason, retry=retry, retry_after=after) from error


async def _pods(client: KubeClient, workload: Workload, node: str, selector: str) -> Sequence[Mapping[str, Any]]:
    try:
        answer = await client.request(
            "GET",
            core_path(workload.namespace, "pods"),
            query={"fieldSelector": f"spec.nodeName={node}", "labelSelector": selector},
        )
        items = answer.object().get("items")
    except ApiError as error:
        reason, retry, after = api_failure(
            error, f"can not list the pods of {workload}", grant="list on pods in that namespace"
        )
        raise SourceError(reason, retry=retry, retry_after=after) from error
    return items if isinstance(items, list) else ()


def _judge(pod: Mapping[str, Any], workload: Workload, node: str, uid: str) -> Place | str:
    """Where in the pod to run a command, or why not there."""
    metadata, spec, status = (pod.get(part) or {} for part in ("metadata", "spec", "status"))
    owner = controller(metadata)
    if owner is None or owner.uid != uid or owner.kind != "DaemonSet":
        return f"controlled by {owner}" if owner is not None else "controlled by nothing"
    if spec.get("nodeName") != node:
        return "on another Node"
    if metadata.get("deletionTimestamp") is not None:
        return "terminating"
    if status.get("phase") != "Running":
        return f"phase {excerpt(str(status.get('phase')), 40)}"
    conditions = {item.get("type"): item.get("status") for item in status.get("conditions") or ()}
    if conditions.get("Ready") != "True":
        return "not ready"
    names = [str(item.get("name")) for item in spec.get("containers") or ()]
    container = workload.container or (names[0] if len(names) == 1 else DEFAULT_CONTAINER)
    if container not in names:
        return f"has no container {container}, only {excerpt(', '.join(names), 120)}: set gpuSource.container"
    for item in status.get("containerStatuses") or ():
        if item.get("name") == container and item.get("ready") is True and "running" in (item.get("state") or {}):
            return Place(namespace=workload.namespace, pod=str(metadata["name"]), container=container)
    return f"container {container} is not running and ready"


def _shown(items: Iterable[str]) -> str:
    (*shown,) = items
    more = f" and {len(shown) - MAX_SHOWN} more" if len(shown) > MAX_SHOWN else ""
    return ", ".join(shown[:MAX_SHOWN]) + more
