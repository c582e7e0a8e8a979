"""The faker's objects, one by one."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml

from nicrails_faker.cli import _parser
from nicrails_faker.fakenodes import command as fakenodes
from nicrails_faker.mig import parse_request, plan, read_cluster_topology
from tests.chart.combinations import COMBINATIONS, EVERYTHING, FAKER, FAKERS, MAPPING, MINIMAL, RECORDS
from tests.chart.helm import CHART, Helm, Json, Rendered, at, merged, rules

pytestmark = pytest.mark.needs("helm")

COMPONENT = "app.kubernetes.io/component"
AS_ROOT = {
    "device-plugin": {"/var/lib/kubelet/device-plugins", "/var/lib/nicrails-faker"},
    "metrics": {"/var/lib/kubelet/pod-resources"},
}
"""The services that run as root, with the host's folders that they mount."""


def workloads(objects: Rendered) -> dict[str, Json]:
    """The faker's Deployments and DaemonSets, by service."""
    found = [item for item in objects if item["kind"] in {"Deployment", "DaemonSet"}]
    named = {item["metadata"]["labels"][COMPONENT]: item for item in found}
    return {name.removeprefix("faker-"): item for name, item in named.items() if name.startswith("faker-")}


def template(item: Json) -> Json:
    """The spec of a workload's pods."""
    spec: Json = item["spec"]["template"]["spec"]
    return spec


def operator_of(name: str) -> str:
    """The GPU Operator's namespace in a combination."""
    values: Json = merged(at(f"{MAPPING}.gpuSource.gpuOperatorNamespace", "gpu-operator"), COMBINATIONS[name])
    found: str = values["nodeMetadata"]["plugins"]["gpuNicRailMapping"]["gpuSource"]["gpuOperatorNamespace"]
    return found


@pytest.mark.parametrize("name", [name for name in COMBINATIONS if name not in FAKERS])
def test_nothing_of_the_faker_is_there_by_default(rendered: Callable[[str], Rendered], name: str) -> None:
    """Without ``faker.enabled`` no object names the faker, whatever else is on."""
    text = yaml.safe_dump(list(rendered(name)))
    assert "faker" not in text
    assert "topology.yml" not in text


@pytest.mark.parametrize(
    ("name", "without"),
    [("faker", RECORDS), ("faker-restart-mode", RECORDS), ("faker-minimal", {}), ("faker-and-everything", EVERYTHING)],
)
def test_broker_and_observer_are_the_same_with_it(
    rendered: Callable[[str], Rendered], helm: Helm, name: str, without: Json
) -> None:
    """The faker adds objects in the GPU Operator's namespace, and its roles elsewhere; every other object stays as it is."""
    usual, objects = list(helm.template(without)), list(rendered(name))
    assert [item for item in usual if item not in objects] == []
    for item in objects:
        if item in usual:
            continue
        metadata = item["metadata"]
        if metadata.get("namespace") != operator_of(name):
            assert item["kind"] in {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
            assert metadata["name"].startswith("nicrails-faker-")
            assert metadata["name"].endswith(".nicrails-system")
            assert metadata.get("namespace", "default") == "default"


@pytest.mark.parametrize(
    ("name", "services"),
    [
        ("faker", {"topology", "device-plugin", "mig", "metrics"}),
        ("faker-with-fake-nodes", {"topology", "device-plugin", "mig", "metrics", "nodes"}),
        ("faker-minimal", {"topology", "device-plugin"}),
    ],
)
def test_each_service_is_there_when_it_is_on(
    rendered: Callable[[str], Rendered], name: str, services: set[str]
) -> None:
    """Each service has a workload, an account and roles of its own, and none for what is off."""
    objects = rendered(name)
    found = workloads(objects)
    assert set(found) == services
    for service, item in found.items():
        account = template(item)["serviceAccountName"]
        assert account == f"nicrails-faker-{service}"
        namespaces = {
            it["metadata"]["namespace"] for it in objects.all("ServiceAccount") if it["metadata"]["name"] == account
        }
        assert namespaces == {"gpu-operator"}
    bound = {
        subject["name"]
        for kind in ("RoleBinding", "ClusterRoleBinding")
        for item in objects.all(kind)
        for subject in item["subjects"]
        if "faker" in subject["name"]
    }
    assert bound == {f"nicrails-faker-{service}" for service in services}


@pytest.mark.parametrize("name", FAKERS)
def test_pods_may_be_deleted_in_the_restart_mode_alone(rendered: Callable[[str], Rendered], name: str) -> None:
    """``onChange: restart`` gives the MIG faker the permission to delete pods, tells both services, and nothing else does."""
    objects = rendered(name)
    restart = merged(COMBINATIONS[name])["faker"].get("mig", {}).get("onChange") == "restart"
    faker = [item for item in objects.all("Role") if "faker" in item["metadata"]["name"]]
    assert [rule for rule in rules(faker) if rule["resources"] == ["pods"]] == (
        [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "delete"]}] if restart else []
    )
    assert all(not {"delete", "deletecollection"} & set(rule["verbs"]) for rule in rules(objects.all("ClusterRole")))
    services = workloads(objects)
    for service in {"device-plugin", "mig"} & set(services):
        arguments = template(services[service])["containers"][0]["args"]
        assert (f"--on-change={'restart' if restart else 'follow'}") in arguments
        (selector,) = [word.partition("=")[2] for word in arguments if word.startswith("--plugin-selector=")] or [""]
        assert bool(selector) == (restart and service == "mig")
        if selector:
            plugin = services["device-plugin"]["spec"]
            labels = dict(part.split("=") for part in selector.split(","))
            assert labels == plugin["selector"]["matchLabels"]


