"""An embedded cluster and plain HTTP with it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from nicrails_faker.api import EmbeddedCluster
from tests.conformance.speaking import Api
from tests.support.endpoint import ApiEndpoint


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    """A cluster with the same UIDs in every run."""
    async with EmbeddedCluster(seed=1) as made:
        yield made


@pytest_asyncio.fixture
async def kube(cluster: EmbeddedCluster) -> AsyncIterator[Api]:
    """A client in the namespace ``default``."""
    async with Api.on(ApiEndpoint(url=cluster.url)) as made:
        yield made
