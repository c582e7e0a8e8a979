"""Tokens and permissions: 401 and 403."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.conformance.backends import Backend
from tests.conformance.speaking import MERGE, Api


@dataclass(frozen=True, kw_only=True)
class Case:
    """A request and what a user who may do nothing is told: ``{ns}`` stands for the namespace."""

    method: str = "GET"
    path: str
    forbidden: str
    cannot: str
    details: dict[str, str]


CMS = "/api/v1/namespaces/{ns}/configmaps"
IN_NAMESPACE = 'in API group "" in the namespace "{ns}"'
KIND = {"kind": "configmaps"}
NAMED = {"name": "x", "kind": "configmaps"}
CASES = [
    Case(path=CMS, forbidden="configmaps is", cannot=f'list resource "configmaps" {IN_NAMESPACE}', details=KIND),
    Case(path=CMS + "?watch=1", forbidden="configmaps is", cannot=f'watch resource "configmaps" {IN_NAMESPACE}',
         details=KIND),
    Case(path=CMS + "?fieldSelector=metadata.name%3Dx", forbidden='configmaps "x" is',
         cannot=f'list resource "configmaps" {IN_NAMESPACE}', details=NAMED),
    Case(path=CMS + "/x", forbidden='configmaps "x" is', cannot=f'get resource "configmaps" {IN_NAMESPACE}',
         details=NAMED),
    Case(path=CMS + "/x?watch=1", forbidden='configmaps "x" is', cannot=f'get resource "configmaps" {IN_NAMESPACE}',
         details=NAMED),
    Case(method="POST", path=CMS, forbidden="configmaps is", cannot=f'create resource "configmaps" {IN_NAMESPACE}',
         details=KIND),
    Case(method="PUT", path=CMS + "/x", forbidden='configmaps "x" is',
         cannot=f'update resource "configmaps" {IN_NAMESPACE}', details=NAMED),
    Case(method="PATCH", path=CMS + "/x", forbidden='configmaps "x" is',
         cannot=f'patch resource "configmaps" {IN_NAMESPACE}', details=NAMED),
    Case(method="DELETE", path=CMS + "/x", forbidden='configmaps "x" is',
         cannot=f'delete resource "configmaps" {IN_NAMESPACE}', details=NAMED),
    Case(method="DELETE", path=CMS, forbidden="configmaps is",
         cannot=f'deletecollection resource "configmaps" {IN_NAMESPACE}', details=KIND),
    Case(path="/api/v1/nodes", forbidden="nodes is", cannot='list resource "nodes" in API group "" at the cluster scope',
         details={"kind": "nodes"}),
    Case(method="PATCH", path="/api/v1/nodes/x/status", forbidden='nodes "x" is',
         cannot='patch resource "nodes/status" in API group "" at the cluster scope',
         details={"name": "x", "kind": "nodes"}),
    Case(path="/apis/apps/v1/namespaces/{ns}/deployments/x", forbidden='deployments.apps "x" is',
         cannot='get resource "deployments" in API group "apps" in the namespace "{ns}"',
         details={"name": "x", "group": "apps", "kind": "deployments"}),
    Case(path="/api/v1/namespaces/{ns}/pods/x/exec?command=ls", forbidden='pods "x" is',
         cannot=f'get resource "pods/exec" {IN_NAMESPACE}', details={"name": "x", "kind": "pods"}),
    Case(path="/api/v1/nonsense", forbidden="nonsense is",
         cannot='list resource "nonsense" in API group "" at the cluster scope', details={"kind": "nonsense"}),
    Case(path="/nonsense", forbidden="", cannot='get path "/nonsense"', details={}),
]  # fmt: skip
IDS = [f"{case.method} {case.path}" for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=IDS)
async def test_who_may_not_is_told_what_he_may_not(backend: Backend, kube: Api, case: Case) -> None:
    """A 403 names user, verb, resource, group and scope; its details name the object."""
    token = await backend.stranger(kube.namespace, "default")
    answer = await kube.ask(case.method, case.path.format(ns=kube.namespace), token=token, content_type=MERGE)
    assert answer.code_and_reason == (403, "Forbidden")
    user = f"system:serviceaccount:{kube.namespace}:default"
    cannot = case.cannot.format(ns=kube.namespace)
    assert answer.message == f'{case.forbidden} forbidden: User "{user}" cannot {cannot}'.lstrip()
    assert answer.json["details"] == case.details


@pytest.mark.parametrize("path", ["/api/v1/nodes", "/version", "/apis"])
async def test_an_unknown_token_is_unauthorized(kube: Api, path: str) -> None:
    """A token that nobody knows is a 401, also where none would do."""
    answer = await kube.get(path, token="unknown")
    assert answer.status == 401
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }


async def test_without_a_token_one_is_anonymous(kube: Api) -> None:
    """A request without credentials is one of ``system:anonymous``, who may not see objects."""
    for headers in ({}, {"Authorization": "Basic eA=="}):
        answer = await kube.get(kube.path("configmaps"), token="", headers=headers)
        assert answer.code_and_reason == (403, "Forbidden")
        assert answer.message == (
            'configmaps is forbidden: User "system:anonymous" cannot list resource "configmaps" in API group "" in the '
            f'namespace "{kube.namespace}"'
        )


async def test_permissions_come_before_existence(backend: Backend, kube: Api) -> None:
    """Who may not is not told whether there is something."""
    token = await backend.stranger(kube.namespace, "default")
    await kube.config_map("there")
    there = await kube.get(kube.path("configmaps", "there"), token=token)
    absent = await kube.get(kube.path("configmaps", "absent"), token=token)
    assert (there.status, absent.status) == (403, 403)
    assert (await kube.get(kube.path("configmaps", "there"))).status == 200
