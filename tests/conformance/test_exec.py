"""``pods/exec``: what the API server refuses before it turns to a kubelet."""

from __future__ import annotations

import base64

import aiohttp
import pytest

from tests.conformance.speaking import Api, object_of, pod

UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
    "Sec-WebSocket-Protocol": "v4.channel.k8s.io",
}
WAYS = pytest.mark.parametrize(
    ("method", "headers"),
    [("GET", {}), ("POST", {}), ("GET", UPGRADE)],
    ids=["GET", "POST", "WebSocket"],
)


def execute(kube: Api, name: str, container: str = "") -> str:
    """The path of an exec."""
    choice = f"&container={container}" if container else ""
    return f"{kube.path('pods', name)}/exec?command=ls&command=-l&stdout=true&stderr=true{choice}"


@WAYS
async def test_a_pod_that_is_not_there(kube: Api, method: str, headers: dict[str, str]) -> None:
    """Exec in a missing pod is a 404 about the pod."""
    answer = await kube.ask(method, execute(kube, "a"), headers=headers)
    assert answer.code_and_reason == (404, "NotFound")
    assert answer.message == 'pods "a" not found'
    assert answer.json["details"] == {"name": "a", "kind": "pods"}


@WAYS
async def test_a_pod_that_is_nowhere(kube: Api, method: str, headers: dict[str, str]) -> None:
    """Exec in a pod without Node is a 400."""
    await kube.create(kube.path("pods"), pod("a"))
    answer = await kube.ask(method, execute(kube, "a"), headers=headers)
    assert answer.code_and_reason == (400, "BadRequest")
    assert answer.message == "pod a does not have a host assigned"


@WAYS
async def test_a_node_that_is_not_there(kube: Api, method: str, headers: dict[str, str]) -> None:
    """Exec in a pod on a missing Node is a 404 that takes the Node's name for a pod's."""
    await kube.create(kube.path("pods"), pod("a", nodeName="no-such-node"))
    answer = await kube.ask(method, execute(kube, "a"), headers=headers)
    assert answer.code_and_reason == (404, "NotFound")
    assert answer.message == 'pods "no-such-node" not found'
    assert answer.json["details"] == {"name": "no-such-node", "kind": "pods"}
    await kube.delete(kube.path("pods", "a"), {"gracePeriodSeconds": 0})


@WAYS
async def test_a_container_that_is_not_named(kube: Api, method: str, headers: dict[str, str]) -> None:
    """Exec without a container in a pod of two is a 400 that lists all, those that run before them too."""
    first = [{"name": "first", "image": "example.invalid/image:1"}]
    await kube.create(kube.path("pods"), pod("a", "one", "two", nodeName="no-such-node", initContainers=first))
    answer = await kube.ask(method, execute(kube, "a"), headers=headers)
    assert answer.code_and_reason == (400, "BadRequest")
    assert answer.message == "a container name must be specified for pod a, choose one of: [first one two]"
    await kube.delete(kube.path("pods", "a"), {"gracePeriodSeconds": 0})


@WAYS
async def test_a_container_that_is_not_there(kube: Api, method: str, headers: dict[str, str]) -> None:
    """Exec in a container that the pod does not have is a 400."""
    await kube.create(kube.path("pods"), pod("a", nodeName="no-such-node"))
    answer = await kube.ask(method, execute(kube, "a", "other"), headers=headers)
    assert answer.code_and_reason == (400, "BadRequest")
    assert answer.message == "container other is not valid for pod a"
    await kube.delete(kube.path("pods", "a"), {"gracePeriodSeconds": 0})


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_without_an_upgrade_nothing_runs(kube: Api, method: str) -> None:
    """A plain request that could run is a 400 that asks for an upgrade."""
    name = kube.unique("node")
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 1}},
    }
    await kube.create("/api/v1/nodes", object_of("Node", name, status=status))
    await kube.create(kube.path("pods"), pod("a", nodeName=name))
    answer = await kube.ask(method, execute(kube, "a"))
    assert answer.code_and_reason == (400, "BadRequest")
    assert answer.message == "Upgrade request required"
    await kube.delete(kube.path("pods", "a"), {"gracePeriodSeconds": 0})
    await kube.delete(f"/api/v1/nodes/{name}")


async def test_a_kubelet_that_does_not_answer(kube: Api) -> None:
    """With nobody behind the Node a WebSocket is refused with a 500 that says so."""
    name = kube.unique("node")
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 1}},
    }
    await kube.create("/api/v1/nodes", object_of("Node", name, status=status))
    await kube.create(kube.path("pods"), pod("a", nodeName=name))
    answer = await kube.ask("GET", execute(kube, "a"), headers=UPGRADE)
    assert answer.code_and_reason == (500, None)
    assert answer.message.startswith("error dialing backend: ")
    with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
        async with kube.session.ws_connect(
            kube.endpoint.url + execute(kube, "a"), headers=kube.headers, protocols=["v4.channel.k8s.io"]
        ):
            pass
    assert refusal.value.status == 500
    await kube.delete(kube.path("pods", "a"), {"gracePeriodSeconds": 0})
    await kube.delete(f"/api/v1/nodes/{name}")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
async def test_other_methods_are_not_allowed(kube: Api, method: str) -> None:
    """Exec is a GET or a POST."""
    answer = await kube.ask(method, execute(kube, "a"))
    assert answer.code_and_reason == (405, "MethodNotAllowed")
