"""What the accounts may do is exactly the tables of ``docs/permissions.md``: the real API server is asked about everything."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

import pytest
import pytest_asyncio

from tests.chart import paths, permissions
from tests.chart.combinations import ANNOTATIONS, MAPPING, POLICIES, RECORDS
from tests.chart.helm import Helm, Json, Rendered, at, merged
from tests.chart.permissions import (
    CLUSTER,
    DEFAULT,
    FAKERS,
    FEATURES,
    GPU_OPERATOR,
    GPU_SOURCE,
    PROGRAMS,
    RELEASE,
    TABLE,
    granted,
)
from tests.cluster.api import Api
from tests.cluster.controlplane import ControlPlane
from tests.cluster.world import World
from tests.support.endpoint import ApiEndpoint

pytestmark = pytest.mark.needs("helm", "control-plane")

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
SPECIAL = ("bind", "escalate", "impersonate", "use", "approve", "sign", "attest", "*")
"""Verbs that mean something for a few resources only; asked of every resource, but without a name."""
VIRTUAL = (("", "users"), ("", "groups"), ("", "*"), ("*", "*"), ("authentication.k8s.io", "userextras/scopes"))
"""Resources that exist for RBAC alone."""
AT_ONCE = 24


@dataclass(frozen=True, slots=True, order=True)
class May:
    """One thing that an account may do; ``namespace`` "" is the whole cluster, ``name`` "" any object."""

    namespace: str
    group: str
    resource: str
    name: str
    verb: str


def values_for(features: frozenset[str], operator: World) -> Json:
    """The values that turn exactly these features on."""
    parts: list[Json] = [POLICIES]
    if permissions.RECORDS in features:
        parts.append(RECORDS)
    faker = {
        "enabled": permissions.FAKER in features,
        "mig": {
            "enabled": permissions.MIG in features,
            "onChange": "restart" if permissions.RESTART in features else "follow",
        },
        "metrics": {"enabled": permissions.METRICS in features},
        "fakeNodes": {"enabled": permissions.FAKE_NODES in features},
    }
    parts.append({"faker": faker})
    if features & {permissions.RECORDS, permissions.FAKER}:
        parts.append(at(f"{MAPPING}.gpuSource.gpuOperatorNamespace", operator.namespace))
        if not features & {GPU_SOURCE, permissions.FAKER}:
            parts.append(at(f"{MAPPING}.gpuSource", None))
    if permissions.ANNOTATIONS in features:
        parts.append(ANNOTATIONS)
    return merged(*parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The accounts and roles of a release; ``everywhere`` maps the table's places to namespaces."""

    world: World
    objects: Rendered
    everywhere: dict[str, str]

    def account(self, program: str) -> tuple[str, str] | None:
        """Namespace and name of a program's account, if there is one."""
        found = [item["metadata"] for item in self.objects.all("ServiceAccount")]
        mine = [(it["namespace"], it["name"]) for it in found if it["name"].endswith(f"-{program}")]
        assert len(mine) <= 1
        return mine[0] if mine else None

    def expected(self, program: str, features: frozenset[str]) -> set[May]:
        """What the tables say."""
        return {
            May(self.everywhere[item.where], item.group, item.resource, item.name or "", item.verb)
            for item in granted(program, features)
        }


@pytest_asyncio.fixture
async def operator(control_plane: ControlPlane) -> AsyncIterator[World]:
    """The GPU Operator's namespace."""
    async with World.on(control_plane.endpoint) as made:
        yield made


@pytest_asyncio.fixture(params=FEATURES)
async def features(request: pytest.FixtureRequest) -> frozenset[str]:
    """A combination of features."""
    return FEATURES[request.param]


