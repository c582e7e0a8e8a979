"""What the chart renders, object by object."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping

import pytest
import yaml

from nicrails_broker.sources import Command
from tests.chart.combinations import ANNOTATIONS, COMBINATIONS, EVERYTHING, FAKERS, MAPPING, POLICIES, RECORDS
from tests.chart.helm import CHART, Helm, Json, Rendered, at, is_hook, merged, rules

pytestmark = pytest.mark.needs("helm")

INSTALLED = [name for name in COMBINATIONS if name not in {"nothing", *FAKERS}]
"""With the faker broker and observer are the same; ``test_faker.py`` shows it."""
WITH_RECORDS = [name for name in INSTALLED if not name.startswith("annotations")]
OFF = merged(at(f"{MAPPING}.enabled", value=False), at("nodeMetadata.provider.name", "none"))


def pods(objects: Rendered) -> Iterator[tuple[str, Json]]:
    """Every pod spec, with a name for messages."""
    for item in objects:
        if item["kind"] in {"DaemonSet", "Deployment"}:
            yield item["kind"], item["spec"]["template"]["spec"]
        elif item["kind"] == "Pod":
            yield "Pod", item["spec"]


def labels(item: Json) -> Mapping[str, str]:
    """The labels of the pods that an object makes, or is."""
    template = item["spec"].get("template", item)
    found: Mapping[str, str] = template["metadata"]["labels"]
    return found


def test_nothing_is_rendered_for_what_is_off(helm: Helm) -> None:
    """Without records and annotations there is no object at all, whatever else is on, and no hook either."""
    assert list(helm.template()) == []
    assert list(helm.template(merged(EVERYTHING, OFF))) == []


@pytest.mark.parametrize(
    "name", ["records-without-gpu-source", "records-without-gpu-nodes", "policies-without-gpu-source"]
)
def test_without_a_gpu_source_nothing_may_exec(rendered: Callable[[str], Rendered], name: str) -> None:
    """Without a GPU source there is no permission outside the release's namespace but on Nodes, and no word of exec."""
    objects = rendered(name)
    granted = rules([*objects.all("Role"), *objects.all("ClusterRole")])
    assert {resource for rule in granted for resource in rule["resources"]} == {"configmaps", "deployments", "nodes"}
    assert {item["metadata"].get("namespace", "nicrails-system") for item in objects} == {"nicrails-system"}
    assert "pods/exec" not in yaml.safe_dump(list(objects))


@pytest.mark.parametrize("name", ["annotations-alone", "annotations-with-policies"])
def test_annotations_alone_need_no_observer_and_no_configmap(rendered: Callable[[str], Rendered], name: str) -> None:
    """With the provider alone there are brokers that may get and patch Nodes, and nothing of the records."""
    objects = rendered(name)
    assert "Deployment" not in objects.kinds()
    assert rules([*objects.all("Role"), *objects.all("ClusterRole")]) == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]}
    ]
    assert [item["metadata"]["name"] for item in objects.all("ServiceAccount")] == ["nicrails-broker"]


@pytest.mark.parametrize("name", INSTALLED)
def test_the_shared_configmap_is_never_rendered(rendered: Callable[[str], Rendered], name: str) -> None:
    """The only ConfigMap is that of the settings; the one of the records is the observer's to make."""
    objects = rendered(name)
    (config_map,) = objects.all("ConfigMap")
    assert set(config_map["data"]) == {"settings.yaml"}
    mapping = yaml.safe_load(objects.settings())["nodeMetadata"]["plugins"]["gpuNicRailMapping"]
    assert config_map["metadata"]["name"] != mapping.get("configMapName")


