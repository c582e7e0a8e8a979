"""The embedded cluster as a test or a demo uses it: objects at hand, tokens, a kubeconfig, its beginning and its end."""

from __future__ import annotations

import asyncio
import contextlib
import stat
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from nicrails_faker.api import (
    DEFAULT_RESOURCES,
    EmbeddedCluster,
    Fault,
    Hang,
    RequestInfo,
    Resource,
    SelectorError,
    Stall,
    StatusError,
    serve,
)
from tests.conformance.speaking import MERGE, PARTIAL, Api, pod
from tests.support.endpoint import ApiEndpoint
from tests.support.waiting import eventually

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def test_what_is_made_in_process_is_seen_over_http_and_the_other_way(cluster: EmbeddedCluster, kube: Api) -> None:
    """In-process calls and requests work on the same objects."""
    made = cluster.create("v1", "configmaps", {"metadata": {"name": "a"}, "data": {"x": "1"}})
    assert (await kube.get(f"{CONFIG_MAPS}/a")).json == made
    answer = await kube.merge(f"{CONFIG_MAPS}/a", {"data": {"x": "2"}})
    assert cluster.get("v1", "configmaps", "a") == answer.json
    cluster.delete("v1", "configmaps", "a")
    assert (await kube.get(f"{CONFIG_MAPS}/a")).status == 404


async def test_objects_are_copies(cluster: EmbeddedCluster) -> None:
    """What goes in and what comes out can be changed without changing what is stored."""
    document: dict[str, Any] = {"metadata": {"name": "a", "labels": {"l": "1"}}, "data": {"x": "1"}}
    made = cluster.create("v1", "configmaps", document)
    for mine in (document, made, cluster.get("v1", "configmaps", "a"), *cluster.list("v1", "configmaps")):
        mine["data"]["x"] = "changed"
        mine["metadata"]["labels"]["l"] = "changed"
    stored = cluster.get("v1", "configmaps", "a")
    assert (stored["data"], stored["metadata"]["labels"]) == ({"x": "1"}, {"l": "1"})


async def test_a_status_is_kept_in_process(cluster: EmbeddedCluster) -> None:
    """A pod can be made running in one step, and updated with its status in one step."""
    cluster.create("v1", "nodes", {"metadata": {"name": "n"}})
    made = cluster.create("v1", "pods", {**pod("a", nodeName="n"), "status": {"phase": "Running"}})
    assert made["status"]["phase"] == "Running"
    made["status"]["phase"] = "Failed"
    made["metadata"]["labels"] = {"l": "1"}
    updated = cluster.update("v1", "pods", made)
    assert (updated["status"]["phase"], updated["metadata"]["labels"]) == ("Failed", {"l": "1"})
    patched = cluster.patch("v1", "pods", "a", {"status": {"phase": "Unknown"}}, subresource="status")
    assert patched["status"]["phase"] == "Unknown"


async def test_lists_are_ordered_and_selected(cluster: EmbeddedCluster) -> None:
    """``list`` takes a namespace and a label selector."""
    cluster.create("v1", "namespaces", {"metadata": {"name": "other"}})
    for namespace, name, label in (("other", "c", "x"), ("default", "b", "x"), ("default", "a", "y")):
        cluster.create("v1", "configmaps", {"metadata": {"name": name, "labels": {"l": label}}}, namespace=namespace)

    def names(**selection: str) -> list[str]:
        return [found["metadata"]["name"] for found in cluster.list("v1", "configmaps", **selection)]

    assert names() == ["a", "b", "c"]
    assert names(namespace="default") == ["a", "b"]
    assert names(label_selector="l=x") == ["b", "c"]
    with pytest.raises(SelectorError):
        names(label_selector="a b")


async def test_refusals_are_exceptions_in_process(cluster: EmbeddedCluster) -> None:
    """In-process calls are refused as requests are, by an exception with the Status."""
    with pytest.raises(StatusError) as missing:
        cluster.get("v1", "configmaps", "a")
    assert (missing.value.code, missing.value.reason) == (404, "NotFound")
    with pytest.raises(StatusError) as nowhere:
        cluster.create("v1", "configmaps", {"metadata": {"name": "a"}}, namespace="nowhere")
    assert str(nowhere.value) == 'namespaces "nowhere" not found'
    with pytest.raises(KeyError, match="no resource 'secrets' in 'v1'; it has namespaces, nodes"):
        cluster.get("v1", "secrets", "a")


async def test_a_seed_makes_runs_alike() -> None:
    """Two clusters of one seed give the same UIDs and names; without a seed they differ."""

    def identity(seed: int | None) -> tuple[str, str]:
        made = EmbeddedCluster(seed=seed).create("v1", "configmaps", {"metadata": {"generateName": "a-"}})
        return made["metadata"]["uid"], made["metadata"]["name"]

    assert identity(1) == identity(1)
    assert identity(1) != identity(2)
    assert identity(None) != identity(None)


