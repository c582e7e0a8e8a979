"""The two API servers that the suite compares, and what differs in how a test gets hold of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from nicrails_faker.api import EmbeddedCluster, RequestInfo
from tests.cluster.controlplane import ControlPlane
from tests.support.endpoint import ApiEndpoint

ADMIN_TOKEN = "the-administrator"
STRANGER_TOKEN = "a-stranger"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """An API server.

    Attributes:
        endpoint: Where it is, with an administrator's credentials.
        stranger: Takes a namespace and the name of a ServiceAccount in it that may do nothing; returns its token.
    """

    endpoint: ApiEndpoint
    stranger: Callable[[str, str], Awaitable[str]]


@contextlib.asynccontextmanager
async def embedded() -> AsyncIterator[Backend]:
    """An embedded cluster with two tokens, one of which may do nothing."""
    async with EmbeddedCluster() as cluster:
        cluster.tokens = {ADMIN_TOKEN: "admin"}
        yield Backend(
            endpoint=ApiEndpoint(url=cluster.url, token=ADMIN_TOKEN),
            stranger=_stranger(cluster),
        )


def real(plane: ControlPlane) -> Backend:
    """A real control plane."""

    async def stranger(namespace: str, account: str) -> str:
        return await asyncio.to_thread(plane.service_account_token, namespace, account)

    return Backend(endpoint=plane.endpoint, stranger=stranger)


def _stranger(cluster: EmbeddedCluster) -> Callable[[str, str], Awaitable[str]]:
    async def stranger(namespace: str, account: str) -> str:
        user = f"system:serviceaccount:{namespace}:{account}"
        cluster.tokens = {ADMIN_TOKEN: "admin", STRANGER_TOKEN: user}

        def authorize(request: RequestInfo) -> str | None:
            return "" if request.user == user else None

        cluster.authorize = authorize
        return STRANGER_TOKEN

    return stranger