@pytest.mark.parametrize("name", WITH_RECORDS)
def test_one_name_of_the_observer_everywhere(rendered: Callable[[str], Rendered], name: str) -> None:
    """The Deployment's name is what its pods are told, what brokers expect, and what its account may read."""
    objects = rendered(name)
    deployment = objects.one("Deployment")["metadata"]["name"]
    settings = yaml.safe_load(objects.settings())
    assert settings["nodeMetadata"]["plugins"]["gpuNicRailMapping"]["observerDeployment"] == deployment
    (container,) = objects.pod("Deployment")["containers"]
    assert {"name": "DEPLOYMENT_NAME", "value": deployment} in container["env"]
    readable = [rule for rule in rules(objects.all("Role")) if rule["resources"] == ["deployments"]]
    assert [rule["resourceNames"] for rule in readable] == [[deployment]]


@pytest.mark.parametrize("name", INSTALLED)
def test_what_pods_are_told(rendered: Callable[[str], Rendered], name: str) -> None:
    """Node and namespace come by the downward API, and both programs read the one settings file."""
    objects = rendered(name)
    fields = {"NODE_NAME": "spec.nodeName", "POD_NAMESPACE": "metadata.namespace"}
    for kind in objects.kinds() & {"DaemonSet", "Deployment"}:
        spec = objects.pod(kind)
        (container,) = spec["containers"]
        told = {
            entry["name"]: entry["valueFrom"]["fieldRef"]["fieldPath"]
            for entry in container["env"]
            if "valueFrom" in entry
        }
        assert told == (fields if kind == "DaemonSet" else {"POD_NAMESPACE": fields["POD_NAMESPACE"]})
        assert container["args"] == ["run", "--config", "/etc/nicrails/settings.yaml"]
        (volume,) = [volume for volume in spec["volumes"] if volume["name"] == "settings"]
        assert volume["configMap"]["name"] == objects.one("ConfigMap")["metadata"]["name"]
        (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == "settings"]
        assert (mount["mountPath"], mount["readOnly"]) == ("/etc/nicrails", True)


def test_a_change_of_settings_rolls_both_programs(helm: Helm) -> None:
    """Pods carry the settings' checksum, equal for equal settings, so an upgrade restarts them only where it matters."""

    def checksums(values: Json) -> list[str]:
        objects = helm.template(merged(RECORDS, values))
        return [
            item["spec"]["template"]["metadata"]["annotations"]["checksum/settings"]
            for item in objects
            if item["kind"] in {"DaemonSet", "Deployment"}
        ]

    before = checksums({})
    assert before[0] == before[1]
    assert checksums(at("broker.podLabels", {"a": "b"})) == before
    changed = checksums(at(f"{MAPPING}.railSource.hostLLDP.railID", "other$1"))
    assert changed[0] == changed[1] != before[0]


@pytest.mark.parametrize("name", INSTALLED)
def test_no_container_has_more_rights_than_it_needs(rendered: Callable[[str], Rendered], name: str) -> None:
    """Every pod has the restricted security context; the one exception is the broker's without ``lldpdGroup``."""
    group = merged(COMBINATIONS[name]).get("broker", {}).get("lldpdGroup")
    for kind, spec in pods(rendered(name)):
        for container in spec["containers"]:
            security = dict(container["securityContext"])
            security.pop("seLinuxOptions", None)
            added = {"add": ["DAC_OVERRIDE"]} if kind == "DaemonSet" and group is None else {}
            assert security == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"], **added},
                "readOnlyRootFilesystem": True,
            }
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        assert not spec["enableServiceLinks"]
        security = spec["securityContext"]
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        if kind == "DaemonSet" and group is None:
            assert (security["runAsUser"], security["runAsNonRoot"]) == (0, False)
            assert "supplementalGroups" not in security
        else:
            assert (security["runAsUser"], security["runAsGroup"], security["runAsNonRoot"]) == (65532, 65532, True)
            assert security.get("supplementalGroups") == ([group] if kind == "DaemonSet" else None)


