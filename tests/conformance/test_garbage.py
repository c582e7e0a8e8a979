"""Owner garbage collection."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.conformance.speaking import Api, object_of, reference, workload
from tests.support.waiting import eventually

APPS = "apis/apps/v1"
PROMPT = 20
"""Seconds; the collectors take a fraction of one, but a busy machine may not."""


async def owner(kube: Api, name: str) -> dict[str, Any]:
    """A Deployment that owns."""
    return await kube.create(kube.path("deployments", group=APPS), workload("Deployment", name))


async def gone(kube: Api, path: str) -> None:
    """Wait until an object is gone."""

    async def is_gone() -> bool:
        return (await kube.get(path)).status == 404

    await eventually(is_gone, within=PROMPT, what=f"{path} is gone")


async def test_dependents_of_a_deleted_owner_go(collected: Api) -> None:
    """When a Deployment is deleted, what it controls is deleted; what it does not own stays."""
    deployment = await owner(collected, "d")
    await collected.config_map("owned", ownerReferences=[reference(deployment, controller=True)])
    await collected.config_map("free")
    assert (await collected.delete(collected.path("deployments", "d", group=APPS))).json["status"] == "Success"
    await gone(collected, collected.path("configmaps", "owned"))
    assert (await collected.get(collected.path("configmaps", "free"))).status == 200


@pytest.mark.parametrize("controller", [True, False])
async def test_an_owner_that_never_was_is_gone(collected: Api, controller: bool) -> None:
    """An object whose owner's UID does not exist is deleted at once, also where the owner's name is there."""
    deployment = await owner(collected, "d")
    wrong = {**reference(deployment), "uid": "00000000-0000-4000-8000-000000000000"}
    await collected.config_map("a", ownerReferences=[{**wrong, "controller": True} if controller else wrong])
    await gone(collected, collected.path("configmaps", "a"))


async def test_a_reference_that_comes_later_counts_too(collected: Api) -> None:
    """A patch that names an owner that is not there is the end of the object."""
    await collected.config_map("a")
    wrong = {"apiVersion": "v1", "kind": "Node", "name": "no-such-node", "uid": "u"}
    path = collected.path("configmaps", "a")
    assert (await collected.merge(path, {"metadata": {"ownerReferences": [wrong]}})).status == 200
    await gone(collected, path)


async def test_one_owner_is_enough_to_stay(collected: Api) -> None:
    """Of several owners the gone ones are taken out of the list, and the object stays."""
    deployment = await owner(collected, "d")
    absent = {**reference(deployment), "name": "absent", "uid": "00000000-0000-4000-8000-000000000000"}
    await collected.config_map("a", ownerReferences=[reference(deployment), absent])
    path = collected.path("configmaps", "a")

    async def cleaned() -> bool:
        owners = (await collected.get(path)).json["metadata"]["ownerReferences"]
        return [found["uid"] for found in owners] == [deployment["metadata"]["uid"]]

    await eventually(cleaned, within=PROMPT, what="the reference to the absent owner is gone")
    await collected.delete(collected.path("deployments", "d", group=APPS))
    await gone(collected, path)


async def test_an_owner_of_an_unknown_kind_is_taken_to_be_there(collected: Api) -> None:
    """What can not be looked up is not garbage; a dependent that is collected meanwhile shows that time has passed."""
    unknown = {"apiVersion": "example.com/v1", "kind": "Unknown", "name": "x", "uid": "u"}
    await collected.config_map("kept", ownerReferences=[unknown])
    wrong = {"apiVersion": "v1", "kind": "Node", "name": "no-such-node", "uid": "u"}
    await collected.config_map("canary", ownerReferences=[wrong])
    await gone(collected, collected.path("configmaps", "canary"))
    assert (await collected.get(collected.path("configmaps", "kept"))).status == 200


async def test_a_node_is_not_owned_by_something_in_a_namespace(collected: Api) -> None:
    """A cluster-wide object can not have an owner in a namespace, so such a reference does not delete it."""
    name = collected.unique("node")
    wrong = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u"}
    document = object_of("Node", name)
    document["metadata"]["ownerReferences"] = [wrong]
    await collected.create("/api/v1/nodes", document)
    await collected.config_map("canary", ownerReferences=[{**wrong, "kind": "Node"}])
    await gone(collected, collected.path("configmaps", "canary"))
    assert (await collected.get(f"/api/v1/nodes/{name}")).status == 200
    await collected.delete(f"/api/v1/nodes/{name}")


async def test_orphans_stay_without_their_owner(collected: Api) -> None:
    """``Orphan`` holds the owner until its dependents have lost their references to it; they stay."""
    deployment = await owner(collected, "d")
    await collected.config_map("a", ownerReferences=[reference(deployment)])
    path = collected.path("deployments", "d", group=APPS)
    answer = await collected.delete(path, {"propagationPolicy": "Orphan"})
    assert (answer.json["kind"], answer.json["metadata"]["finalizers"]) == ("Deployment", ["orphan"])
    await gone(collected, path)
    left = await collected.get(collected.path("configmaps", "a"))
    assert left.status == 200
    assert "ownerReferences" not in left.json["metadata"]


@pytest.mark.parametrize("blocks", [True, False], ids=["blocking", "not blocking"])
async def test_foreground_deletion_waits_for_those_who_block(collected: Api, blocks: bool) -> None:
    """``Foreground`` deletes the dependents first, and waits for those with ``blockOwnerDeletion``."""
    deployment = await owner(collected, "d")
    more = {"blockOwnerDeletion": True} if blocks else {}
    await collected.config_map("a", ownerReferences=[reference(deployment, **more)], finalizers=["a.b/c"])
    dependent = collected.path("configmaps", "a")
    path = collected.path("deployments", "d", group=APPS)
    answer = await collected.delete(path, {"propagationPolicy": "Foreground"})
    assert answer.json["metadata"]["finalizers"] == ["foregroundDeletion"]

    async def marked() -> bool:
        return "deletionTimestamp" in (await collected.get(dependent)).json["metadata"]

    await eventually(marked, within=PROMPT, what="the dependent is being deleted")
    if blocks:
        assert (await collected.get(path)).status == 200
    else:
        await gone(collected, path)
    await collected.merge(dependent, {"metadata": {"finalizers": None}})
    await gone(collected, dependent)
    await gone(collected, path)


async def test_dependents_of_dependents_go(collected: Api) -> None:
    """Deletion goes down the chain of owners."""
    deployment = await owner(collected, "d")
    middle = await collected.config_map("middle", ownerReferences=[reference(deployment)])
    await collected.config_map("last", ownerReferences=[reference(middle)])
    await collected.delete(collected.path("deployments", "d", group=APPS))
    await asyncio.gather(
        gone(collected, collected.path("configmaps", "middle")), gone(collected, collected.path("configmaps", "last"))
    )
