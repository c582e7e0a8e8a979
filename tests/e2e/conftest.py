"""One two-node cluster with the project's images for all tests of this folder, and a release that each test finds settled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.chart.combinations import ANNOTATIONS, POLICIES
from tests.cluster import programs
from tests.cluster.api import Api
from tests.cluster.nodecluster import NodeCluster
from tests.e2e.images import archives
from tests.e2e.site import MACHINES, Site, rails
from tests.support.needs import require

NEEDS = ("nodes", "images", "helm", "lldpd")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test of this folder its needs and the time that pods take."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.needs(*NEEDS))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def image_archives() -> dict[str, Path]:
    """The project's images, built from this work tree."""
    require("images")
    return archives()


@pytest.fixture(scope="session")
def node_cluster(image_archives: dict[str, Path]) -> Iterator[NodeCluster]:
    """A real cluster of two Nodes that know the project's images."""
    require(*NEEDS)
    with NodeCluster.running(programs.find(), rails=[rails(machine) for machine in MACHINES.values()]) as cluster:
        for archive in image_archives.values():
            cluster.import_image(archive)
        yield cluster


@pytest.fixture(scope="session")
def standing(node_cluster: NodeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The cluster with machines and a GPU Operator's stand-in."""
    with Site.on(node_cluster, tmp_path_factory.mktemp("helm")) as made:
        yield made


@pytest_asyncio.fixture
async def bare(standing: Site) -> AsyncIterator[Site]:
    """The cluster without a release; one that a test leaves is taken away."""
    async with Api.on(standing.cluster.plane.endpoint) as api:
        standing.api = api
        async with standing.checked():
            standing.uninstall()
            await standing.operator_ready()
        yield standing
        standing.uninstall()


@pytest_asyncio.fixture
async def hardened(standing: Site) -> AsyncIterator[Site]:
    """The cluster with a settled release that has annotations and the admission policies."""
    async with Api.on(standing.cluster.plane.endpoint) as api:
        standing.api = api
        async with standing.checked():
            standing.install(POLICIES, ANNOTATIONS)
            await standing.operator_ready()
            await standing.settled()
        yield standing


@pytest_asyncio.fixture
async def site(standing: Site) -> AsyncIterator[Site]:
    """The cluster with a settled release of the usual values, whatever the test before did."""
    async with Api.on(standing.cluster.plane.endpoint) as api:
        standing.api = api
        async with standing.checked():
            standing.install()
            await standing.operator_ready()
            await standing.settled()
        yield standing


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the cluster was like when a test failed."""
    report = yield
    standing = getattr(item, "funcargs", {}).get("standing")
    if report.failed and isinstance(standing, Site):
        report.sections.append(("the cluster", standing.describe()))
    return report
