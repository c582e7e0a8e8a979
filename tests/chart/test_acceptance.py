"""A real kube-apiserver on what the chart renders: every field known, every object valid, pods as restricted as promised."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from tests.chart import paths
from tests.chart.combinations import COMBINATIONS, EVERYTHING, FAKERS, MAPPING, RECORDS
from tests.chart.helm import Helm, Json, at, merged
from tests.cluster.api import Api
from tests.cluster.controlplane import ControlPlane
from tests.cluster.world import World
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs("helm", "control-plane")

KINDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MONITORS = Path(__file__).parent / "monitoring.yaml"


@pytest_asyncio.fixture
async def monitors(control_plane: ControlPlane) -> None:
    """The Prometheus Operator's kinds; they stay, for making them known takes the server a second."""
    kinds = list(yaml.safe_load_all(MONITORS.read_text()))
    async with Api.on(control_plane.endpoint) as api:
        for kind in kinds:
            if await api.get_or_none(f"{KINDS}/{kind['metadata']['name']}") is None:
                await api.create(KINDS, kind)
        for plural in ("podmonitors", "servicemonitors"):

            async def served(plural: str = plural) -> bool:
                return (await api.ask("GET", f"/apis/monitoring.coreos.com/v1/{plural}")).status == 200

            await eventually(served, within=20, what=f"{plural} are served")


@pytest_asyncio.fixture
async def operator(control_plane: ControlPlane) -> AsyncIterator[World]:
    """The GPU Operator's namespace."""
    async with World.on(control_plane.endpoint) as made:
        yield made


def in_place(values: Mapping[str, object], operator: World) -> Json:
    """The values with the GPU Operator in a namespace that exists, if they have one."""
    mapping: Json = merged(values).get("nodeMetadata", {}).get("plugins", {}).get("gpuNicRailMapping", {})
    if not mapping.get("gpuSource", {}) and "faker" not in values:
        return merged(values)
    return merged(values, at(f"{MAPPING}.gpuSource.gpuOperatorNamespace", operator.namespace))


@pytest.mark.parametrize("name", COMBINATIONS)
async def test_the_api_server_accepts_it(helm: Helm, world: World, operator: World, monitors: None, name: str) -> None:
    """Every object of this combination is accepted by the real API server, which refuses fields that it does not know."""
    objects = helm.template(in_place(COMBINATIONS[name], operator), namespace=world.namespace)
    accounts = objects.all("ServiceAccount")
    answers = [(item, await paths.try_out(world.api, item)) for item in accounts]
    # Pods are refused without their account, so these are made.
    await paths.make(world.api, accounts)
    answers += [(item, await paths.try_out(world.api, item)) for item in objects if item not in accounts]
    for item, answer in answers:
        assert answer.status == 201, f"{item['kind']} {item['metadata']['name']}: {answer.body.decode()}"
        assert "Warning" not in answer.headers, f"{item['kind']}: {answer.headers['Warning']}"
    assert (name == "nothing") == (not answers)


async def violations(world: World, template: Json, namespace: str) -> str:
    """What the API server says to a pod of a template in another namespace."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x", "namespace": namespace},
        "spec": {**template["spec"], "serviceAccountName": "workload"},
    }
    answer = await paths.try_out(world.api, pod)
    return "" if answer.status == 201 else str(answer.json()["message"])


@pytest_asyncio.fixture
async def restricted(world: World) -> World:
    """A namespace with the restricted Pod Security Standard."""
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    await world.api.merge_patch(f"/api/v1/namespaces/{world.namespace}", {"metadata": {"labels": label}})
    return world


async def test_the_observer_satisfies_the_restricted_standard(helm: Helm, restricted: World) -> None:
    """The observer's and the test's pods are admitted where the restricted Pod Security Standard is enforced."""
    objects = helm.template(EVERYTHING)
    assert await violations(restricted, objects.one("Deployment")["spec"]["template"], restricted.namespace) == ""
    assert await violations(restricted, objects.one("Pod"), restricted.namespace) == ""


async def test_the_broker_breaks_it_in_the_documented_way_only(helm: Helm, restricted: World) -> None:
    """With ``lldpdGroup`` the broker breaks the restricted standard by its two hostPath volumes, without it also as root with DAC_OVERRIDE."""
    with_group = helm.template(merged(RECORDS, at("broker.lldpdGroup", 105))).one("DaemonSet")["spec"]["template"]
    as_root = helm.template(RECORDS).one("DaemonSet")["spec"]["template"]
    said = await violations(restricted, with_group, restricted.namespace)
    head = 'violates PodSecurity "restricted:latest": '
    volumes = 'restricted volume types (volumes "sysfs", "lldpd" use restricted volume type "hostPath")'
    assert said.partition(head)[2] == volumes
    said = await violations(restricted, as_root, restricted.namespace)
    assert re.sub(r" \([^)]*\)", "", said.partition(head)[2]).split(", ") == [
        "unrestricted capabilities",
        "restricted volume types",
        "runAsNonRoot != true",
        "runAsUser=0",
    ]
    assert 'must not include "DAC_OVERRIDE" in securityContext.capabilities.add' in said


@pytest.mark.parametrize("name", FAKERS)
async def test_the_faker_breaks_it_in_the_documented_way_only(helm: Helm, restricted: World, name: str) -> None:
    """Only the device plugin and the metrics break the restricted standard: by folders of the host, and as root."""
    objects = helm.template(COMBINATIONS[name])
    broken = {}
    for item in (*objects.all("Deployment"), *objects.all("DaemonSet")):
        service = item["metadata"]["labels"]["app.kubernetes.io/component"]
        if not service.startswith("faker-"):
            continue
        said = await violations(restricted, item["spec"]["template"], restricted.namespace)
        if said:
            broken[service] = re.sub(r" \([^)]*\)", "", said.partition('"restricted:latest": ')[2]).split(", ")
    as_root = ["restricted volume types", "runAsNonRoot != true", "runAsUser=0"]
    metrics = {} if name == "faker-minimal" else {"faker-metrics": as_root}
    assert broken == {"faker-device-plugin": as_root} | metrics
