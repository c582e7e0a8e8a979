"""Choosing the pod of the GPU Operator."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from nicrails.kube import KubeClient, KubeconfigAccess
from nicrails_broker.failures import Retry, SourceError
from nicrails_broker.sources.operator_pod import Place, Workload, find_place, label_selector
from tests.support.aioresponses import mocked_api

API = "https://api.invalid"
DAEMON_SETS = f"{API}/apis/apps/v1/namespaces/gpu-operator/daemonsets/plugin"
WORKLOAD = Workload(namespace="gpu-operator", daemon_set="plugin", container=None)

DAEMON_SET: dict[str, Any] = {
    "metadata": {"name": "plugin", "uid": "ds-1"},
    "spec": {
        "selector": {
            "matchLabels": {"app": "plugin", "a": "b"},
            "matchExpressions": [{"key": "tier", "operator": "In", "values": ["x", "y"]}],
        }
    },
}
POD: dict[str, Any] = {
    "metadata": {
        "name": "plugin-abc",
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "plugin", "uid": "ds-1", "controller": True}
        ],
    },
    "spec": {"nodeName": "n1", "containers": [{"name": "main"}]},
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "main", "ready": True, "state": {"running": {}}}],
    },
}


def kubeconfig(folder: Path) -> Path:
    """A kubeconfig of an API server that does not exist."""
    path = folder / "kubeconfig"
    path.write_text(
        f"{{apiVersion: v1, kind: Config, clusters: [{{name: c, cluster: {{server: '{API}'}}}}], "
        "users: [{name: u, user: {token: t}}], contexts: [{name: x, context: {cluster: c, user: u}}], current-context: x}"
    )
    return path


def pod(**changes: Any) -> dict[str, Any]:
    """A good pod with some parts changed: ``status__phase="Pending"``."""
    changed = copy.deepcopy(POD)
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = changed
        for parent in parents:
            place = place[parent]
        place[last] = value
    return changed


async def find(folder: Path, pods: list[dict[str, Any]], workload: Workload = WORKLOAD) -> tuple[Place, URL]:
    """One search among these pods; also the URL of the list."""
    with mocked_api() as api:
        api.get(DAEMON_SETS, payload=DAEMON_SET)
        api.get(re.compile(rf"{API}/api/v1/namespaces/gpu-operator/pods.*"), payload={"items": pods})
        async with KubeClient(KubeconfigAccess(kubeconfig(folder)), user_agent="test") as client:
            place = await find_place(client, workload, "n1")
        return place, next(url for method, url in api.requests if url.path.endswith("/pods"))


async def test_the_one_pod_is_asked_for_by_node_and_full_selector(tmp_path: Path) -> None:
    """The list names the Node and both parts of the DaemonSet's selector; the one fitting pod is the place."""
    place, url = await find(tmp_path, [POD])
    assert place == Place(namespace="gpu-operator", pod="plugin-abc", container="main")
    assert dict(url.query) == {
        "fieldSelector": "spec.nodeName=n1",
        "labelSelector": "a=b,app=plugin,tier in (x,y)",
    }


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"metadata__ownerReferences": []}, "controlled by nothing"),
        (
            {"metadata__ownerReferences": [POD["metadata"]["ownerReferences"][0] | {"uid": "ds-0"}]},
            "controlled by Daemon",
        ),
        ({"metadata__ownerReferences": [POD["metadata"]["ownerReferences"][0] | {"kind": "Job"}]}, "controlled by Job"),
        ({"metadata__ownerReferences": [POD["metadata"]["ownerReferences"][0] | {"controller": False}]}, "by nothing"),
        ({"metadata__deletionTimestamp": "2026-01-01T00:00:00Z"}, "terminating"),
        ({"spec__nodeName": "n2"}, "on another Node"),
        ({"status__phase": "Pending"}, "phase Pending"),
        ({"status__conditions": [{"type": "Ready", "status": "False"}]}, "not ready"),
        ({"status__conditions": None}, "not ready"),
        ({"status__containerStatuses": []}, "container main is not running and ready"),
        (
            {"status__containerStatuses": [{"name": "main", "ready": True, "state": {"waiting": {}}}]},
            "container main is not running and ready",
        ),
        (
            {"status__containerStatuses": [{"name": "main", "ready": False, "state": {"running": {}}}]},
            "container main is not running and ready",
        ),
        ({"spec__containers": [{"name": "a"}, {"name": "b"}]}, "no container nvidia-device-plugin, only a, b"),
    ],
)
@pytest.mark.fault("B5")
async def test_a_pod_that_does_not_fit_is_refused_with_the_reason(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    """B5: each way in which a pod does not fit is a failure whose sentence says which; beside a good one it is no matter."""
    unfit = pod(**changes, metadata__name="plugin-xyz")
    with pytest.raises(SourceError, match=f"no pod of .* is ready on Node n1: plugin-xyz .*{why}"):
        await find(tmp_path, [unfit])
    place, _ = await find(tmp_path, [unfit, POD])
    assert place.pod == "plugin-abc"


@pytest.mark.fault("B5")
async def test_no_pod_and_two_pods_are_failures(tmp_path: Path) -> None:
    """B5: without a pod on the Node, and with two good ones, nothing is guessed."""
    with pytest.raises(SourceError, match=r"no pod of DaemonSet gpu-operator/plugin is on Node n1"):
        await find(tmp_path, [])
    with pytest.raises(SourceError, match=r"2 pods of DaemonSet .* plugin-abc, plugin-two"):
        await find(tmp_path, [POD, pod(metadata__name="plugin-two")])


@pytest.mark.parametrize(
    ("containers", "setting", "expected"),
    [
        (["only"], None, "only"),
        (["config-manager", "nvidia-device-plugin"], None, "nvidia-device-plugin"),
        (["config-manager", "other"], "other", "other"),
    ],
)
async def test_the_container_is_the_set_one_or_the_only_one_or_nvidias(
    tmp_path: Path, containers: list[str], setting: str | None, expected: str
) -> None:
    """A pod with several containers has no default in the API, so one is always named."""
    status = [{"name": name, "ready": True, "state": {"running": {}}} for name in containers]
    found = pod(spec__containers=[{"name": name} for name in containers], status__containerStatuses=status)
    workload = Workload(namespace="gpu-operator", daemon_set="plugin", container=setting)
    place, _ = await find(tmp_path, [found], workload)
    assert place.container == expected


@pytest.mark.fault("B8")
async def test_an_operator_that_is_not_installed_is_told_as_that(tmp_path: Path) -> None:
    """B8: a missing DaemonSet is a failure that names it and the settings, and is asked for slowly."""
    with mocked_api() as api:
        api.get(DAEMON_SETS, status=404, payload={"kind": "Status", "code": 404, "message": "not found"})
        async with KubeClient(KubeconfigAccess(kubeconfig(tmp_path)), user_agent="test") as client:
            with pytest.raises(SourceError, match="not installed yet, or gpuSource") as caught:
                await find_place(client, WORKLOAD, "n1")
    assert caught.value.retry is Retry.SLOWLY


@pytest.mark.parametrize(
    ("expression", "term"),
    [
        ({"key": "k", "operator": "In", "values": ["a", "b"]}, "k in (a,b)"),
        ({"key": "k", "operator": "NotIn", "values": ["a"]}, "k notin (a)"),
        ({"key": "k", "operator": "Exists"}, "k"),
        ({"key": "k", "operator": "DoesNotExist"}, "!k"),
    ],
)
def test_every_operator_of_a_selector_is_kept(expression: dict[str, Any], term: str) -> None:
    """No part of a selector is dropped on the way into the query."""
    assert label_selector({"matchLabels": {"x": "y"}, "matchExpressions": [expression]}) == f"x=y,{term}"


@pytest.mark.parametrize(
    "selector", [None, {}, {"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["1"]}]}]
)
def test_half_a_selector_is_never_used(selector: object) -> None:
    """A selector that is empty or has an operator of the future is refused; it would match pods of others."""
    with pytest.raises(SourceError):
        label_selector(selector)
