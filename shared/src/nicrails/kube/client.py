"""A thin client of the Kubernetes API: bytes in, bytes out, every call with a time limit, every status checked.

It stands on ``kubernetes_asyncio``'s ``ApiClient`` (credentials, TLS, connections) and not on its generated methods:
those need every model class in memory, overwrite the ``Accept`` header and do not check a raw answer's status.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import quote

import aiohttp
import orjson

from nicrails.kube.access import Access, AccessError
from nicrails.kube.errors import ApiError, UnreachableError, error_from_answer
from nicrails.text import excerpt

# access.py has registered the light packages.
from kubernetes_asyncio.client.api_client import ApiClient  # isort: skip
from kubernetes_asyncio.stream.ws_client import WsApiClient  # isort: skip

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

REQUEST_TIMEOUT = 40.0
"""Seconds for one request; the server itself gives up a contended write after 34."""
CONNECT_TIMEOUT = 10.0
MAX_BODY = 64 * 1024 * 1024
MAX_LINE = 8 * 1024 * 1024
"""Bytes of one watch event; etcd's own limit for an object is 1.5 MiB."""
TRUST_PERIOD = 30.0
"""Seconds between two looks at the certificate authority."""

RequestBody = Mapping[str, Any] | Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """One HTTP request, as it is sent again after a 401."""

    method: str
    path: str
    limits: aiohttp.ClientTimeout
    query: tuple[tuple[str, str | int], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: RequestBody | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer of the API server, read whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    request: str

    def json(self) -> Any:  # noqa: ANN401  (JSON is any of its types)
        """The body as JSON.

        Raises:
            UnreachableError: It is not JSON, so something other than an API server has answered.
        """
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError as error:
            raise UnreachableError(
                self.request, f"the answer is not JSON, a proxy may stand between: {excerpt(self.body)}"
            ) from error

    def object(self) -> dict[str, Any]:
        """The body as a JSON object.

        Raises:
            UnreachableError: It is something else.
        """
        document = self.json()
        if not isinstance(document, dict):
            raise UnreachableError(self.request, f"the answer is not an object: {excerpt(self.body)}")
        return document


def path(*segments: str) -> str:
    """An API path of segments; each is quoted, so a name can not reach another resource."""
    return "/" + "/".join(quote(segment, safe="") for segment in segments)


def core_path(namespace: str, resource: str, *more: str) -> str:
    """A path of the core group: ``/api/v1/namespaces/<namespace>/<resource>/…``."""
    return path("api", "v1", "namespaces", namespace, resource, *more)


class KubeClient:
    """A connection to one API server.

    It re-reads credentials after a 401 and tries once more, and builds its TLS context anew when the certificate
    authority changes. Environment proxies are not used: an API server is reached directly, and ``NO_PROXY`` does not
    understand the address ranges that clusters use.

    Args:
        access: The API server and credentials.
        user_agent: What the server's audit log shows, such as ``nicrails-broker/0.1.0``.
        clock: Monotonic seconds.
    """

    def __init__(self, access: Access, *, user_agent: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._access = access
        self._user_agent = user_agent
        self._clock = clock
        self._client: ApiClient | None = None
        self._websockets: WsApiClient | None = None
        self._looked_at = 0.0
        self._lock = asyncio.Lock()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections; a request after that is an error, not a new connection."""
        self._closed = True
        async with self._lock:
            await self._disconnect()

    async def _disconnect(self) -> None:
        clients, self._client, self._websockets = (self._client, self._websockets), None, None
        for client in clients:
            if client is not None:
                await client.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        body: RequestBody | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float = REQUEST_TIMEOUT,  # noqa: ASYNC109  (given on to the HTTP client)
    ) -> Answer:
        """Send one request and read the whole answer.

        Args:
            method: ``GET``, ``POST``, ``PATCH`` or ``DELETE``.
            path: As from :func:`path`.
            query: Query parameters.
            body: Sent as JSON of the content type.
            content_type: :data:`MERGE_PATCH` or :data:`JSON_PATCH` for a patch; never left to be guessed.
            accept: :data:`METADATA` or :data:`METADATA_LIST` for less than whole objects.
            timeout: Seconds for everything.

        Raises:
            ApiError: One of its kinds, for every answer that is not 2xx and for no answer.
        """
        call = _Call(
            method=method,
            path=path,
            query=tuple((query or {}).items()),
            headers={"Accept": accept, "Content-Type": content_type},
            body=body,
            limits=aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_TIMEOUT),
        )
        answer = await self._exchange(call)
        if answer.status == 401:
            self._access.reload()
            answer = await self._exchange(call)
        if not 200 <= answer.status < 300:
            raise error_from_answer(answer.request, answer.status, answer.headers, answer.body)
        return answer

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str | int], accept: str, read_timeout: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch and iterate over its whole lines; a line cut by the end of the stream is not one of them.

        Args:
            path: The collection.
            query: With ``watch=1``.
            accept: As in :meth:`request`.
            read_timeout: Seconds of silence after which the connection counts as dead.

        Raises:
            ApiError: As :meth:`request`; also from the iterator, when the connection breaks.
        """
        name = f"GET {path}?watch"
        call = _Call(
            method="GET",
            path=path,
            query=tuple(query.items()),
            headers={"Accept": accept},
            limits=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=read_timeout),
        )
        async with self._translated(name):
            response = await self._send(call)
        async with response:
            if response.status == 401:
                self._access.reload()
            if response.status != 200:
                async with self._translated(name):
                    data = await _read_body(response)
                raise error_from_answer(name, response.status, response.headers, data)
            yield self._lines(name, response)

    async def websocket(
        self, path: str, query: Sequence[tuple[str, str]], headers: Mapping[str, str]
    ) -> aiohttp.ClientWebSocketResponse:
        """Open a WebSocket, as exec needs it.

        Raises:
            ApiError: The server refused the upgrade, or there was no answer. The refusal's own words are lost in a
                WebSocket handshake, so the same question is asked once more without an upgrade: the server then
                refuses it in full sentences and never runs anything.
        """
        try:
            try:
                return await self._upgraded(path, query, headers)
            except aiohttp.WSServerHandshakeError as error:
                if error.status != 401:
                    raise
                self._access.reload()
                return await self._upgraded(path, query, headers)
        except aiohttp.WSServerHandshakeError as error:
            raise await self._refusal(path, query, error) from error

    async def _upgraded(
        self, path: str, query: Sequence[tuple[str, str]], headers: Mapping[str, str]
    ) -> aiohttp.ClientWebSocketResponse:
        async with self._translated(f"GET {path}"):
            client = await self._connected(websockets=True)
            manager = await client.call_api(
                path,
                "GET",
                query_params=list(query),
                header_params=dict(headers),
                auth_settings=["BearerToken"],
                _preload_content=False,
            )
            socket: aiohttp.ClientWebSocketResponse = await manager
            return socket

    async def _refusal(
        self, path: str, query: Sequence[tuple[str, str]], error: aiohttp.WSServerHandshakeError
    ) -> ApiError:
        if 400 <= error.status < 500:
            answer = await self._exchange(
                _Call(method="GET", path=path, query=tuple(query), limits=aiohttp.ClientTimeout(total=CONNECT_TIMEOUT))
            )
            if answer.status == error.status:
                return error_from_answer(answer.request, answer.status, answer.headers, answer.body)
        return error_from_answer(f"GET {path}", error.status, error.headers or {}, b"")

    async def _exchange(self, call: _Call) -> Answer:
        name = f"{call.method} {call.path}"
        async with self._translated(name):
            response = await self._send(call)
            async with response:
                return Answer(
                    status=response.status, headers=response.headers, body=await _read_body(response), request=name
                )

    async def _send(self, call: _Call) -> aiohttp.ClientResponse:
        client = await self._connected(websockets=False)
        response: aiohttp.ClientResponse = await client.call_api(
            call.path,
            call.method,
            query_params=list(call.query),
            header_params=dict(call.headers),
            body=call.body,
            auth_settings=["BearerToken"],
            _preload_content=False,
            _request_timeout=call.limits,
        )
        return response

    async def _connected(self, *, websockets: bool) -> Any:  # noqa: ANN401  (the library has no types)
        async with self._lock:
            if self._closed:
                raise AccessError("the client is closed, since the program is ending")
            now = self._clock()
            if self._client is not None and now - self._looked_at >= TRUST_PERIOD:
                self._looked_at = now
                if self._access.trust_changed():
                    await self._disconnect()
            if self._client is None:
                configuration = await self._access.configuration()
                # Clusters have certificates without key identifiers; kubectl and the kubelet accept these, but the strict
                # mode that is Python's default since 3.13 would refuse them. Chain, names and dates are checked as ever.
                configuration.disable_strict_ssl_verification = True
                self._client = self._direct(ApiClient(configuration))
                self._looked_at = now
            client = self._client
            if not websockets:
                return client
            if self._websockets is None:
                self._websockets = self._direct(WsApiClient(client.configuration, heartbeat=30.0))
            return self._websockets

    def _direct(self, client: Any) -> Any:  # noqa: ANN401  (the library has no types)
        """Give the library's client a session that does not look at proxy variables."""
        client.user_agent = self._user_agent
        session = client.rest_client.pool_manager
        client.rest_client.pool_manager = aiohttp.ClientSession(
            connector=session.connector, trust_env=False, read_bufsize=2**18
        )
        session.detach()
        return client

    @asynccontextmanager
    async def _translated(self, name: str) -> AsyncIterator[None]:
        """Turn what the HTTP client raises into :class:`UnreachableError`."""
        try:
            yield
        except aiohttp.WSServerHandshakeError:
            raise
        except aiohttp.ClientConnectorCertificateError as error:
            # The authority may have been renewed since the context was built.
            self._looked_at = -TRUST_PERIOD
            raise UnreachableError(name, f"the server's certificate is not trusted: {excerpt(str(error))}") from error
        except TimeoutError as error:
            raise UnreachableError(name, "no answer in time") from error
        except (aiohttp.ClientError, OSError, ssl.SSLError) as error:
            raise UnreachableError(name, excerpt(f"{type(error).__name__}: {error}")) from error
        except AccessError as error:
            raise UnreachableError(name, str(error)) from error

    async def _lines(self, name: str, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        buffer = bytearray()
        async with self._translated(name):
            async for chunk in response.content.iter_any():
                start = len(buffer)
                buffer += chunk
                if b"\n" in chunk:
                    *lines, rest = buffer.split(b"\n")
                    buffer = rest
                    for line in lines:
                        if line:
                            yield bytes(line)
                elif start + len(chunk) > MAX_LINE:
                    raise UnreachableError(name, f"a watch event of more than {MAX_LINE} bytes")


async def _read_body(response: aiohttp.ClientResponse) -> bytes:
    data = bytearray()
    async for chunk in response.content.iter_any():
        data += chunk
        if len(data) > MAX_BODY:
            raise aiohttp.ClientPayloadError(f"an answer of more than {MAX_BODY} bytes")
    return bytes(data)