async def test_resources_can_be_added() -> None:
    """A custom resource is served as the built-in ones are, with its status and all its fields."""
    rails = Resource(
        group="example.com", version="v1alpha1", plural="rails", kind="Rail", namespaced=False, status=True
    )
    async with EmbeddedCluster(resources=(*DEFAULT_RESOURCES, rails)) as cluster:
        cluster.create("example.com/v1alpha1", "rails", {"metadata": {"name": "a"}, "spec": {"deep": [{"x": 1}]}})
        async with Api.on(ApiEndpoint(url=cluster.url)) as kube:
            path = "/apis/example.com/v1alpha1/rails/a"
            read = (await kube.get(path)).json
            assert (read["kind"], read["spec"]) == ("Rail", {"deep": [{"x": 1}]})
            answer = await kube.merge(f"{path}/status", {"status": {"ready": True}, "spec": None})
            assert (answer.json["status"], answer.json["spec"]) == ({"ready": True}, {"deep": [{"x": 1}]})
            groups = (await kube.get("/apis")).json["groups"]
            assert {group["name"] for group in groups} == {"apps", "example.com"}


async def test_tokens_let_in_and_permissions_refuse(cluster: EmbeddedCluster, kube: Api) -> None:
    """Who has a token is asked about by name; a refusal is the hook's sentence or the server's own."""
    cluster.tokens = {"one": "first", "two": "second"}
    asked: list[RequestInfo] = []

    def authorize(request: RequestInfo) -> str | None:
        asked.append(request)
        return {"first": None, "second": "not today"}[request.user]

    cluster.authorize = authorize
    assert (await kube.get(CONFIG_MAPS, token="one")).status == 200
    answer = await kube.get(f"{CONFIG_MAPS}/a", token="two")
    assert (answer.status, answer.message) == (403, 'configmaps "a" is forbidden: not today')
    assert (await kube.get("/livez", token="")).status == 200
    assert [(found.user, found.verb, found.namespace, found.resource, found.name) for found in asked] == [
        ("first", "list", "default", "configmaps", ""),
        ("second", "get", "default", "configmaps", "a"),
    ]
    cluster.tokens = None
    cluster.authorize = None
    assert (await kube.get(CONFIG_MAPS, token="")).status == 200


async def test_the_log_counts_bytes(cluster: EmbeddedCluster, kube: Api) -> None:
    """Every request is logged with its line, its status, and the bytes of both bodies."""
    cluster.create("v1", "configmaps", {"metadata": {"name": "a"}, "data": {"x": "y" * 100_000}})
    cluster.requests.clear()
    answer = await kube.merge(f"{CONFIG_MAPS}/a", {"data": {"x": "z"}}, accept=PARTIAL)
    await kube.get(f"{CONFIG_MAPS}/b", query={"pretty": "1"})
    patch, get = cluster.requests
    assert (patch.method, patch.verb, patch.path, patch.status) == ("PATCH", "patch", f"{CONFIG_MAPS}/a", 200)
    assert (patch.request_bytes, patch.response_bytes) == (len('{"data": {"x": "z"}}'), len(answer.body))
    assert patch.headers["Content-Type"] == MERGE
    assert (get.status, get.query, get.finished) == (404, {"pretty": "1"}, True)
    assert cluster.requests.select(verb="get") == [get]
    assert cluster.requests.select(path=f"{CONFIG_MAPS}/a", method="PATCH") == [patch]


async def test_the_log_does_not_grow_for_ever() -> None:
    """Only the latest requests are kept; their number is known."""
    async with EmbeddedCluster(log_size=3) as cluster, Api.on(ApiEndpoint(url=cluster.url)) as kube:
        for number in range(5):
            await kube.get(f"/livez?n={number}")
        assert [request.query["n"] for request in cluster.requests] == ["2", "3", "4"]
        assert (len(cluster.requests), cluster.requests.total) == (3, 5)


async def test_a_watch_is_logged_while_it_runs(cluster: EmbeddedCluster, kube: Api) -> None:
    """A watch is in the log as soon as it is open, counts its bytes, and is finished when the client has gone."""
    async with kube.watch("/api/v1/nodes", resourceVersion=str(cluster.revision)) as watch:
        (logged,) = cluster.requests.select(verb="watch")
        assert (logged.status, logged.finished, logged.response_bytes) == (200, False, 0)
        cluster.create("v1", "nodes", {"metadata": {"name": "n"}})
        await watch.next()
        assert logged.response_bytes > 100
    await eventually(lambda: logged.finished, within=5, what="the watch is over")


async def test_the_window_of_events_is_bounded() -> None:
    """A watch from before the window is told so; one within it is served; the cluster keeps no more events."""
    async with EmbeddedCluster(window=10) as cluster, Api.on(ApiEndpoint(url=cluster.url)) as kube:
        start = cluster.revision
        for number in range(11):
            cluster.create("v1", "nodes", {"metadata": {"name": f"n{number}"}})
        async with kube.watch("/api/v1/nodes", resourceVersion=str(start)) as watch:
            assert (await watch.next()).object["code"] == 410
        async with kube.watch("/api/v1/nodes", resourceVersion=str(start + 1)) as watch:
            assert [name for _, name in await watch.types_and_names(10)] == [f"n{number}" for number in range(1, 11)]


