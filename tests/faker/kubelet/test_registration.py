from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from grpc import aio

from nicrails_faker.kubelet import KubeletError, register
from nicrails_faker.kubelet.api import DEVICE_PLUGIN, LIST_AND_WATCH, OPTIONS
from nicrails_faker.kubelet.generated import deviceplugin_pb2 as messages
from nicrails_faker.kubelet.rpc import service
from tests.faker.kubelet.double import FakeKubelet
from tests.support.waiting import eventually


async def _options(_: messages.Empty, __: aio.ServicerContext[Any, Any]) -> messages.DevicePluginOptions:
    return messages.DevicePluginOptions(get_preferred_allocation_available=True)


async def _watch(_: messages.Empty, __: aio.ServicerContext[Any, Any]) -> AsyncIterator[messages.ListAndWatchResponse]:
    yield messages.ListAndWatchResponse(devices=[messages.Device(ID="a", health="Healthy")])


@pytest_asyncio.fixture
async def kubelet(tmp_path: Path) -> AsyncIterator[FakeKubelet]:
    """A running kubelet."""
    fake = FakeKubelet(tmp_path)
    await fake.start()
    yield fake
    await fake.stop()


async def test_a_plugin_that_serves_is_taken(kubelet: FakeKubelet) -> None:
    """The kubelet dials back within the call, asks for the options, and then for the devices."""
    server = aio.server()
    handlers = dict([OPTIONS.unary(_options), LIST_AND_WATCH.streaming(_watch)])
    server.add_generic_rpc_handlers([service(DEVICE_PLUGIN, handlers)])
    server.add_insecure_port(f"unix:{kubelet.directory / 'it.sock'}")
    await server.start()
    try:
        await register(kubelet.directory, endpoint="it.sock", resource="example.com/it", preferred_allocation=True)
        one = kubelet.plugins["example.com/it"]
        assert one.options.get_preferred_allocation_available
        await eventually(lambda: not one.connected, within=10, what="the stream has come to its end")
        assert kubelet.devices("example.com/it") == ("a",)
        assert kubelet.allocatable == {"example.com/it": 0}, "a plugin whose stream has ended counts for nothing"
    finally:
        await server.stop(None)


async def test_a_plugin_that_does_not_serve_is_refused(kubelet: FakeKubelet) -> None:
    """What the kubelet says against it is in the sentence."""
    with pytest.raises(
        KubeletError, match=r"can not register example.com/it: .* refused it with UNKNOWN: failed to dial"
    ):
        await register(kubelet.directory, endpoint="no.sock", resource="example.com/it", preferred_allocation=True)


async def test_without_a_kubelet_it_says_so(tmp_path: Path) -> None:
    """A socket that is missing, or that nobody serves, is told as such."""
    with pytest.raises(KubeletError, match=r"no kubelet listens on .*kubelet.sock"):
        await register(tmp_path, endpoint="it.sock", resource="example.com/it", preferred_allocation=False)


async def test_a_kubelet_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    """The call has a time limit."""
    # A socket that is bound but never accepts is that of a stopped process.
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "kubelet.sock"))
        silent.listen()
        with pytest.raises(KubeletError, match="has not answered in time"):
            await register(
                tmp_path, endpoint="it.sock", resource="example.com/it", preferred_allocation=False, time_limit=0.5
            )
