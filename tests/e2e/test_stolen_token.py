"""A broker's token, taken from a running pod, in the hands of somebody else."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from urllib.parse import quote, urlencode

import pytest
import pytest_asyncio

from tests.e2e.site import CONFIG_MAP, NAMESPACE, OPERATOR, Bearer, Site
from tests.support.waiting import eventually

RECORDS = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIG_MAP}"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
ALLOWED = ["nvidia-smi", "topo", "-m"]


async def token_of(site: Site, node: str) -> str:
    """The token that the broker on a Node has at this moment."""
    return site.run_in(await site.broker(node), "cat", TOKEN).strip()


@pytest_asyncio.fixture
async def thief(hardened: Site) -> AsyncIterator[Bearer]:
    """Whoever stole the token of the broker on node1, with the policies in force."""
    async with hardened.as_bearer(await token_of(hardened, "node1")) as bearer:

        async def enforced() -> bool:
            # A policy is in force some moments after it was made.
            status, message = await bearer.ask("PATCH", RECORDS + "?dryRun=All", {"data": {"x": "y"}}, MERGE_PATCH)
            assert status == 403, message
            return True

        await eventually(enforced, within=30, what="the policies are in force")
        yield bearer


def exec_path(pod: str, command: list[str], namespace: str = OPERATOR) -> str:
    """The path that runs a command in a pod."""
    query = urlencode([("command", word) for word in command] + [("stdout", "true")], quote_via=quote)
    return f"/api/v1/namespaces/{namespace}/pods/{pod}/exec?{query}"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (MERGE_PATCH, {"data": {"node2": "{}"}}),
        (MERGE_PATCH, {"data": {"node2": None}}),
        (MERGE_PATCH, {"data": {"no-such-node": "{}"}}),
        (MERGE_PATCH, {"data": None}),
        (JSON_PATCH, [{"op": "remove", "path": "/data/node2"}]),
        (JSON_PATCH, [{"op": "move", "from": "/data/node2", "path": "/data/node1"}]),
        (MERGE_PATCH, {"data": {"node1": "{}", "node2": "{}"}}),
    ],
    ids=["change", "remove", "add", "remove-all", "json-remove", "json-move", "among-others"],
)
async def test_other_keys_are_out_of_reach(hardened: Site, thief: Bearer, kind: str, body: object) -> None:
    """A key that is not the own Node's can neither be changed nor removed nor added, and the denial says why."""
    before = await hardened.records()
    status, message = await thief.ask("PATCH", RECORDS, body, kind)
    assert status == 403, message
    assert "the broker on Node node1 may change only the key of that Node" in message
    assert (await hardened.records())["node2"] == before["node2"]


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"labels": {"mine": "yes"}}},
        {"metadata": {"ownerReferences": None}},
        {"metadata": {"finalizers": ["example.com/mine"]}},
        {"binaryData": {"other": "e30="}},
        {"immutable": True},
    ],
    ids=["labels", "owners", "finalizers", "binary-data", "immutable"],
)
async def test_the_rest_of_the_config_map_is_out_of_reach(hardened: Site, thief: Bearer, body: object) -> None:
    """Nothing of the ConfigMap but the own key can be changed."""
    status, message = await thief.ask("PATCH", RECORDS, body, MERGE_PATCH)
    assert status == 403, message
    assert "may change only the key" in message
    await hardened.stand()


async def test_the_own_key_is_in_reach(hardened: Site, thief: Bearer) -> None:
    """What the broker itself does is allowed, so the denials above are not for another reason."""
    record = (await hardened.records())["node1"]
    status, message = await thief.ask("PATCH", RECORDS, {"data": {"node1": record}}, MERGE_PATCH)
    assert status == 200, message