async def test_a_compaction_does_not_end_open_watches(cluster: EmbeddedCluster, kube: Api) -> None:
    """``compact`` turns away who comes with an old version, and leaves alone who is there."""
    start = str(cluster.revision)
    async with kube.watch("/api/v1/nodes", resourceVersion=start) as watch:
        cluster.create("v1", "configmaps", {"metadata": {"name": "elsewhere"}})
        cluster.compact()
        cluster.create("v1", "nodes", {"metadata": {"name": "n"}})
        assert await watch.types_and_names(1) == [("ADDED", "n")]
    async with kube.watch("/api/v1/nodes", resourceVersion=start) as watch:
        assert (await watch.next()).object["code"] == 410


async def test_bookmarks_come_as_often_as_is_set(cluster: EmbeddedCluster, kube: Api) -> None:
    """``bookmark_interval`` sets the pace of bookmarks, which show the version of the whole store."""
    cluster.bookmark_interval = 0.05
    async with kube.watch("/api/v1/nodes", resourceVersion=cluster.revision, allowWatchBookmarks="true") as watch:
        cluster.create("v1", "configmaps", {"metadata": {"name": "elsewhere"}})
        while (event := await watch.next()).revision != cluster.revision:
            assert event.type == "BOOKMARK"


async def test_a_kubeconfig_leads_to_the_cluster(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """The written file is a kubeconfig for the plain HTTP address, and its owner's alone."""
    path = cluster.kubeconfig(tmp_path / "kubeconfig", token='a "quoted" token')
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    document = yaml.safe_load(path.read_text())
    assert document["clusters"][0]["cluster"]["server"] == cluster.url
    assert document["users"][0]["user"] == {"token": 'a "quoted" token'}
    assert document["current-context"] == document["contexts"][0]["name"]
    assert yaml.safe_load(cluster.kubeconfig(tmp_path / "open").read_text())["users"][0]["user"] == {}


async def test_it_closes_at_once_with_open_streams(tmp_path: Path) -> None:
    """Watches, a stalled watch, a hanging request and an exec do not hold up the end by a second."""
    loop = asyncio.get_running_loop()
    async with aiohttp.ClientSession() as session, contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(EmbeddedCluster())
        cluster.faults.add(Fault(action=Stall(), verb="watch"))
        cluster.faults.add(Fault(action=Hang(), path="/livez"))
        watches = [await session.get(f"{cluster.url}/api/v1/nodes?watch=1") for _ in range(20)]
        hanging = asyncio.create_task(_get(session, f"{cluster.url}/livez"))
        await eventually(lambda: cluster.requests.select(path="/livez"), within=5, what="the request hangs")
        begun = loop.time()
        await stack.aclose()
        assert loop.time() - begun < 1
        with pytest.raises(aiohttp.ClientError):
            await hanging
        for watch in watches:
            watch.close()


async def _get(session: aiohttp.ClientSession, url: str) -> int:
    async with session.get(url) as response:
        return response.status


async def test_an_outage_ends_where_it_began(cluster: EmbeddedCluster, kube: Api) -> None:
    """Within an outage connections are refused and watches are over; afterwards the objects are there as before."""
    made = cluster.create("v1", "nodes", {"metadata": {"name": "n"}})
    url = cluster.url
    async with kube.watch("/api/v1/nodes", resourceVersion=cluster.revision) as watch:
        async with cluster.outage():
            assert await watch.rest(within=5) == []
            with pytest.raises(aiohttp.ClientConnectorError):
                await kube.get("/api/v1/nodes/n")
    assert cluster.url == url
    assert (await kube.get("/api/v1/nodes/n")).json == made
    async with kube.watch("/api/v1/nodes", resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        cluster.delete("v1", "nodes", "n")
        assert await watch.types_and_names(1) == [("DELETED", "n")]


async def test_a_port_that_is_taken_is_an_error(cluster: EmbeddedCluster) -> None:
    """A second server on the port is refused, and leaves nothing behind."""
    port = int(cluster.url.rpartition(":")[2])
    with pytest.raises(OSError, match="in use"):
        async with EmbeddedCluster(port=port):
            pytest.fail("two servers on one port")


async def test_it_runs_by_itself(tmp_path: Path) -> None:
    """``serve`` writes a kubeconfig, tells where it listens, and runs until it is cancelled."""
    found: list[EmbeddedCluster] = []
    task = asyncio.create_task(serve(kubeconfig=tmp_path / "kubeconfig", started=found.append))
    await eventually(lambda: found, within=5, what="the server listens")
    async with Api.on(ApiEndpoint(url=found[0].url)) as kube:
        assert (await kube.get("/readyz")).body == b"ok"
    assert found[0].url in (tmp_path / "kubeconfig").read_text()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
