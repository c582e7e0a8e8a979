"""The suite's parametrization: every test runs on the embedded API and, where it is there, on a real kube-apiserver."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.conformance import backends
from tests.conformance.backends import Backend
from tests.conformance.speaking import Api, object_of
from tests.support.endpoint import ApiEndpoint
from tests.support.waiting import eventually

_EMBEDDED = pytest.param("embedded")


@contextlib.asynccontextmanager
async def _backend(request: pytest.FixtureRequest) -> AsyncIterator[Backend]:
    if request.param == "embedded":
        async with backends.embedded() as backend:
            yield backend
    else:
        yield backends.real(request.getfixturevalue("control_plane"))


@contextlib.asynccontextmanager
async def _client(endpoint: ApiEndpoint) -> AsyncIterator[Api]:
    async with Api.on(endpoint) as kube:
        kube.namespace = f"conformance-{secrets.token_hex(4)}"
        await kube.create("/api/v1/namespaces", object_of("Namespace", kube.namespace))

        async def account() -> bool:
            return (await kube.get(kube.path("serviceaccounts", "default"))).status == 200

        # Pods can be made once the namespace has it.
        await eventually(account, within=20, what="the default ServiceAccount")
        yield kube
        await kube.delete(f"/api/v1/namespaces/{kube.namespace}")


@pytest_asyncio.fixture(params=[_EMBEDDED, pytest.param("real", marks=pytest.mark.needs("control-plane"))])
async def backend(request: pytest.FixtureRequest) -> AsyncIterator[Backend]:
    """One of the two API servers."""
    async with _backend(request) as made:
        yield made


@pytest.fixture
def api(backend: Backend) -> ApiEndpoint:
    """Where the server under test is, with an administrator's credentials."""
    return backend.endpoint


@pytest_asyncio.fixture
async def kube(api: ApiEndpoint) -> AsyncIterator[Api]:
    """An administrator's client with a namespace of its own."""
    async with _client(api) as made:
        yield made


_COLLECTING = pytest.param("real", marks=pytest.mark.needs("control-plane", "garbage-collector"))


@pytest_asyncio.fixture(params=[_EMBEDDED, _COLLECTING])
async def collected(request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    """An administrator's client with a namespace of its own, on a server with a garbage collector."""
    async with _backend(request) as made, _client(made.endpoint) as kube:
        yield kube
