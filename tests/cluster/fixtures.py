"""Fixtures for tests on a real control plane; a pytest plugin that ``tests/conftest.py`` loads."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import pytest_asyncio

from tests.cluster import programs
from tests.cluster.controlplane import ControlPlane
from tests.cluster.kubelet import FakeKubelet
from tests.cluster.lldpd import LldpLab
from tests.cluster.world import World
from tests.support.needs import require

_PLANE = pytest.StashKey[ControlPlane]()


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """One real control plane for the whole run, started by the first test that asks for it."""
    require("control-plane")
    with ControlPlane.running(programs.find()) as plane:
        request.config.stash[_PLANE] = plane
        yield plane
    del request.config.stash[_PLANE]


@pytest.fixture(autouse=True)
def _control_plane_restored(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that took the API server away and failed must not take the others along."""
    yield
    if (plane := request.config.stash.get(_PLANE, None)) is not None:
        plane.restore()


StartControlPlane = Callable[..., ControlPlane]


@pytest.fixture
def start_control_plane() -> Iterator[StartControlPlane]:
    """Start further control planes for one test; the arguments are those of ``ControlPlane.running`` but the first."""
    require("control-plane")
    with contextlib.ExitStack() as stack:

        def start(**options: object) -> ControlPlane:
            return stack.enter_context(ControlPlane.running(programs.find(), **options))  # type: ignore[arg-type]

        yield start


@pytest_asyncio.fixture
async def world(control_plane: ControlPlane) -> AsyncIterator[World]:
    """A namespace of its own on the real API server, removed afterwards with all that was made through it."""
    async with World.on(control_plane.endpoint) as made:
        yield made


@pytest_asyncio.fixture
async def kubelet(control_plane: ControlPlane) -> AsyncIterator[FakeKubelet]:
    """A kubelet that the API server trusts; a Node is its by ``world.node(…, kubelet_port=kubelet.port)``."""
    async with FakeKubelet.running(control_plane.kubelet, str(control_plane.authority.file)) as made:
        yield made


@pytest.fixture
def lldp_lab() -> Iterator[LldpLab]:
    """A host and a switch with a real lldpd each, cabled on two rails."""
    require("root", "lldpd")
    with LldpLab.running() as lab:
        yield lab
