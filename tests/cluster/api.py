"""Plain HTTP to an API server, by aiohttp alone: nothing of the code under test takes part in judging it."""

from __future__ import annotations

import contextlib
import http
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import aiohttp

from tests.support.endpoint import ApiEndpoint

Json = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the API server said."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)


class RefusedError(AssertionError):
    """The API server refused what a scenario takes for granted."""


class Api:
    """Plain HTTP with one party's credentials."""

    def __init__(self, session: aiohttp.ClientSession, endpoint: ApiEndpoint) -> None:
        self.session = session
        self.endpoint = endpoint
        self._tls = endpoint.ssl_context() or True

    @classmethod
    @contextlib.asynccontextmanager
    async def on(cls, endpoint: ApiEndpoint) -> AsyncIterator[Self]:
        """A client of ``endpoint`` with a session of its own."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
            yield cls(session, endpoint)

    async def ask(
        self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request; any answer is returned as it came."""
        data = None if body is None else json.dumps(body).encode()
        async with self.session.request(
            method,
            self.endpoint.url + path,
            data=data,
            headers={"Content-Type": "application/json", **self.endpoint.headers, **(headers or {})},
            ssl=self._tls,
        ) as response:
            return Answer(status=response.status, headers=response.headers.copy(), body=await response.read())

    async def get(self, path: str) -> Json:
        """An object or a list."""
        return self._success("GET", path, await self.ask("GET", path))

    async def get_or_none(self, path: str) -> Json | None:
        """An object, or None if it is not there."""
        answer = await self.ask("GET", path)
        return None if answer.status == http.HTTPStatus.NOT_FOUND else self._success("GET", path, answer)

    async def create(self, path: str, body: Json) -> Json:
        """Create an object in the collection ``path``."""
        return self._success("POST", path, await self.ask("POST", path, body))

    async def merge_patch(self, path: str, body: Json) -> Json:
        """Apply an RFC 7386 patch."""
        return self._success("PATCH", path, await self.ask("PATCH", path, body, headers={"Content-Type": MERGE_PATCH}))

    async def json_patch(self, path: str, body: Sequence[Json]) -> Json:
        """Apply an RFC 6902 patch."""
        answer = await self.ask("PATCH", path, list(body), headers={"Content-Type": JSON_PATCH})
        return self._success("PATCH", path, answer)

    async def delete(self, path: str, *, grace: int | None = None, propagation: str = "Background") -> None:
        """Delete an object; one that is gone already is fine.

        Args:
            path: The object's path.
            grace: The grace period in seconds; None leaves it to the object.
            propagation: ``Background``, ``Foreground`` or ``Orphan``.
        """
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        answer = await self.ask("DELETE", path, options)
        if answer.status != http.HTTPStatus.NOT_FOUND:
            self._success("DELETE", path, answer)

    @staticmethod
    def _success(method: str, path: str, answer: Answer) -> Json:
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise RefusedError(f"{method} {path}: {answer.status} {answer.body[:1000].decode(errors='replace')}")
        return dict(answer.json())
