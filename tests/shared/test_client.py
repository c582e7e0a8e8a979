from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import orjson
import pytest
from aiohttp import web

from nicrails.kube import (
    MERGE_PATCH,
    METADATA,
    InClusterAccess,
    KubeClient,
    KubeconfigAccess,
    UnauthorizedError,
    UnreachableError,
    core_path,
    path,
)
from tests.shared.serving import ScriptedAccess, scripted


async def test_a_request_is_what_was_asked() -> None:
    """Method, path, query, content type, Accept, token and our own User-Agent reach the server as given."""
    seen: dict[str, object] = {}

    async def handler(request: web.Request) -> web.Response:
        seen.update(
            method=request.method,
            path=request.raw_path,
            body=await request.json(),
            headers={name: request.headers[name] for name in ("Content-Type", "Accept", "Authorization", "User-Agent")},
        )
        return web.json_response({"kind": "PartialObjectMetadata"})

    async with scripted(handler) as (client, _):
        answer = await client.request(
            "PATCH",
            core_path("ns", "configmaps", "a/../b"),
            query={"fieldManager": "x y"},
            body={"data": {"n": None}},
            content_type=MERGE_PATCH,
            accept=METADATA,
        )
    assert answer.object() == {"kind": "PartialObjectMetadata"}
    assert seen == {
        "method": "PATCH",
        "path": "/api/v1/namespaces/ns/configmaps/a%2F..%2Fb?fieldManager=x+y",
        "body": {"data": {"n": None}},
        "headers": {
            "Content-Type": MERGE_PATCH,
            "Accept": METADATA,
            "Authorization": "Bearer first",
            "User-Agent": "nicrails-test/1",
        },
    }


def test_paths_can_not_be_left() -> None:
    """A name with a slash, a question mark or dots stays one segment of the path."""
    assert path("api", "v1", "nodes", "../x?y#z") == "/api/v1/nodes/..%2Fx%3Fy%23z"


async def test_a_401_reads_the_token_again() -> None:
    """F4: after a 401 the credentials are read again at once and the request is repeated once."""
    requests: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        requests.append(request.headers["Authorization"])
        if request.headers["Authorization"] == "Bearer renewed":
            return web.json_response({})
        return web.json_response({"message": "Unauthorized"}, status=401)

    async with scripted(handler) as (client, access):
        access.tokens.append("renewed")
        await client.request("GET", "/api/v1/nodes")
        assert requests == ["Bearer first", "Bearer renewed"]
        access.tokens[:] = ["revoked"]
        with pytest.raises(UnauthorizedError):
            await client.request("GET", "/api/v1/nodes")
        assert len(requests) == 4


async def test_a_new_authority_is_taken_up() -> None:
    """F7: when the certificate authority has changed, connections are built anew without a restart."""
    now = 0.0

    async def handler(_: web.Request) -> web.Response:
        return web.json_response({})

    async with scripted(handler, clock=lambda: now) as (client, access):
        await client.request("GET", "/x")
        access.trust = True
        await client.request("GET", "/x")
        assert access.configurations == 1
        now = 31.0
        await client.request("GET", "/x")
        assert access.configurations == 2


async def test_a_closed_client_stays_closed() -> None:
    """A request that comes after the end is refused; it does not open a connection that nobody would close."""

    async def handler(_: web.Request) -> web.Response:
        return web.json_response({})

    async with scripted(handler) as (client, access):
        await client.request("GET", "/x")
        await client.close()
        with pytest.raises(UnreachableError, match="the client is closed"):
            await client.request("GET", "/x")
        assert access.configurations == 1


