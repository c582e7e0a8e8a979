"""Raw HTTP with an API server, and the few words that the tests have for its answers."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import quote, urlencode

import aiohttp

from tests.support.endpoint import ApiEndpoint

Json = dict[str, Any]

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the server said."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)

    @property
    def code_and_reason(self) -> tuple[int, str | None]:
        """HTTP status and the reason of the Status."""
        return self.status, self.json.get("reason")

    @property
    def message(self) -> str:
        """The message of the Status."""
        return str(self.json["message"])

    @property
    def causes(self) -> set[tuple[str, str, str]]:
        """Field, reason and message of each cause; the real server repeats some of them."""
        return {(c.get("field", ""), c["reason"], c["message"]) for c in self.json["details"].get("causes", [])}

    @property
    def revision(self) -> str:
        """``metadata.resourceVersion``."""
        return str(self.json["metadata"]["resourceVersion"])

    @property
    def names(self) -> list[str]:
        """The names of the items of a list."""
        return [item["metadata"]["name"] for item in self.json["items"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of a watch."""

    type: str
    object: Json

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.object["metadata"].get("name", ""))

    @property
    def revision(self) -> int:
        """The object's version."""
        return int(self.object["metadata"]["resourceVersion"])


@dataclass(slots=True)
class Watch:
    """An open watch."""

    response: aiohttp.ClientResponse

    async def next(self, *, within: float = 10) -> Event:
        """The next event."""
        async with asyncio.timeout(within):
            line = await self.response.content.readline()
        assert line.endswith(b"\n"), f"the watch ended: {line!r}"
        event = json.loads(line)
        return Event(type=event["type"], object=event["object"])

    async def rest(self, *, within: float = 30) -> list[Event]:
        """All events until the server ends the watch."""
        events = []
        async with asyncio.timeout(within):
            async for line in self.response.content:
                event = json.loads(line)
                events.append(Event(type=event["type"], object=event["object"]))
        return events

    async def types_and_names(self, count: int) -> list[tuple[str, str]]:
        """Of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(event.type, event.name) for event in events]


@dataclass(slots=True)
class Api:
    """A client of one party.

    Attributes:
        session: Its connections.
        endpoint: The server, with an administrator's credentials.
        namespace: The test's own namespace.
    """

    session: aiohttp.ClientSession
    endpoint: ApiEndpoint
    namespace: str = "default"
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    @contextlib.asynccontextmanager
    async def on(cls, endpoint: ApiEndpoint) -> AsyncIterator[Self]:
        """A client with connections of its own."""
        connector = aiohttp.TCPConnector(limit=0, ssl=endpoint.ssl_context() or True)
        async with aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(total=50), headers={"User-Agent": "conformance/1"}
        ) as session:
            yield cls(session, endpoint, headers=dict(endpoint.headers))

    def path(self, resource: str, name: str = "", *, group: str = "api/v1") -> str:
        """A collection or object of the test's namespace."""
        return f"/{group}/namespaces/{self.namespace}/{resource}" + (f"/{name}" if name else "")

    def unique(self, stem: str) -> str:
        """A name for something without a namespace that no other test uses."""
        return f"{stem}-{self.namespace}"

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, object] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request; ``body`` is sent as it is if it is bytes, else as JSON; ``token`` empty: without credentials."""
        sent = {**self.headers, "Accept": accept, **(headers or {})}
        if token is not None:
            sent.pop("Authorization", None)
            if token:
                sent["Authorization"] = f"Bearer {token}"
        if body is not None:
            sent["Content-Type"] = content_type
        url = self.endpoint.url + path + (f"?{urlencode(query, quote_via=quote)}" if query else "")
        async with self.session.request(method, url, data=_payload(body), headers=sent) as response:
            return Answer(status=response.status, headers=response.headers.copy(), body=await response.read())

    async def get(self, path: str, **options: Any) -> Answer:
        """Read an object or a list."""
        return await self.ask("GET", path, **options)

    async def create(self, path: str, document: Json, **options: Any) -> Json:
        """Create what the test takes for granted."""
        answer = await self.ask("POST", path, document, **options)
        assert answer.status == 201, answer
        return dict(answer.json)

    async def config_map(self, name: str, *, data: Mapping[str, Any] | None = None, **metadata: Any) -> Json:
        """Create a ConfigMap."""
        document: Json = {"metadata": {"name": name, **metadata}}
        if data is not None:
            document["data"] = data
        return await self.create(self.path("configmaps"), document)

    async def merge(self, path: str, patch: object, **options: Any) -> Answer:
        """Send a merge patch."""
        return await self.ask("PATCH", path, patch, content_type=MERGE, **options)

    async def json_patch(self, path: str, *operations: object, **options: Any) -> Answer:
        """Send a JSON patch."""
        return await self.ask("PATCH", path, list(operations), content_type=JSON_PATCH, **options)

    async def delete(self, path: str, options: Json | None = None, **more: Any) -> Answer:
        """Delete."""
        return await self.ask("DELETE", path, options, **more)

    @contextlib.asynccontextmanager
    async def watch(self, path: str, *, accept: str = JSON, **query: object) -> AsyncGenerator[Watch]:
        """Open a watch."""
        url = f"{self.endpoint.url}{path}?{urlencode({'watch': '1', **query}, quote_via=quote)}"
        async with self.session.get(url, headers={**self.headers, "Accept": accept}) as response:
            assert response.status == 200, await response.text()
            try:
                yield Watch(response)
            finally:
                if response.connection is not None and response.connection.transport is not None:
                    # Closing in order takes the other side's word, for which no event loop is left.
                    response.connection.transport.abort()


def _payload(body: object) -> io.BytesIO | None:
    if body is None:
        return None
    return io.BytesIO(body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode())


def object_of(kind: str, name: str, **more: Any) -> Json:
    """A small object of the core group."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **more}


def pod(name: str, *containers: str, **spec: Any) -> Json:
    """A pod that wants no token, so that the server adds no volume."""
    listed = [{"name": container, "image": "example.invalid/image:1"} for container in containers or ("main",)]
    return object_of("Pod", name, spec={"containers": listed, "automountServiceAccountToken": False, **spec})


def workload(kind: str, name: str) -> Json:
    """A Deployment or DaemonSet."""
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "example.invalid/image:1"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template},
    }


def reference(owner: Json, **more: Any) -> Json:
    """An owner reference."""
    meta = owner["metadata"]
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"], **more}