@pytest.mark.parametrize("name", INSTALLED)
def test_the_broker_sees_the_host_s_sysfs_and_the_folder_of_the_socket_alone(
    rendered: Callable[[str], Rendered], name: str
) -> None:
    """Both mounts are read-only with their submounts, where the settings say; nobody else mounts anything of the host."""
    objects = rendered(name)
    host = yaml.safe_load(objects.settings())["host"]
    for kind, spec in pods(objects):
        volumes = {volume["name"]: volume["hostPath"] for volume in spec.get("volumes", ()) if "hostPath" in volume}
        if kind != "DaemonSet":
            assert not volumes
            continue
        mounts = {mount["name"]: mount for mount in spec["containers"][0]["volumeMounts"]}
        assert set(volumes) == {"sysfs", "lldpd"}
        assert all(mounts[name]["readOnly"] and mounts[name]["recursiveReadOnly"] == "IfPossible" for name in volumes)
        assert mounts["sysfs"]["mountPath"] == host["sysfsRoot"] != "/sys"
        assert host["lldpdSocket"].rpartition("/")[0] == mounts["lldpd"]["mountPath"]
        assert volumes["sysfs"] == {"path": "/sys", "type": "Directory"}
        # A mounted socket goes stale when lldpd restarts; a folder does not.
        assert volumes["lldpd"]["type"] == "DirectoryOrCreate"


@pytest.mark.parametrize("name", INSTALLED)
def test_probes_and_ports(rendered: Callable[[str], Rendered], name: str) -> None:
    """Liveness and start ask ``/livez``, readiness asks ``/healthz``, on the port that the settings name."""
    objects = rendered(name)
    port = yaml.safe_load(objects.settings())["server"]["port"]
    for kind in objects.kinds() & {"DaemonSet", "Deployment"}:
        (container,) = objects.pod(kind)["containers"]
        assert container["ports"] == [{"name": "http", "containerPort": port}]
        asked = {name: container[name]["httpGet"] for name in container if name.endswith("Probe")}
        live, ready = {"path": "/livez", "port": "http"}, {"path": "/healthz", "port": "http"}
        assert asked == {"startupProbe": live, "livenessProbe": live, "readinessProbe": ready}