@pytest_asyncio.fixture
async def installed(helm: Helm, world: World, operator: World, features: frozenset[str]) -> AsyncIterator[Installed]:
    """The accounts and roles for these features, on the API server."""
    objects = helm.template(values_for(features, operator), namespace=world.namespace)
    kinds = {"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
    made = [item for item in objects if item["kind"] in kinds]
    await paths.make(world.api, made)
    places = {RELEASE: world.namespace, GPU_OPERATOR: operator.namespace, CLUSTER: "", DEFAULT: "default"}
    yield Installed(world=world, objects=objects, everywhere=places)
    await paths.remove(world.api, made)


async def rules(plane: ControlPlane, account: tuple[str, str], namespace: str) -> tuple[set[May], set[tuple[str, str]]]:
    """What the server says itself about an account in a namespace, rules of the whole cluster included, and about URLs."""
    token = await asyncio.to_thread(plane.service_account_token, *account)
    endpoint = ApiEndpoint(url=plane.endpoint.url, ca_file=plane.endpoint.ca_file, token=token)
    async with Api.on(endpoint) as api:
        answer = await api.create(
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": namespace}}
        )
    status = answer["status"]
    found = {
        May(namespace, group, resource, name, verb)
        for rule in status["resourceRules"]
        for group, resource, name, verb in itertools.product(
            rule["apiGroups"], rule["resources"], rule.get("resourceNames", [""]), rule["verbs"]
        )
    }
    urls = {
        (verb, url) for rule in status["nonResourceRules"] for verb in rule["verbs"] for url in rule["nonResourceURLs"]
    }
    return found, urls


async def test_the_server_lists_the_table_s_rules_and_no_others(
    control_plane: ControlPlane, world: World, installed: Installed, features: frozenset[str]
) -> None:
    """In every namespace concerned the rules of each account, less those that everybody has, are the table's."""
    for program in (*PROGRAMS, *FAKERS):
        account = installed.account(program)
        expected = installed.expected(program, features)
        assert (account is None) == (not expected)
        if account is None:
            continue
        for namespace in (*filter(None, installed.everywhere.values()), "kube-system"):
            everybody, everybody_s_urls = await rules(control_plane, (world.namespace, "workload"), namespace)
            found, its_urls = await rules(control_plane, account, namespace)
            here = {
                May(namespace, item.group, item.resource, item.name, item.verb)
                for item in expected
                if item.namespace in {"", namespace}
            }
            assert found - everybody == here
            assert everybody <= found
            assert its_urls == everybody_s_urls
            assert {(item.resource, item.verb) for item in everybody} == {
                (f"selfsubject{kind}reviews", "create") for kind in ("access", "rules", "")
            }


async def resources(api: Api) -> list[tuple[str, str, bool]]:
    """Group, resource and whether it has a namespace, of all that the server serves, subresources included."""
    lists = ["/api/v1"]
    for group in (await api.get("/apis"))["groups"]:
        lists += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
    found = set()
    for answer in await asyncio.gather(*(api.get(path) for path in lists)):
        group = answer["groupVersion"].rpartition("/")[0]
        found |= {(group, item["name"], bool(item["namespaced"])) for item in answer["resources"]}
    assert len(found) > 100
    return sorted({*found, *((group, name, False) for group, name in VIRTUAL)})


def questions(known: Iterable[tuple[str, str, bool]], namespaces: Iterable[str], *, thorough: bool) -> set[May]:
    """Everything to ask.

    Args:
        known: Resources.
        namespaces: All of them, "" is the whole cluster.
        thorough: Ask about everything; otherwise only about what is in the table, and about the most dangerous.
    """
    names = {item.name for item in TABLE if item.name} | {"", "another-name"}
    in_table = {(item.group, item.resource) for item in TABLE}
    dangerous = {"secrets", "serviceaccounts/token", "nodes/proxy", "nodes/status", "pods", "pods/exec", "pods/attach"}
    asked = set()
    for group, resource, namespaced in known:
        if not thorough and (group, resource) not in in_table and resource not in dangerous:
            continue
        for namespace in namespaces if namespaced else ("",):
            for verb in (*VERBS, *SPECIAL) if thorough else VERBS:
                every = names if (group, resource) in in_table and verb in VERBS else {""}
                asked |= {May(namespace, group, resource, name, verb) for name in every}
    return asked


async def allowed(api: Api, user: str, asked: Iterable[May]) -> set[May]:
    """Which of these things the API server would let a user do."""
    parts = user.split(":")
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{parts[2]}", "system:authenticated"]
    waiting = iter(sorted(asked))
    found = set()

    async def worker() -> None:
        for may in waiting:
            resource, _, subresource = may.resource.partition("/")
            attributes = {
                "namespace": may.namespace,
                "verb": may.verb,
                "group": may.group,
                "resource": resource,
                "subresource": subresource,
                "name": may.name,
            }
            spec = {"user": user, "groups": groups, "resourceAttributes": attributes}
            answer = await api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
            if answer["status"]["allowed"]:
                found.add(may)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(worker())
    return found


# Tens of thousands of questions, on a machine that may have other things to do.
@pytest.mark.timeout(300)
async def test_nothing_else_is_allowed(installed: Installed, features: frozenset[str]) -> None:
    """Asked about every verb on every resource in every namespace, the server allows the table's rows and nothing else."""
    world = installed.world
    namespaces = [*installed.everywhere.values(), "kube-system"]
    # All questions for the combination that allows most; what the others allow less, the tables' resources tell.
    asked = questions(await resources(world.api), namespaces, thorough=features == FEATURES["everything"])
    for program in (*PROGRAMS, *FAKERS):
        account = installed.account(program)
        if account is None:
            continue
        expected = {
            may
            for item in installed.expected(program, features)
            for may in asked
            if (may.group, may.resource, may.verb) == (item.group, item.resource, item.verb)
            and may.namespace in ({item.namespace} if item.namespace else set(namespaces))
            and item.name in {"", may.name}
        }
        found = await allowed(world.api, "system:serviceaccount:" + ":".join(account), asked)
        everybody = {may for may in found if may.group in {"authorization.k8s.io", "authentication.k8s.io"}}
        assert {(may.resource, may.verb) for may in everybody} <= {
            (f"selfsubject{kind}reviews", "create") for kind in ("access", "rules", "")
        }
        assert found - everybody == expected
