"""Where the API server has the kinds that the chart renders, and making them there."""

from __future__ import annotations

from collections.abc import Iterable

from tests.chart.helm import Json
from tests.cluster.api import Answer, Api

COLLECTIONS = {
    "ConfigMap": "api/v1/{ns}configmaps",
    "Pod": "api/v1/{ns}pods",
    "Service": "api/v1/{ns}services",
    "ServiceAccount": "api/v1/{ns}serviceaccounts",
    "DaemonSet": "apis/apps/v1/{ns}daemonsets",
    "Deployment": "apis/apps/v1/{ns}deployments",
    "PodDisruptionBudget": "apis/policy/v1/{ns}poddisruptionbudgets",
    "NetworkPolicy": "apis/networking.k8s.io/v1/{ns}networkpolicies",
    "Role": "apis/rbac.authorization.k8s.io/v1/{ns}roles",
    "RoleBinding": "apis/rbac.authorization.k8s.io/v1/{ns}rolebindings",
    "ClusterRole": "apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "ValidatingAdmissionPolicy": "apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "PriorityLevelConfiguration": "apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
    "FlowSchema": "apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
    "PodMonitor": "apis/monitoring.coreos.com/v1/{ns}podmonitors",
    "ServiceMonitor": "apis/monitoring.coreos.com/v1/{ns}servicemonitors",
}


def collection(item: Json) -> str:
    """The path that an object is created at."""
    namespace = item["metadata"].get("namespace")
    return "/" + COLLECTIONS[item["kind"]].format(ns=f"namespaces/{namespace}/" if namespace else "")


def path(item: Json) -> str:
    """An object's own path."""
    return f"{collection(item)}/{item['metadata']['name']}"


async def make(api: Api, items: Iterable[Json]) -> None:
    """Create objects."""
    for item in items:
        await api.create(collection(item), item)


async def remove(api: Api, items: Iterable[Json]) -> None:
    """Delete objects; some may be gone already."""
    for item in items:
        await api.delete(path(item))


async def try_out(api: Api, item: Json) -> Answer:
    """Let the API server check an object as if it were created, unknown and doubled fields included."""
    return await api.ask("POST", f"{collection(item)}?dryRun=All&fieldValidation=Strict", item)