async def test_no_answer_in_time() -> None:
    """F8: a server that takes a request and never answers is unreachable after the time limit."""

    async def handler(_: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    async with scripted(handler) as (client, _):
        with pytest.raises(UnreachableError, match="GET /x: no answer in time") as error:
            await client.request("GET", "/x", timeout=0.1)
    assert error.value.outcome_unknown


async def test_refused_connection() -> None:
    """F1: a port where nobody listens is unreachable, with the network's words."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    async with KubeClient(ScriptedAccess(f"http://127.0.0.1:{port}"), user_agent="t") as client:
        with pytest.raises(UnreachableError, match="Connect"):
            await client.request("GET", "/x")


@pytest.mark.parametrize("body", [b"<html>", b"[]", b""])
async def test_an_answer_that_is_no_object(body: bytes) -> None:
    """A 200 that is not a JSON object did not come from an API server and is an error, not an empty answer."""

    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=body)

    async with scripted(handler) as (client, _):
        answer = await client.request("GET", "/x")
        with pytest.raises(UnreachableError):
            answer.object()


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """F12: proxy variables do not divert requests to the API server."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    async def handler(_: web.Request) -> web.Response:
        return web.json_response({"ok": True})

    async with scripted(handler) as (client, _):
        assert (await client.request("GET", "/x")).object() == {"ok": True}


async def test_lines_of_a_watch() -> None:
    """A watch gives whole lines, however they are cut on the wire, and never the half line at a broken end."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for part in (b'{"a"', b':1}\n{"b":2}\n\n{"c"', b':3}\n{"half'):
            await response.write(part)
            await asyncio.sleep(0.01)
        return response

    async with scripted(handler) as (client, _):
        async with client.stream("/x", query={"watch": 1}, accept=METADATA, read_timeout=5) as lines:
            got = [orjson.loads(line) async for line in lines]
    assert got == [{"a": 1}, {"b": 2}, {"c": 3}]


async def test_a_silent_watch_ends() -> None:
    """F8: a watch without a byte for the read timeout is an error."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(30)
        return response

    async with scripted(handler) as (client, _):
        with pytest.raises(UnreachableError, match="no answer in time"):
            async with client.stream("/x", query={"watch": 1}, accept=METADATA, read_timeout=0.1) as lines:
                async for _line in lines:
                    pass


async def test_an_endless_line_is_refused() -> None:
    """O12: a watch event without an end does not fill the memory."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(200):
            await response.write(b"x" * 2**17)
        return response

    async with scripted(handler) as (client, _):
        with pytest.raises(UnreachableError, match="a watch event of more than"):
            async with client.stream("/x", query={"watch": 1}, accept=METADATA, read_timeout=5) as lines:
                async for _line in lines:
                    pass


class _Pod:
    """The files that a pod's service account has, and a clock."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.now = 0.0
        (directory / "token").write_text("one\n")
        (directory / "ca.crt").write_text("authority one")
        environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
        self.access = InClusterAccess(environ=environ, directory=directory, clock=lambda: self.now)


async def test_token_rotation(tmp_path: Path) -> None:
    """F6: a token is stripped, re-read once a minute, and the last good one is kept while the file is gone or empty."""
    pod = _Pod(tmp_path)
    configuration = await pod.access.configuration()

    async def shown() -> str:
        return str(await configuration.get_api_key_with_prefix("BearerToken"))

    assert configuration.host == "https://10.0.0.1:443"
    assert await shown() == "Bearer one"
    (tmp_path / "token").write_text("two\n")
    assert await shown() == "Bearer one"
    pod.now = 61.0
    assert await shown() == "Bearer two"
    (tmp_path / "token").unlink()
    pod.now = 122.0
    assert await shown() == "Bearer two"
    (tmp_path / "token").write_text("")
    pod.access.reload()
    assert await shown() == "Bearer two"
    (tmp_path / "token").write_text("three")
    pod.access.reload()
    assert await shown() == "Bearer three"


async def test_authority_rotation(tmp_path: Path) -> None:
    """F7: a change of the certificate authority's file is noticed; that it is briefly missing is not a change."""
    pod = _Pod(tmp_path)
    await pod.access.configuration()
    assert not pod.access.trust_changed()
    (tmp_path / "ca.crt").unlink()
    assert not pod.access.trust_changed()
    (tmp_path / "ca.crt").write_text("authority two")
    assert pod.access.trust_changed()


@pytest.mark.parametrize(
    ("environ", "missing", "said"),
    [
        ({}, "", "not in a cluster: .* give --kubeconfig FILE"),
        ({"KUBERNETES_SERVICE_HOST": "::1", "KUBERNETES_SERVICE_PORT": "1"}, "token", "no service account token"),
        ({"KUBERNETES_SERVICE_HOST": "::1", "KUBERNETES_SERVICE_PORT": "1"}, "ca.crt", "no certificate authority"),
    ],
)
async def test_without_access(tmp_path: Path, environ: dict[str, str], missing: str, said: str) -> None:
    """Each thing that is missing to reach an API server is told in one sentence, and the service can go on trying."""
    for name in ("token", "ca.crt"):
        if name != missing:
            (tmp_path / name).write_text("x")
    async with KubeClient(InClusterAccess(environ=environ, directory=tmp_path), user_agent="t") as client:
        with pytest.raises(UnreachableError, match=said):
            await client.request("GET", "/x")


async def test_kubeconfig(tmp_path: Path) -> None:
    """A kubeconfig gives server and token; a broken one is one sentence with its path."""
    file = tmp_path / "config"
    file.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1234'}}]\nusers: [{name: u, user: {token: abc}}]\n"
    )
    configuration = await KubeconfigAccess(file).configuration()
    assert configuration.host == "http://127.0.0.1:1234"
    assert await configuration.get_api_key_with_prefix("BearerToken") == "Bearer abc"
    file.write_text("kind: Config\n")
    async with KubeClient(KubeconfigAccess(file), user_agent="t") as client:
        with pytest.raises(UnreachableError, match=f"kubeconfig {file}: "):
            await client.request("GET", "/x")