@pytest.mark.parametrize("name", FAKERS)
def test_pods_are_restricted(rendered: Callable[[str], Rendered], name: str) -> None:
    """No pod has a capability or a root file system to write; root are only those that speak to the kubelet, whose sockets are root's."""
    for service, item in workloads(rendered(name)).items():
        spec = template(item)
        (container,) = spec["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        security = spec["securityContext"]
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        user = 0 if service in AS_ROOT else 65532
        assert (security["runAsUser"], security["runAsGroup"], security["runAsNonRoot"]) == (user, user, user != 0)
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        assert not spec["enableServiceLinks"]
        volumes = {volume["hostPath"]["path"] for volume in spec.get("volumes", ())}
        if name != "faker-with-other-names":
            assert volumes == AS_ROOT.get(service, set())
        mounts = container.get("volumeMounts", [])
        # What it puts there is the same path in its own container and on the host.
        assert {mount["mountPath"] for mount in mounts} == volumes
        assert all(mount.get("readOnly", False) == (service == "metrics") for mount in mounts)


@pytest.mark.parametrize("name", FAKERS)
def test_every_service_understands_its_arguments(rendered: Callable[[str], Rendered], name: str) -> None:
    """The program takes each pod's arguments, listens where the pod's port is, and probes ask that port."""
    for service, item in workloads(rendered(name)).items():
        (container,) = template(item)["containers"]
        arguments = _parser().parse_args(container["args"])
        assert container["args"][0] == service
        assert container["ports"] == [{"name": "http", "containerPort": arguments.port}]
        asked = {name: container[name]["httpGet"] for name in container if name.endswith("Probe")}
        live, ready = {"path": "/livez", "port": "http"}, {"path": "/healthz", "port": "http"}
        assert asked == {"startupProbe": live, "livenessProbe": live, "readinessProbe": ready}


@pytest.mark.parametrize("name", FAKERS)
def test_all_services_speak_of_one_topology(rendered: Callable[[str], Rendered], name: str) -> None:
    """The ConfigMap that is rendered, with a document that the faker reads, is the one that every pod is told."""
    objects = rendered(name)
    (config_map,) = [item for item in objects.all("ConfigMap") if "topology.yml" in item["data"]]
    document = read_cluster_topology(config_map["data"]["topology.yml"])
    values = merged(yaml.safe_load((CHART / "values.yaml").read_text()), COMBINATIONS[name])["faker"]["topology"]
    assert (document.mig_strategy, document.pool_label) == (values["migStrategy"], values["nodePoolLabelKey"])
    assert set(document.pools) == set(values["nodePools"])
    for item in workloads(objects).values():
        spec = template(item)
        told = {entry["name"]: entry.get("value") for entry in spec["containers"][0]["env"]}
        assert told["TOPOLOGY_CM_NAME"] == config_map["metadata"]["name"] == values["name"]
        assert told["TOPOLOGY_CM_NAMESPACE"] == config_map["metadata"]["namespace"] == item["metadata"]["namespace"]


@pytest.mark.parametrize("name", FAKERS)
def test_daemonsets_run_where_a_kubelet_and_a_pool_are(rendered: Callable[[str], Rendered], name: str) -> None:
    """Pods of the DaemonSets are on Nodes with the label of a pool, but not on those of KWOK and other fake ones."""
    values = merged(yaml.safe_load((CHART / "values.yaml").read_text()), COMBINATIONS[name])["faker"]
    key, _, value = values["fakeNodes"]["label"].partition("=")
    for service, item in workloads(rendered(name)).items():
        spec = template(item)
        if item["kind"] == "Deployment":
            assert "affinity" not in spec
            continue
        required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (term,) = required["nodeSelectorTerms"]
        assert term["matchExpressions"] == [
            {"key": values["topology"]["nodePoolLabelKey"], "operator": "Exists"},
            {"key": "type", "operator": "NotIn", "values": ["kwok"]},
            {"key": key, "operator": "NotIn", "values": [value]},
        ]
        dynamic = {"node-role.kubernetes.io/runai-dynamic-mig": "true"} if service == "mig" else {}
        assert spec["nodeSelector"] == {"kubernetes.io/os": "linux"} | dynamic


def test_brokers_take_the_device_plugin_for_the_gpu_operator_s(helm: Helm) -> None:
    """The device plugin has namespace, name and container of the GPU source, and finds its nvidia-smi by its name alone."""
    values = merged(
        RECORDS, FAKER, at(f"{MAPPING}.gpuSource", {"gpuOperatorNamespace": "a", "daemonSet": "b", "container": "c"})
    )
    objects = helm.template(merged(values, at("faker.devicePlugin.hostDirectory", "/opt/fakes/")))
    item = workloads(objects)["device-plugin"]
    (container,) = template(item)["containers"]
    assert (item["metadata"]["namespace"], item["metadata"]["name"], container["name"]) == ("a", "b", "c")
    assert "--host-directory=/opt/fakes" in container["args"]
    path = next(entry["value"] for entry in container["env"] if entry["name"] == "PATH")
    assert path.split(":")[0] == "/opt/fakes"


@pytest.mark.parametrize("name", FAKERS)
def test_selectors_select_one_workload_each(rendered: Callable[[str], Rendered], name: str) -> None:
    """Each workload selects its own pods, the Service the topology's, and the PodMonitor all of the faker's."""
    objects = rendered(name)
    labels = {service: item["spec"]["template"]["metadata"]["labels"] for service, item in workloads(objects).items()}

    def selected(selector: Mapping[str, str]) -> set[str]:
        return {service for service, its in labels.items() if selector.items() <= its.items()}

    for service, item in workloads(objects).items():
        assert selected(item["spec"]["selector"]["matchLabels"]) == {service}
    assert selected(objects.one("Service", "topology-server")["spec"]["selector"]) == {"topology"}
    for monitor in objects.all("PodMonitor"):
        if monitor["metadata"]["namespace"] == operator_of(name):
            assert selected(monitor["spec"]["selector"]["matchLabels"]) == set(labels)


def test_common_labels_and_the_like_reach_every_pod(rendered: Callable[[str], Rendered], helm: Helm) -> None:
    """Common labels, pull secrets, tolerations, the image's digest and scrape annotations are on all pods, and no label replaces a selector's."""
    objects = rendered("faker-and-everything")
    assert objects.one("PodMonitor", "nicrails-faker")["metadata"]["labels"]["release"] == "prometheus"
    for item in workloads(objects).values():
        spec, metadata = template(item), item["spec"]["template"]["metadata"]
        (container,) = spec["containers"]
        assert metadata["labels"]["team"] == item["metadata"]["labels"]["team"] == "fabric"
        assert spec["imagePullSecrets"] == [{"name": "registry"}]
        assert container["image"] == "registry.example:5000/fabric/nicrails-faker@sha256:" + "1" * 64
        assert "resources" not in container
        assert spec.get("tolerations") == ([{"operator": "Exists"}] if item["kind"] == "DaemonSet" else None)
        assert metadata["annotations"] == {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": str(container["ports"][0]["containerPort"]),
            "prometheus.io/path": "/metrics",
        }
    foreign = {"app.kubernetes.io/name": "x", COMPONENT: "else", "mine": "z"}
    for item in workloads(helm.template(merged(FAKER, {"commonLabels": foreign}))).values():
        labels = item["spec"]["template"]["metadata"]["labels"]
        assert item["spec"]["selector"]["matchLabels"].items() <= labels.items()
        assert labels["mine"] == "z"


def test_the_defaults_are_those_of_the_project(rendered: Callable[[str], Rendered]) -> None:
    """The image is of the chart's version, which is the faker's; memory is limited; pods are not scraped unasked."""
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    project = tomllib.loads((CHART.parent.parent / "faker" / "pyproject.toml").read_text())
    assert project["project"]["version"] == version
    for item in workloads(rendered("faker-with-fake-nodes")).values():
        (container,) = template(item)["containers"]
        assert container["image"] == f"nicrails-faker:{version}"
        assert set(container["resources"]["limits"]) == {"memory"}
        assert "annotations" not in item["spec"]["template"]["metadata"]
        tolerations = template(item).get("tolerations")
        assert tolerations == (
            [{"key": "nvidia.com/gpu", "operator": "Exists"}] if item["kind"] == "DaemonSet" else None
        )
    assert _faker_values()["fakeNodes"]["label"] == fakenodes.FAKE_LABEL


def _faker_values() -> Any:
    return yaml.safe_load((CHART / "values.yaml").read_text())["faker"]


def test_what_restarts_pods(helm: Helm) -> None:
    """Another image or setting changes the pods' templates; another topology does not, for it is followed."""

    def templates(*values: Json) -> dict[str, Json]:
        found = workloads(helm.template(merged(FAKER, *values)))
        return {service: item["spec"]["template"] for service, item in found.items()}

    before = templates()
    assert templates(at("faker.topology.nodePools.default.gpuCount", 8)) == before
    assert templates(at("faker.topology.migStrategy", "single")) == before
    image = templates(at("faker.image.tag", "2"))
    assert all(image[service] != before[service] for service in before)
    strict = templates(at("faker.devicePlugin.strict", value=True))
    assert {service for service in before if strict[service] != before[service]} == {"device-plugin", "mig"}
    assert set(templates(MINIMAL)) == {"topology", "device-plugin"}


def test_the_notes_say_what_to_type(helm: Helm) -> None:
    """Notes of the faker warn of Clusters with GPUs, and have the commands for a fake GPU and for slices, with a request that it takes."""

    def notes(name: str) -> str:
        said = helm.run("install", "x", str(CHART), "--dry-run=client", values=COMBINATIONS[name])
        found = said.partition("NOTES:")[2]
        assert "<no value>" not in found
        assert "{{" not in found
        return found

    said = notes("faker-with-fake-nodes")
    for words in (
        "NEVER use it where GPUs are",
        "kubectl label node NODE run.ai/simulated-gpu-node-pool=default",
        "kubectl label node NODE node-role.kubernetes.io/runai-dynamic-mig=true",
        "kubectl label node NODE nicrails.io/fake-node=true",
        "kubectl -n gpu-operator get configmap topology-NODE",
        "kubectl label namespace gpu-operator pod-security.kubernetes.io/enforce=privileged",
        "helm test x",
    ):
        assert words in said
    request = parse_request(said.partition("run.ai/mig.config='")[2].partition("'\n")[0])
    cluster = helm.template(FAKER).one("ConfigMap")["data"]["topology.yml"]
    cut = plan(read_cluster_topology(cluster).node("n", "default", {}), request)
    assert [len(gpu.mig_instances) for gpu in cut.gpus] == [7, 0]
    said = notes("faker-minimal")
    assert "NEVER use it where GPUs are" in said
    for words in ("Nothing is installed", "To verify", "mig.config", "fake-node="):
        assert words not in said
    assert "FAKER" not in notes("records").upper()
