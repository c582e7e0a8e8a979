"""What the server says to who goes on from a version that it no longer knows.

A real server forgets when it restarts (watches) and when etcd is compacted (lists), so it has a control plane of its own.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from nicrails_faker.api import EmbeddedCluster
from tests.cluster import programs
from tests.cluster.controlplane import ControlPlane
from tests.conformance.speaking import PARTIAL, Api
from tests.support.endpoint import ApiEndpoint
from tests.support.needs import require
from tests.support.waiting import eventually_sync

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A server that has forgotten.

    Attributes:
        endpoint: The server.
        revision: A version that it has forgotten.
        token: The continue token of a list of that version, after the ConfigMaps ``a`` and ``b``.
    """

    endpoint: ApiEndpoint
    revision: str
    token: str


@pytest.fixture(scope="module")
def forgetful_plane() -> Iterator[Past]:
    """A real control plane that compacts every second, restarted since."""
    require("control-plane")
    compacting = ["--etcd-compaction-interval=1s"]
    with ControlPlane.running(programs.find(), api_server_args=compacting, controllers=()) as plane:
        for name in "abcde":
            plane.request("POST", CONFIG_MAPS, {"metadata": {"name": name}})
        first = plane.request("GET", f"{CONFIG_MAPS}?limit=2")
        exact = f"{CONFIG_MAPS}?resourceVersion={first['metadata']['resourceVersion']}&resourceVersionMatch=Exact"
        # The compactor compacts up to where it was a round before; each round needs a change to see.
        for number in range(4):
            plane.request("PUT", f"{CONFIG_MAPS}/e", {"metadata": {"name": "e"}, "data": {"x": str(number)}})
            time.sleep(1.1)
        plane.stop_api_server()
        plane.start_api_server()

        def forgotten() -> bool:
            try:
                plane.request("GET", exact)
            except RuntimeError as error:
                return " 410 " in str(error)
            return False

        eventually_sync(forgotten, within=30, what="the old version is compacted", interval=0.5)
        yield Past(
            endpoint=plane.endpoint,
            revision=first["metadata"]["resourceVersion"],
            token=first["metadata"]["continue"],
        )


@pytest_asyncio.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.needs("control-plane"))])
async def past(request: pytest.FixtureRequest) -> AsyncIterator[Past]:
    """One of the two servers, having forgotten."""
    if request.param == "real":
        yield request.getfixturevalue("forgetful_plane")
        return
    async with EmbeddedCluster() as cluster:
        endpoint = ApiEndpoint(url=cluster.url)
        async with Api.on(endpoint) as kube:
            for name in "abcde":
                await kube.config_map(name)
            first = await kube.get(CONFIG_MAPS, query={"limit": 2})
            await kube.merge(f"{CONFIG_MAPS}/e", {"data": {"x": "1"}})
            cluster.compact()
        yield Past(endpoint=endpoint, revision=first.revision, token=first.json["metadata"]["continue"])


@pytest_asyncio.fixture
async def kube(past: Past) -> AsyncIterator[Api]:
    """An administrator's client in the namespace ``default``."""
    async with Api.on(past.endpoint) as made:
        yield made


@pytest.mark.parametrize("accept", ["application/json", PARTIAL], ids=["whole", "metadata"])
@pytest.mark.parametrize("path", [CONFIG_MAPS, "/api/v1/nodes"])
async def test_a_watch_from_a_forgotten_version_is_an_error_event(
    kube: Api, past: Past, path: str, accept: str
) -> None:
    """The watch is a 200 with one ERROR event: code 410, reason Expired, and then the end."""
    async with kube.watch(path, accept=accept, resourceVersion=past.revision) as watch:
        (event,) = await watch.rest(within=5)
    assert event.type == "ERROR"
    message = event.object.pop("message")
    assert message.startswith(f"too old resource version: {past.revision} (")
    assert event.object == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "reason": "Expired",
        "code": 410,
    }


async def test_a_page_of_a_forgotten_version_is_gone(kube: Api, past: Past) -> None:
    """An old continue token is a 410 with a token that goes on from the same place, now."""
    answer = await kube.get(CONFIG_MAPS, query={"limit": 2, "continue": past.token})
    assert answer.code_and_reason == (410, "Expired")
    assert answer.message.startswith("The provided continue parameter is too old to display a consistent list result. ")
    token = answer.json["metadata"]["continue"]
    decoded = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    assert decoded == {"v": "meta.k8s.io/v1", "rv": -1, "start": "b\0"}
    resumed = await kube.get(CONFIG_MAPS, query={"limit": 2, "continue": token})
    assert (resumed.status, resumed.names) == (200, ["c", "d"])
    assert int(resumed.revision) > int(past.revision)


async def test_a_list_as_it_was_long_ago_is_gone(kube: Api, past: Past) -> None:
    """A list of exactly a forgotten version is a 410; one not older than it is served."""
    for query in ({"resourceVersionMatch": "Exact"}, {"limit": "2"}):
        answer = await kube.get(CONFIG_MAPS, query={"resourceVersion": past.revision, **query})
        assert answer.code_and_reason == (410, "Expired")
        assert answer.message == "The resourceVersion for the provided list is too old."
    assert (await kube.get(CONFIG_MAPS, query={"resourceVersion": past.revision})).status == 200


async def test_initial_events_do_not_need_the_past(kube: Api, past: Past) -> None:
    """``sendInitialEvents`` from a forgotten version begins with the current objects."""
    query = {
        "resourceVersion": past.revision,
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    async with kube.watch(CONFIG_MAPS, **query) as watch:
        async with asyncio.timeout(10):
            names = []
            while (event := await watch.next()).type != "BOOKMARK":
                names.append(event.name)
    assert [name for name in names if len(name) == 1] == list("abcde")


async def test_a_watch_of_now_goes_on(kube: Api) -> None:
    """A list and a watch from its version work as ever."""
    start = (await kube.get(CONFIG_MAPS)).revision
    async with kube.watch(CONFIG_MAPS, resourceVersion=start) as watch:
        answer = await kube.merge(f"{CONFIG_MAPS}/e", {"data": {"now": start}})
        event = await watch.next()
        assert (event.type, event.object) == ("MODIFIED", answer.json)