@pytest.mark.parametrize(
    "command",
    [
        ["sh"],
        ["nvidia-smi"],
        ["nvidia-smi", "topo", "-m", "-i", "0"],
        ["sh", "-c", "nvidia-smi topo -m"],
        ["nvidia-smi", "-r"],
    ],
    ids=" ".join,
)
async def test_other_commands_are_out_of_reach(hardened: Site, thief: Bearer, command: list[str]) -> None:
    """Only the two commands of the contract can be run, even in the right pod."""
    pod = (await hardened.operator_pod("node1"))["metadata"]["name"]
    status, message = await thief.ask("GET", exec_path(pod, command))
    assert status == 403, message
    assert f'a broker may not run "{" ".join(command)}", only "nvidia-smi topo -m"' in message


async def test_the_contract_s_command_is_in_reach(hardened: Site, thief: Bearer) -> None:
    """The command of the contract passes the policies: what is then wrong is only that this is no WebSocket."""
    pod = (await hardened.operator_pod("node1"))["metadata"]["name"]
    status, message = await thief.ask("GET", exec_path(pod, ALLOWED))
    assert status == 400, message
    assert "pgrade" in message


async def test_other_pods_are_out_of_reach(hardened: Site, thief: Bearer) -> None:
    """Another pod of the GPU Operator's namespace is denied by name, whether it exists or not."""
    for pod in ("gpu-operator-controller", "nvidia-device-plugin-daemonset", "nvidia-driver-daemonset-abcde"):
        status, message = await thief.ask("GET", exec_path(pod, ALLOWED))
        assert status == 403, message
        assert "only in pods of DaemonSet gpu-operator/nvidia-device-plugin-daemonset" in message


async def test_other_namespaces_are_out_of_reach(hardened: Site, thief: Bearer) -> None:
    """No pod of another namespace can be entered; RBAC already says so."""
    (observer,) = await hardened.pods("observer")
    status, message = await thief.ask("GET", exec_path(observer["metadata"]["name"], ALLOWED, NAMESPACE))
    assert status == 403, message
    assert 'cannot get resource "pods/exec"' in message
    assert NAMESPACE in message


async def test_other_nodes_cannot_be_annotated(thief: Bearer) -> None:
    """With annotations on, the token annotates its own Node, no other one, and with nothing else."""
    mine = {"metadata": {"annotations": {"topograph.run/lldp-chassis-id": "mac:00:00:00:00:00:01"}}}
    status, message = await thief.ask("PATCH", "/api/v1/nodes/node1?dryRun=All", mine, MERGE_PATCH)
    assert status == 200, message
    status, message = await thief.ask("PATCH", "/api/v1/nodes/node2", mine, MERGE_PATCH)
    assert status == 403, message
    assert "the broker on Node node1 may annotate only that Node, not node2" in message
    status, message = await thief.ask(
        "PATCH", "/api/v1/nodes/node1", {"metadata": {"labels": {"mine": "yes"}}}, MERGE_PATCH
    )
    assert status == 403, message
    assert "may change nothing of it but the annotation" in message


async def test_helm_test_proves_the_denials(hardened: Site, thief: Bearer) -> None:
    """`helm test` tries the denials with a broker's own account and names each policy that it found in force."""
    said = hardened.test()
    for kind in ("record", "exec", "node"):
        assert f"policy nicrails-{kind}.{NAMESPACE}" in said


async def test_without_policies_it_can_do_what_the_docs_say(site: Site) -> None:
    """Without policies RBAC alone stops neither foreign keys nor other commands, as the documentation says."""
    before = (await site.records())["node2"]
    pod = (await site.operator_pod("node2"))["metadata"]["name"]
    async with site.as_bearer(await token_of(site, "node1")) as bearer:
        status, message = await bearer.ask(
            "PATCH", RECORDS, {"data": {"node2": json.dumps({"forged": True})}}, MERGE_PATCH
        )
        assert status == 200, message
        status, message = await bearer.ask("GET", exec_path(pod, ["sh"]))
        assert status == 400, message
        status, message = await bearer.ask("GET", "/api/v1/secrets")
        assert status == 403, message
    # The Node's own broker puts it right.
    await site.stand()
    assert (await site.records())["node2"] == before
