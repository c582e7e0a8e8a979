"""The adapter of aioresponses to the locked aiohttp."""

from __future__ import annotations

import aiohttp
import pytest
from yarl import URL

from tests.support.aioresponses import CallbackResult, mocked_api, sent

URL_OF_NODE = "https://api.invalid/api/v1/nodes/n1"


async def test_answers_are_as_registered() -> None:
    """Status, headers and body of a registered answer reach the caller, in any way of reading them."""
    with mocked_api() as api:
        api.get(URL_OF_NODE, payload={"kind": "Node"}, headers={"X-Kind": "a"})
        api.get(URL_OF_NODE, status=429, body="slow down", headers={"Retry-After": "7"}, content_type="text/plain")
        api.get(URL_OF_NODE, body=b'{"type": "ADDED"}\n{"type"')
        async with aiohttp.ClientSession() as session:
            async with session.get(URL_OF_NODE) as response:
                assert (response.status, response.headers["X-Kind"]) == (200, "a")
                assert await response.json() == {"kind": "Node"}
            async with session.get(URL_OF_NODE) as response:
                assert (response.status, response.headers["Retry-After"]) == (429, "7")
                assert await response.text() == "slow down"
                with pytest.raises(aiohttp.ClientResponseError):
                    response.raise_for_status()
            async with session.get(URL_OF_NODE) as response:
                assert [line async for line in response.content] == [b'{"type": "ADDED"}\n', b'{"type"']


async def test_requests_are_on_record() -> None:
    """What was sent can be looked at: body and headers per method and URL, in order."""
    with mocked_api() as api:
        api.patch(URL_OF_NODE, payload={}, repeat=True)
        async with aiohttp.ClientSession() as session:
            for body in (b"1", b"2"):
                async with session.patch(URL_OF_NODE, data=body, headers={"Content-Type": "x/y"}) as response:
                    await response.read()
        assert [request["data"] for request in sent(api, "PATCH", URL_OF_NODE)] == [b"1", b"2"]
        assert sent(api, "PATCH", URL_OF_NODE)[0]["headers"]["Content-Type"] == "x/y"
        assert sent(api, "GET", URL_OF_NODE) == []


async def test_callbacks_and_exceptions_work() -> None:
    """An answer may be computed, and may be a broken connection."""

    def answer(url: URL, **request: object) -> CallbackResult:
        return CallbackResult(status=201, body=f"{url.path} {request['data']!r}")

    with mocked_api() as api:
        api.post(URL_OF_NODE, callback=answer)
        api.post(URL_OF_NODE, exception=aiohttp.ServerDisconnectedError())
        async with aiohttp.ClientSession() as session:
            async with session.post(URL_OF_NODE, data=b"x") as response:
                assert (response.status, await response.text()) == (201, "/api/v1/nodes/n1 b'x'")
            with pytest.raises(aiohttp.ServerDisconnectedError):
                await session.post(URL_OF_NODE)


async def test_nothing_else_leaves_the_process() -> None:
    """A request that nobody registered is refused as a failed connection, and only inside the block."""
    original = aiohttp.ClientSession._request
    with mocked_api():
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientConnectionError):
                await session.get(URL_OF_NODE)
    assert aiohttp.ClientSession._request is original
