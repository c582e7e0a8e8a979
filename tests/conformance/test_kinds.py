"""Nodes, pods, workloads, events: defaults, status, generation, what can not change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.speaking import Api, object_of, pod, workload

APPS = "apis/apps/v1"
POD_UPDATE = "Forbidden: pod updates may not change fields other than `spec.containers[*].image`"


async def test_a_node_is_registered_with_its_status(kube: Api) -> None:
    """A created Node keeps its status, is tainted as not ready, and has what can be allocated."""
    name = kube.unique("node")
    document = object_of(
        "Node", name, status={"capacity": {"cpu": "4"}, "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}
    )
    made = await kube.create("/api/v1/nodes", document)
    assert made["spec"] == {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}
    status = made["status"]
    assert (status["capacity"], status["allocatable"]) == ({"cpu": "4"}, {"cpu": "4"})
    assert status["addresses"] == [{"type": "InternalIP", "address": "127.0.0.1"}]
    assert status["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}
    assert status["nodeInfo"]["kubeletVersion"] == ""
    assert "generation" not in made["metadata"]
    await kube.delete(f"/api/v1/nodes/{name}")


async def test_spec_and_status_of_a_node_have_their_own_doors(kube: Api) -> None:
    """The Node itself takes spec and metadata, its status subresource takes status and metadata."""
    name = kube.unique("node")
    path = f"/api/v1/nodes/{name}"
    await kube.create("/api/v1/nodes", object_of("Node", name, status={"capacity": {"cpu": "4"}}))
    patch = {
        "spec": {"unschedulable": True},
        "status": {"capacity": {"cpu": "8"}},
        "metadata": {"annotations": {"a": "1"}},
    }
    main = (await kube.merge(path, patch)).json
    assert (main["spec"]["unschedulable"], main["status"]["capacity"]) == (True, {"cpu": "4"})
    assert main["metadata"]["annotations"] == {"a": "1"}
    patch = {
        "spec": {"unschedulable": None},
        "status": {"capacity": {"cpu": "8"}},
        "metadata": {"annotations": {"a": "2"}},
    }
    status = (await kube.merge(f"{path}/status", patch)).json
    assert (status["spec"]["unschedulable"], status["status"]["capacity"]) == (True, {"cpu": "8"})
    assert status["metadata"]["annotations"] == {"a": "2"}
    assert (await kube.get(f"{path}/status")).json == (await kube.get(path)).json == status
    await kube.delete(path)


async def test_a_node_of_the_same_name_is_another_node(kube: Api) -> None:
    """A Node that is created again has another UID."""
    name = kube.unique("node")
    first = await kube.create("/api/v1/nodes", object_of("Node", name))
    deleted = await kube.delete(f"/api/v1/nodes/{name}")
    assert deleted.json["details"] == {"name": name, "kind": "nodes", "uid": first["metadata"]["uid"]}
    second = await kube.create("/api/v1/nodes", object_of("Node", name))
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    await kube.delete(f"/api/v1/nodes/{name}")


async def test_a_pod_begins_pending_with_defaults(kube: Api) -> None:
    """A created pod loses its status, gets the defaults of pods and containers, and generation 1."""
    made = await kube.create(kube.path("pods"), {**pod("a"), "status": {"phase": "Running"}})
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert made["metadata"]["generation"] == 1
    spec = made["spec"]
    assert {name: spec[name] for name in ("restartPolicy", "dnsPolicy", "schedulerName", "serviceAccountName")} == {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "serviceAccountName": "default",
    }
    assert (spec["terminationGracePeriodSeconds"], spec["enableServiceLinks"], spec["priority"]) == (30, True, 0)
    assert {(item["key"], item["effect"]) for item in spec["tolerations"]} == {
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
    }
    (container,) = spec["containers"]
    assert container == {
        "name": "main",
        "image": "example.invalid/image:1",
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


@pytest.mark.parametrize(
    ("image", "policy"),
    [("i", "Always"), ("i:latest", "Always"), ("r:5000/i", "Always"), ("r:5000/i:1", "IfNotPresent")],
)
async def test_the_pull_policy_follows_the_tag(kube: Api, image: str, policy: str) -> None:
    """An image without tag, or ``latest``, is always pulled."""
    document = pod("a")
    document["spec"]["containers"][0]["image"] = image
    made = await kube.create(kube.path("pods"), document)
    assert made["spec"]["containers"][0]["imagePullPolicy"] == policy


async def test_a_pods_status_is_written_through_its_subresource(kube: Api) -> None:
    """The pod itself does not take a status; the subresource takes it, with labels, and leaves the spec alone."""
    made = await kube.create(kube.path("pods"), pod("a"))
    path = kube.path("pods", "a")
    ignored = await kube.merge(path, {"status": {"phase": "Running"}})
    assert (ignored.status, ignored.revision) == (200, made["metadata"]["resourceVersion"])
    patch = {
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        "spec": {"nodeName": "somewhere"},
        "metadata": {"labels": {"l": "1"}},
    }
    answer = await kube.merge(f"{path}/status", patch)
    assert answer.status == 200
    after = answer.json
    assert (after["status"]["phase"], after["metadata"]["labels"]) == ("Running", {"l": "1"})
    assert "nodeName" not in after["spec"]
    assert after["metadata"]["generation"] == 1


async def test_a_pods_spec_stays_but_for_its_images(kube: Api) -> None:
    """An image can change, and counts a generation; a Node can not be written into the spec."""
    await kube.create(kube.path("pods"), pod("a"))
    path = kube.path("pods", "a")
    image = {"op": "replace", "path": "/spec/containers/0/image", "value": "example.invalid/image:2"}
    assert (await kube.json_patch(path, image)).json["metadata"]["generation"] == 2
    answer = await kube.merge(path, {"spec": {"nodeName": "somewhere"}})
    assert answer.code_and_reason == (422, "Invalid")
    ((field, reason, message),) = answer.causes
    assert (field, reason) == ("spec", "FieldValueForbidden")
    assert message.startswith(POD_UPDATE)


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({}, {("spec.containers", "FieldValueRequired", "Required value")}),
        (
            {"containers": [{"name": "c"}]},
            {("spec.containers[0].image", "FieldValueRequired", "Required value")},
        ),
        (
            {"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]},
            {("spec.containers[1].name", "FieldValueDuplicate", 'Duplicate value: "c"')},
        ),
    ],
    ids=["no containers", "no image", "two of a name"],
)
async def test_pods_that_are_not_valid(kube: Api, spec: dict[str, Any], causes: set[tuple[str, str, str]]) -> None:
    """A pod needs containers with different names and with images."""
    answer = await kube.ask("POST", kube.path("pods"), object_of("Pod", "a", spec=spec))
    assert answer.code_and_reason == (422, "Invalid")
    assert answer.causes == causes


async def test_a_pod_needs_its_account(kube: Api) -> None:
    """A pod of a ServiceAccount that is not there is a 403 that names it."""
    answer = await kube.ask("POST", kube.path("pods"), pod("a", serviceAccountName="nobody"))
    assert answer.code_and_reason == (403, "Forbidden")
    assert answer.message == (
        f'pods "a" is forbidden: error looking up service account {kube.namespace}/nobody: serviceaccount "nobody" not '
        "found"
    )
    assert answer.json["details"] == {"name": "a", "kind": "pods"}


@pytest.mark.parametrize(("resource", "kind"), [("deployments", "Deployment"), ("daemonsets", "DaemonSet")])
async def test_a_workload_counts_its_generations(kube: Api, resource: str, kind: str) -> None:
    """A change of the spec is a generation; one of metadata or status is none, and deletion is one."""
    made = await kube.create(kube.path(resource, group=APPS), workload(kind, "a"))
    path = kube.path(resource, "a", group=APPS)
    assert made["metadata"]["generation"] == 1
    labelled = await kube.merge(path, {"metadata": {"labels": {"x": "1"}}})
    assert labelled.json["metadata"]["generation"] == 1
    changed = await kube.merge(path, {"spec": {"revisionHistoryLimit": 3}})
    assert changed.json["metadata"]["generation"] == 2
    observed = await kube.merge(f"{path}/status", {"status": {"observedGeneration": 2}})
    assert observed.json["status"]["observedGeneration"] == 2
    assert observed.json["metadata"]["generation"] == 2
    await kube.merge(path, {"metadata": {"finalizers": ["a.b/c"]}})
    assert (await kube.delete(path)).json["metadata"]["generation"] == 3
    await kube.merge(path, {"metadata": {"finalizers": None}})


async def test_a_deployment_begins_with_defaults_and_no_status(kube: Api) -> None:
    """A Deployment gets replicas, strategy and limits; a status that it brings is dropped."""
    document = {**workload("Deployment", "a"), "status": {"replicas": 5}}
    made = await kube.create(kube.path("deployments", group=APPS), document)
    assert made["status"] == {}
    spec = made["spec"]
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    rolling = {"maxUnavailable": "25%", "maxSurge": "25%"}
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
    assert spec["template"]["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    scaled = await kube.merge(kube.path("deployments", "a", group=APPS), {"spec": {"replicas": 0}})
    assert scaled.json["spec"]["replicas"] == 0


async def test_a_daemon_set_begins_with_defaults_and_zeros(kube: Api) -> None:
    """A DaemonSet gets its update strategy, an old annotation and a status of zeros."""
    made = await kube.create(kube.path("daemonsets", group=APPS), workload("DaemonSet", "a"))
    assert made["status"] == {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    }
    rolling = {"maxUnavailable": 1, "maxSurge": 0}
    assert made["spec"]["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
    assert made["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "1"}


async def test_the_status_of_a_deployment_takes_annotations_but_no_labels(kube: Api) -> None:
    """Through the status subresource of a Deployment labels stay and annotations change."""
    await kube.create(kube.path("deployments", group=APPS), workload("Deployment", "a"))
    path = kube.path("deployments", "a", group=APPS)
    patch = {"status": {"replicas": 1}, "metadata": {"labels": {"x": "1"}, "annotations": {"x": "1"}}}
    answer = await kube.merge(f"{path}/status", patch)
    assert answer.json["status"] == {"replicas": 1}
    assert "labels" not in answer.json["metadata"]
    assert answer.json["metadata"]["annotations"] == {"x": "1"}


async def test_a_workloads_selector_matches_and_stays(kube: Api) -> None:
    """A workload needs a selector that selects its template; later it can not change."""
    path = kube.path("deployments", group=APPS)
    answer = await kube.ask("POST", path, {"metadata": {"name": "a"}})
    mismatch = "Invalid value: null: `selector` does not match template `labels`"
    assert answer.causes == {
        ("spec.selector", "FieldValueRequired", "Required value"),
        ("spec.template.metadata.labels", "FieldValueInvalid", mismatch),
        ("spec.template.spec.containers", "FieldValueRequired", "Required value"),
    }
    assert answer.message.startswith('Deployment.apps "a" is invalid: [spec.selector: Required value, ')
    assert (answer.json["details"]["group"], answer.json["details"]["kind"]) == ("apps", "Deployment")
    await kube.create(path, workload("Deployment", "b"))
    patch = [
        {"op": "replace", "path": "/spec/selector/matchLabels/app", "value": "other"},
        {"op": "replace", "path": "/spec/template/metadata/labels/app", "value": "other"},
    ]
    answer = await kube.json_patch(f"{path}/b", *patch)
    message = 'Invalid value: {"matchLabels":{"app":"other"}}: field is immutable'
    assert answer.causes == {("spec.selector", "FieldValueInvalid", message)}


async def test_events_are_stored_and_selected(kube: Api) -> None:
    """An event keeps what it says, is about its own namespace, and is found by what it is about."""
    involved = {"kind": "ConfigMap", "name": "x", "namespace": kube.namespace}
    document = object_of(
        "Event",
        "a",
        involvedObject=involved,
        reason="Published",
        message="m",
        type="Normal",
        source={"component": "broker"},
        firstTimestamp="2026-01-01T00:00:00Z",
        count=1,
    )
    made = await kube.create(kube.path("events"), document)
    assert (made["involvedObject"], made["reason"], made["source"]) == (involved, "Published", {"component": "broker"})
    assert (made["firstTimestamp"], made["count"]) == ("2026-01-01T00:00:00Z", 1)
    query = {"fieldSelector": "involvedObject.name=x,reason=Published,type=Normal,source=broker"}
    assert (await kube.get(kube.path("events"), query=query)).names == ["a"]
    answer = await kube.ask("POST", kube.path("events"), object_of("Event", "b", involvedObject={"name": "x"}))
    message = 'Invalid value: "": does not match event.namespace'
    assert answer.causes == {("involvedObject.namespace", "FieldValueInvalid", message)}


async def test_events_about_nodes_are_in_the_default_namespace(kube: Api) -> None:
    """An event about an object without a namespace is taken in the namespace ``default``, and in no other."""
    name = f"about-a-node-{kube.namespace}"
    document = object_of("Event", name, involvedObject={"kind": "Node", "name": "x"})
    made = await kube.create("/api/v1/namespaces/default/events", document)
    assert made["involvedObject"] == {"kind": "Node", "name": "x"}
    await kube.ask("DELETE", f"/api/v1/namespaces/default/events/{name}")


async def test_namespaces_are_selected_by_phase(kube: Api) -> None:
    """``status.phase`` selects namespaces."""
    query = {"fieldSelector": f"status.phase=Active,metadata.name={kube.namespace}"}
    assert (await kube.get("/api/v1/namespaces", query=query)).names == [kube.namespace]
    query = {"fieldSelector": f"status.phase=Terminating,metadata.name={kube.namespace}"}
    assert (await kube.get("/api/v1/namespaces", query=query)).names == []