def test_scheduling_fits_a_fleet_of_gpus(rendered: Callable[[str], Rendered], helm: Helm) -> None:
    """Brokers tolerate the usual taint of GPU Nodes, run on Linux only, and a roll-out takes a share of them at a time."""
    daemon_set = rendered("records").one("DaemonSet")["spec"]
    spec = daemon_set["template"]["spec"]
    assert spec["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert daemon_set["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": "10%", "maxSurge": 0}
    other = helm.template(merged(RECORDS, at("broker.updateStrategy.maxUnavailable", 500)))
    assert other.one("DaemonSet")["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == 500


def test_resources_have_defaults_and_can_be_taken_away(rendered: Callable[[str], Rendered]) -> None:
    """Both programs request and limit memory above what was measured, and have no CPU limit, which would only throttle them."""
    for kind in ("DaemonSet", "Deployment"):
        resources = rendered("records").pod(kind)["containers"][0]["resources"]
        assert int(resources["requests"]["memory"].removesuffix("Mi")) > 57
        assert int(resources["limits"]["memory"].removesuffix("Mi")) >= 2 * 57
        assert set(resources["limits"]) == {"memory"}
    assert "resources" not in rendered("no-limits").pod("DaemonSet")["containers"][0]
    assert set(rendered("no-limits").pod("Deployment")["containers"][0]["resources"]) == {"requests"}


def test_a_disruption_budget_only_where_it_does_not_block_drains(
    helm: Helm, rendered: Callable[[str], Rendered]
) -> None:
    """One observer has no PodDisruptionBudget, several have one that lets one go at a time."""
    assert "PodDisruptionBudget" not in rendered("records").kinds()
    budget = helm.template(merged(RECORDS, at("observer.replicas", 3))).one("PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1
    without = {"observer": {"replicas": 3, "podDisruptionBudget": {"enabled": False}}}
    assert "PodDisruptionBudget" not in helm.template(merged(RECORDS, without)).kinds()


def test_what_is_off_by_default_is_not_there(rendered: Callable[[str], Rendered]) -> None:
    """The records alone need these kinds of objects and no scrape annotations."""
    objects = rendered("records")
    assert objects.kinds() == {
        *("ServiceAccount", "ConfigMap", "DaemonSet", "Deployment"),
        *("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
    }
    for kind in ("DaemonSet", "Deployment"):
        annotations = objects.one(kind)["spec"]["template"]["metadata"]["annotations"]
        assert set(annotations) == {"checksum/settings"}


@pytest.mark.parametrize("name", ["records", "everything", "metrics", "other-names"])
def test_selectors_select_what_they_are_for(rendered: Callable[[str], Rendered], name: str) -> None:
    """Each workload selects its own pods alone; Service, monitors and NetworkPolicy select both programs and not the test's pod."""
    objects = rendered(name)
    made = {item["kind"]: labels(item) for item in objects if item["kind"] in {"DaemonSet", "Deployment", "Pod"}}

    def selected(selector: Mapping[str, str]) -> set[str]:
        return {kind for kind, its in made.items() if selector.items() <= its.items()}

    for kind in ("DaemonSet", "Deployment"):
        assert selected(objects.one(kind)["spec"]["selector"]["matchLabels"]) == {kind}
    both = {"DaemonSet", "Deployment"}
    for item in objects:
        match item["kind"]:
            case "Service":
                assert selected(item["spec"]["selector"]) == both
            case "NetworkPolicy":
                assert selected(item["spec"]["podSelector"]["matchLabels"]) == both
            case "PodMonitor":
                assert selected(item["spec"]["selector"]["matchLabels"]) == both
            case "ServiceMonitor":
                service = objects.one("Service")["metadata"]["labels"]
                assert item["spec"]["selector"]["matchLabels"].items() <= service.items()
            case "PodDisruptionBudget":
                assert selected(item["spec"]["selector"]["matchLabels"]) == {"Deployment"}


def test_foreign_labels_never_replace_a_selector_s(helm: Helm) -> None:
    """Labels that a user gives are added, and can not take pods away from their workload."""
    given = {"app.kubernetes.io/name": "x", "app.kubernetes.io/component": "else", "mine": "z"}
    objects = helm.template(
        merged(RECORDS, {"commonLabels": given, "broker": {"podLabels": given}, "observer": {"podLabels": given}})
    )
    for kind in ("DaemonSet", "Deployment"):
        item = objects.one(kind)
        assert item["spec"]["selector"]["matchLabels"].items() <= labels(item).items()
        assert labels(item)["mine"] == "z"
        assert item["metadata"]["labels"]["app.kubernetes.io/component"] in {"broker", "observer"}


def test_images_are_of_the_chart_s_version(rendered: Callable[[str], Rendered]) -> None:
    """By default the tag is the version of the programs; a digest comes before a tag."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    for part in ("broker", "observer"):
        project = tomllib.loads((CHART.parent.parent / part / "pyproject.toml").read_text())
        assert project["project"]["version"] == chart["appVersion"] == chart["version"]
    images = {kind: spec["containers"][0]["image"] for kind, spec in pods(rendered("records"))}
    version = chart["appVersion"]
    assert images == {
        "DaemonSet": f"nicrails-broker:{version}",
        "Deployment": f"nicrails-observer:{version}",
        "Pod": f"nicrails-broker:{version}",
    }
    images = {kind: spec["containers"][0]["image"] for kind, spec in pods(rendered("everything"))}
    assert images["DaemonSet"] == "registry.example:5000/fabric/nicrails-broker@sha256:" + "0" * 64
    assert images["Deployment"] == "nicrails-observer:1.2.3"


def test_two_releases_do_not_meet(helm: Helm) -> None:
    """Releases of one name in two namespaces share no name outside of them, and a long name stays within all limits."""
    values = merged(EVERYTHING, at(f"{MAPPING}.gpuSource.daemonSet", "x"))

    def outside(namespace: str) -> set[tuple[str, str, str]]:
        return {
            (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])
            for item in helm.template(values, namespace=namespace)
            if item["metadata"].get("namespace") != namespace
        }

    assert len(outside("one")) == len(outside("two")) > 10
    assert not outside("one") & outside("two")
    for item in helm.template(values, release="a" * 53, namespace="n" * 63):
        name = item["metadata"]["name"]
        limit = 63 if item["kind"] in {"DaemonSet", "Deployment", "Service", "ServiceAccount", "Pod"} else 253
        assert len(name) <= limit
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name), name


def test_names_that_yaml_takes_for_something_else(helm: Helm) -> None:
    """A release ``n`` in a namespace ``123`` is no boolean and no number anywhere that a string belongs."""

    def odd(document: object, path: str = "") -> Iterator[str]:
        if isinstance(document, dict):
            for key, value in document.items():
                yield from odd(value, f"{path}.{key}")
        elif isinstance(document, list):
            for value in document:
                yield from odd(value, path)
        elif document is False or document == 123:
            yield path

    harmless = (".automountServiceAccountToken", ".enableServiceLinks", ".allowPrivilegeEscalation")
    for item in helm.template(EVERYTHING, release="n", namespace="123"):
        assert not [path for path in odd(item) if not path.endswith(harmless)]


@pytest.mark.parametrize("name", ["everything", "annotations-with-policies", "policies-without-gpu-source"])
def test_policies_are_about_the_account_that_the_brokers_have(rendered: Callable[[str], Rendered], name: str) -> None:
    """Every policy is bound with Deny, fails closed, answers with 403 and names the DaemonSet's own account."""
    objects = rendered(name)
    account = objects.pod("DaemonSet")["serviceAccountName"]
    user = f"system:serviceaccount:nicrails-system:{account}"
    policies = objects.all("ValidatingAdmissionPolicy")
    bound = {item["spec"]["policyName"]: item["spec"] for item in objects.all("ValidatingAdmissionPolicyBinding")}
    assert policies
    assert set(bound) == {policy["metadata"]["name"] for policy in policies}
    for policy in policies:
        assert bound[policy["metadata"]["name"]]["validationActions"] == ["Deny"]
        assert policy["spec"]["failurePolicy"] == "Fail"
        (condition,) = policy["spec"]["matchConditions"]
        assert condition["expression"] == f"request.userInfo.username == '{user}'"
        assert all(rule["reason"] == "Forbidden" for rule in policy["spec"]["validations"])


def test_policies_are_as_many_as_features(helm: Helm) -> None:
    """Each feature has its policy, and none is there for a feature that is off."""

    def names(*values: Json) -> set[str]:
        found = helm.template(merged(POLICIES, *values)).all("ValidatingAdmissionPolicy")
        return {item["metadata"]["name"].removeprefix("nicrails-").partition(".")[0] for item in found}

    assert names() == set()
    assert names(ANNOTATIONS) == {"node"}
    assert names(RECORDS) == {"record", "exec"}
    assert names(RECORDS, ANNOTATIONS) == {"record", "exec", "node"}
    assert names(RECORDS, at(f"{MAPPING}.gpuSource", None)) == {"record"}


def test_the_exec_policy_knows_the_broker_s_two_commands(rendered: Callable[[str], Rendered]) -> None:
    """The commands in the policy are those that the broker runs, word for word."""
    policy = rendered("everything").one("ValidatingAdmissionPolicy", "exec.nicrails-system")
    text = re.sub(r"\s+", " ", yaml.safe_dump(policy, width=10000))
    for command in Command:
        assert "[" + ", ".join(f"'{word}'" for word in command.argv) + "]" in text.replace("''", "'")


def test_the_verifying_pod_is_a_hook(rendered: Callable[[str], Rendered]) -> None:
    """``helm test`` runs one pod, with the brokers' account and where brokers may run; nothing else is a hook."""
    objects = rendered("everything")
    (hook,) = [item for item in objects if is_hook(item)]
    assert hook["metadata"]["annotations"]["helm.sh/hook"] == "test"
    brokers = objects.pod("DaemonSet")
    for key in ("serviceAccountName", "nodeSelector", "tolerations", "affinity", "imagePullSecrets"):
        assert hook["spec"][key] == brokers[key]
