"""Many objects, many clients, and whatever somebody may send."""

from __future__ import annotations

import asyncio
import copy
import random
from typing import Any

import pytest

from nicrails_faker.api import EmbeddedCluster
from tests.conformance.speaking import JSON_PATCH, MERGE, PARTIAL, STRATEGIC, Api, pod, workload
from tests.support.waiting import eventually

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def test_a_thousand_nodes_and_hundreds_of_clients(cluster: EmbeddedCluster, kube: Api) -> None:
    """1,000 Nodes are listed in pages while 300 watches see every change and 300 publishers publish."""
    for number in range(1000):
        cluster.create("v1", "nodes", {"metadata": {"name": f"n{number:04}"}})
    cluster.create("v1", "configmaps", {"metadata": {"name": "a"}, "data": {}})
    start = str(cluster.revision)

    async def follow() -> int:
        async with kube.watch("/api/v1/nodes", resourceVersion=start, allowWatchBookmarks="true") as watch:
            return len([await watch.next(within=30) for _ in range(10)])

    async def publish(number: int) -> int:
        return (await kube.merge(f"{CONFIG_MAPS}/a", {"data": {f"n{number:04}": "x" * 100}}, accept=PARTIAL)).status

    async with asyncio.TaskGroup() as group:
        followers = [group.create_task(follow()) for _ in range(300)]
        publishers = [group.create_task(publish(number)) for number in range(300)]
        names: list[str] = []
        token: dict[str, object] = {}
        while True:
            page = await kube.get("/api/v1/nodes", query={"limit": 250, **token})
            names += page.names
            if "continue" not in page.json["metadata"]:
                break
            token = {"continue": page.json["metadata"]["continue"]}
        for number in range(10):
            cluster.patch("v1", "nodes", f"n{number:04}", {"metadata": {"labels": {"l": "1"}}})
    assert names == [f"n{number:04}" for number in range(1000)]
    assert {follower.result() for follower in followers} == {10}
    assert {publisher.result() for publisher in publishers} == {200}
    assert len(cluster.get("v1", "configmaps", "a")["data"]) == 300
    await eventually(
        lambda: all(request.finished for request in cluster.requests), within=10, what="no watch is left behind"
    )


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"metadata":{"name":"a"},"spec":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001,
        b'{"metadata":{"name":"a"},"spec":{"n":' + b"9" * 400 + b"}}",
        b'{"metadata":{"name":"a"},"status":' + b"[" * 300 + b"]" * 300 + b"}",
        b"\x00\xff\xfe",
        b'{"metadata":{"name":"a"},"spec":NaN}',
    ],
    ids=["brackets", "deep object", "long number", "deep list", "binary", "NaN"],
)
async def test_hostile_bodies_are_refused_or_taken_but_never_a_fault(kube: Api, body: bytes) -> None:
    """No body makes the server stumble: the answer is JSON, and the server goes on."""
    answer = await kube.ask("POST", "/api/v1/nodes", body)
    assert answer.status in {201, 400}
    assert answer.json["kind"] in {"Node", "Status"}
    assert (await kube.get("/api/v1/nodes")).status == 200


async def test_random_requests_are_answered_with_what_an_api_server_says(cluster: EmbeddedCluster, kube: Api) -> None:
    """1,500 random requests, seeded: every answer is an object, a list or a Status, or plain text of a 404 or of health."""
    generator = random.Random(1)
    pieces = ["api", "apis", "v1", "apps", "namespaces", "default", "nodes", "pods", "configmaps", "deployments", "a", "x",
              "status", "exec", "", "%2F", "%00", "..", "ä", "readyz"]  # fmt: skip
    values: list[Any] = [
        None,
        True,
        0,
        -1,
        1.5,
        10**30,
        "",
        "a",
        "default",
        [],
        [None],
        {},
        {"a": None},
        {"name": "a"},
        [{"name": "a"}],
    ]
    fields = ["metadata", "spec", "status", "data", "name", "labels", "finalizers", "ownerReferences", "managedFields",
              "template", "containers", "selector", "op", "path", "value", "$patch", "apiVersion", "kind"]  # fmt: skip
    options = ["watch=1&timeoutSeconds=1", "limit=1", "continue=e30", "resourceVersion=5", "labelSelector=a%3D", "dryRun=All",
               "fieldSelector=,=", "fieldManager=%00", "gracePeriodSeconds=x", "resourceVersionMatch=Exact"]  # fmt: skip

    def document(depth: int) -> object:
        if depth == 0 or generator.random() < 0.3:
            return generator.choice(values)
        if generator.random() < 0.15:
            return [document(depth - 1) for _ in range(generator.randint(0, 3))]
        return {name: document(depth - 1) for name in generator.choices(fields, k=generator.randint(0, 4))}

    for name in ("configmaps", "pods"):
        cluster.create("v1", name, pod("a") if name == "pods" else {"metadata": {"name": "a"}, "data": {"x": "1"}})
    roots = ["", "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/pods", "/api/v1/nodes",
             "/apis/apps/v1/namespaces/default/deployments", "/api/v1/namespaces"]  # fmt: skip
    types = ["application/json", MERGE, JSON_PATCH, STRATEGIC, "text/plain", "application/apply-patch+yaml"]
    for _ in range(1500):
        path = generator.choice(roots) + "".join(
            f"/{piece}" for piece in generator.choices(pieces, k=generator.randint(0, 3))
        )
        query = "&".join(generator.sample(options, k=generator.choice([0, 0, 1, 2])))
        method = generator.choice(["GET", "POST", "PUT", "PATCH", "PATCH", "DELETE", "HEAD", "OPTIONS"])
        body = None if method in {"GET", "HEAD"} else document(4)
        answer = await kube.ask(
            method,
            f"{path or '/'}?{query}",
            body,
            content_type=generator.choice(types),
            accept=generator.choice(["application/json", PARTIAL, "*/*", "text/html"]),
        )
        plain = answer.headers.get("Content-Type", "").startswith("text/plain")
        where = f"{method} {path}?{query} {body!r}: {answer}"
        if method == "HEAD" or not answer.body:
            continue
        assert plain or answer.headers["Content-Type"] == "application/json", where
        assert not plain or (answer.status, answer.body) in {(404, b"404 page not found\n"), (200, b"ok")}, where
        assert plain or "watch" in query or "kind" in answer.json or path.endswith("version"), where
    assert (await kube.get("/api/v1/nodes")).status == 200


