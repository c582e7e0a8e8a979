"""What the server writes into objects of a kind by itself: defaults, what admission adds, status, generation.

Source: pkg/apis/*/v1/defaults.go, plugin/pkg/admission and pkg/registry/*/strategy.go of kubernetes.
"""

from __future__ import annotations

import copy
from typing import Any

from nicrails_faker.api.resources import Resource

Json = dict[str, Any]

_POD: Json = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}
_CONTAINER: Json = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_DEPLOYMENT: Json = {
    "replicas": 1,
    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
    "revisionHistoryLimit": 10,
    "progressDeadlineSeconds": 600,
}
_DAEMON_SET: Json = {
    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
    "revisionHistoryLimit": 10,
}
_NODE_INFO = (
    "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion",
    "kubeProxyVersion", "operatingSystem", "architecture",
)  # fmt: skip
_TOLERATIONS: list[Json] = [
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for name in ("not-ready", "unreachable")
]
_DAEMON_SET_STATUS = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
_STATUS_METADATA: dict[str, frozenset[str]] = {
    "Deployment": frozenset({"labels"}),
    "DaemonSet": frozenset({"labels"}),
}
"""Metadata that a write to the status can not change."""


def complete(kind: str, document: Json) -> None:
    """Fill in what a client may leave out, in place; done for every write."""
    match kind:
        case "Namespace":
            labels = {**document["metadata"].get("labels", {})}
            labels["kubernetes.io/metadata.name"] = document["metadata"].get("name", "")
            document["metadata"]["labels"] = dict(sorted(labels.items()))
            document.setdefault("spec", {})
            document.setdefault("status", {})
        case "Node":
            document.setdefault("spec", {})
            _node_status(document.setdefault("status", {}))
        case "Pod":
            spec = document.setdefault("spec", {})
            _pod(spec)
            spec.setdefault("enableServiceLinks", True)
            document.setdefault("status", {})
        case "Deployment":
            _workload(document, _DEPLOYMENT)
        case "DaemonSet":
            _workload(document, _DAEMON_SET)
            document["metadata"].setdefault("annotations", {}).setdefault(
                "deprecated.daemonset.template.generation", "1"
            )


def admit(kind: str, document: Json) -> None:
    """Add what admission adds to a new object, in place."""
    spec = document.get("spec", {})
    if kind == "Node":
        # Until a controller has seen the Node ready, nothing is scheduled there.
        taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
        taints = spec.setdefault("taints", [])
        if not any(item.get("key") == taint["key"] and item.get("effect") == taint["effect"] for item in taints):
            taints.append(taint)
    elif kind == "Pod":
        account = spec.setdefault("serviceAccountName", spec.get("serviceAccount", "default"))
        spec.setdefault("serviceAccount", account)
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
        spec.setdefault("priority", 0)
        tolerations = spec.setdefault("tolerations", [])
        tolerations += [copy.copy(item) for item in _TOLERATIONS if not _tolerated(tolerations, item["key"])]


def prepare_create(resource: Resource, document: Json) -> None:
    """Set what a client can not choose for a new object, in place."""
    match resource.kind:
        case "Namespace":
            document["spec"] = {"finalizers": ["kubernetes"]}
            document["status"] = {"phase": "Active"}
        case "Pod":
            document["status"] = {"phase": "Pending", "qosClass": _quality(document["spec"])}
        case "DaemonSet":
            document["status"] = dict.fromkeys(_DAEMON_SET_STATUS, 0)
        case "Event":
            for name in ("reportingComponent", "reportingInstance"):
                document.setdefault(name, "")
        case "Node":
            pass  # a kubelet registers its Node with a status
        case _ if resource.status:
            document["status"] = {}
    if resource.counts_generations:
        document["metadata"]["generation"] = 1


def prepare_update(resource: Resource, before: Json, after: Json, subresource: str) -> None:
    """Put back what this request can not change, and count the generation, in place."""
    if subresource == "status":
        for name in {*before, *after} - {"status", "metadata"}:
            _restore(before, after, name)
        for name in _STATUS_METADATA.get(resource.kind, ()):
            _restore(before["metadata"], after["metadata"], name)
    elif resource.status:
        _restore(before, after, "status")
    if resource.kind == "Namespace":
        _restore(before, after, "spec")
    _restore(before["metadata"], after["metadata"], "generation")
    if resource.counts_generations and before.get("spec") != after.get("spec"):
        after["metadata"]["generation"] = before["metadata"].get("generation", 0) + 1


def _restore(before: Json, after: Json, name: str) -> None:
    if name in before:
        after[name] = before[name]
    else:
        after.pop(name, None)


def _fill(target: Json, values: Json) -> None:
    for name, value in values.items():
        target.setdefault(name, copy.deepcopy(value))


def _pod(spec: Json) -> None:
    _fill(spec, _POD)
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        _fill(container, _CONTAINER)
        tag = container.get("image", "").rpartition("/")[2].partition(":")[2]
        container.setdefault("imagePullPolicy", "Always" if tag in {"", "latest"} else "IfNotPresent")


def _workload(document: Json, values: Json) -> None:
    spec = document.setdefault("spec", {})
    _fill(spec, values)
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    _pod(template.setdefault("spec", {}))
    document.setdefault("status", {})


def _node_status(status: Json) -> None:
    status.setdefault("daemonEndpoints", {}).setdefault("kubeletEndpoint", {}).setdefault("Port", 0)
    information = status.setdefault("nodeInfo", {})
    for name in _NODE_INFO:
        information.setdefault(name, "")
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))


def _tolerated(tolerations: list[Json], key: str) -> bool:
    return any(
        item.get("key") in {None, "", key} and item.get("effect") in {None, "", "NoExecute"} for item in tolerations
    )


def _quality(spec: Json) -> str:
    requested = [item.get("resources", {}) for item in spec.get("containers", ())]
    if not any(item.get("requests") or item.get("limits") for item in requested):
        return "BestEffort"
    guaranteed = all(
        {"cpu", "memory"} <= item.get("limits", {}).keys() and item.get("requests", item["limits"]) == item["limits"]
        for item in requested
    )
    return "Guaranteed" if guaranteed else "Burstable"