async def test_damaged_objects_are_taken_or_refused(cluster: EmbeddedCluster, kube: Api) -> None:
    """2,000 writes of valid objects of which something was replaced, removed or added, seeded: each is answered in JSON."""
    generator = random.Random(1)
    names = ["$patch", "x", "name", "labels", "status", "spec", "$setElementOrder/x", "$deleteFromPrimitiveList/finalizers",
             "managedFields", "generation", "deletionTimestamp"]  # fmt: skip
    values: list[Any] = [None, True, 0, -1, 1.5, 10**30, "", "a", [], [None], {}, {"a": None}, {"name": "a"}, [{"name": "a"}], [[]], [1],
              "delete", "2026-01-01T00:00:00Z", ["a.b/c"], [{"type": "Ready"}]]  # fmt: skip
    documents = {
        "/api/v1/namespaces/default/pods": pod("a", "c", initContainers=[{"name": "i", "image": "x"}]),
        "/apis/apps/v1/namespaces/default/deployments": workload("Deployment", "a"),
        "/apis/apps/v1/namespaces/default/daemonsets": workload("DaemonSet", "a"),
        CONFIG_MAPS: {
            "metadata": {
                "name": "a",
                "finalizers": ["a.b/c"],
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}],
                "managedFields": [
                    {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:data": {}}}
                ],
            },
            "data": {"x": "1"},
            "binaryData": {"y": "eA=="},
        },
        "/api/v1/namespaces/default/events": {"metadata": {"name": "a"}, "involvedObject": {"namespace": "default"}},
        "/api/v1/nodes": {
            "metadata": {"name": "a"},
            "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Ready"}], "daemonEndpoints": {"kubeletEndpoint": {"Port": 1}}},
        },
    }

    def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        return [path, *(place for key, item in inner for place in places(item, (*path, key)))]

    def damaged(document: dict[str, Any]) -> dict[str, Any]:
        result = copy.deepcopy(document)
        *way, last = generator.choice(places(result)[1:])
        container: Any = result
        for key in way:
            container = container[key]
        kind = generator.random()
        if kind < 0.2:
            container.pop(last)
        elif kind < 0.4 and isinstance(container, dict):
            container[generator.choice(names)] = copy.deepcopy(generator.choice(values))
        else:
            container[last] = copy.deepcopy(generator.choice(values))
        return result

    for _ in range(2000):
        collection = generator.choice(list(documents))
        document = documents[collection]
        place = f"{collection}/a{generator.choice(['', '', '/status'])}"
        paths = ["/" + "/".join(map(str, path)) for path in places(document)]
        operations = [
            {
                "op": generator.choice(["add", "remove", "replace", "move", "copy", "test"]),
                "path": generator.choice(paths),
                "from": generator.choice(paths),
                "value": generator.choice(values),
            }
            for _ in range(3)
        ]
        policy: dict[str, Any] = {
            "propagationPolicy": generator.choice(["Background", "Foreground", "Orphan"]),
            "gracePeriodSeconds": 0,
        }
        write = generator.choice(
            [
                ("POST", collection, damaged(document), "application/json"),
                ("POST", collection, damaged(document), "application/json"),
                ("PUT", place, damaged(document), "application/json"),
                ("PATCH", place, damaged(document), MERGE),
                ("PATCH", place, damaged(document), STRATEGIC),
                ("PATCH", place, operations, JSON_PATCH),
                ("DELETE", f"{collection}/a", policy, "application/json"),
            ]
        )
        method, path, body, content_type = write
        answer = await kube.ask(method, path, body, content_type=content_type)
        assert answer.headers["Content-Type"] == "application/json", f"{write}: {answer}"
        assert answer.json["apiVersion"]
