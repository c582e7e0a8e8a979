from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc
import pytest
import pytest_asyncio
from grpc import aio
from prometheus_client import CollectorRegistry

from nicrails.service import Health
from nicrails_faker.deviceplugin import keeping, plugins
from nicrails_faker.deviceplugin.allocation import Given
from nicrails_faker.deviceplugin.devices import Device
from nicrails_faker.deviceplugin.keeping import Keeper
from nicrails_faker.deviceplugin.metrics import Metrics
from nicrails_faker.deviceplugin.plugin import HANDING_OVER, Plugin, SocketIdentity
from nicrails_faker.deviceplugin.plugins import Plugins
from nicrails_faker.reporting import Metrics as CommonMetrics
from nicrails_faker.reporting import Report
from tests.faker.kubelet.double import FakeKubelet
from tests.support.waiting import eventually

GPU, SMALL, LARGE = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb"


def _devices(*names: str) -> tuple[Device, ...]:
    return tuple(Device(id=name) for name in names)


class Node:
    """A kubelet and the plugins of its Node.

    Attributes:
        kubelet: The double.
        plugins: What is tested.
        health: How registering goes.
        registry: The metrics.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubelet = FakeKubelet(folder)
        self.registry = CollectorRegistry()
        self.health = Health(("kubelet",))
        self.plugins = self.new_plugins()
        self._tasks: list[asyncio.Task[None]] = []

    def new_plugins(self) -> Plugins:
        """Plugins of another process, with the same health."""
        registry = CollectorRegistry()
        self.registry = registry
        report = Report("kubelet", self.health, CommonMetrics(registry))
        return Plugins(self.folder, lambda: Given(node="node1", host_folder=None), report, Metrics(registry))

    def run(self) -> None:
        """Start the plugins."""
        self._tasks.append(asyncio.create_task(self.plugins.run(), name="plugins"))

    async def end(self) -> None:
        """End the plugins."""
        while self._tasks:
            task = self._tasks.pop()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @property
    def reason(self) -> str:
        """Why registering is not done, or ""."""
        failure = self.health["kubelet"].failure
        return "" if failure is None else failure.reason

    async def until(self, **allocatable: int) -> None:
        """Wait until the kubelet counts this; keywords are gpu, small and large."""
        names = {"gpu": GPU, "small": SMALL, "large": LARGE}
        wanted = {names[name]: count for name, count in allocatable.items()}
        await eventually(lambda: self.kubelet.allocatable == wanted, within=20, what=f"allocatable is {wanted}")


@pytest_asyncio.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """A Node whose kubelet serves; the plugins do not yet."""
    made = Node(tmp_path)
    await made.kubelet.start()
    yield made
    await made.end()
    await made.kubelet.stop()


async def test_each_resource_is_served_and_then_registered(node: Node) -> None:
    """The kubelet, which dials back while it registers, gets the devices of each resource, NUMA nodes included."""
    await node.plugins.offer({GPU: (Device(id="GPU-a", numa_node=1), Device(id="GPU-b")), SMALL: _devices("MIG-a")})
    assert "is not registered yet" in node.reason
    node.run()
    await node.until(gpu=2, small=1)
    await eventually(lambda: node.reason == "", within=10, what="all are registered")
    known = node.kubelet.plugins[GPU]
    assert known.endpoint == "fake-nvidia-gpu.sock"
    assert known.options.get_preferred_allocation_available
    assert [one.ID for one in known.devices["GPU-a"].topology.nodes] == [1]
    assert not known.devices["GPU-b"].HasField("topology")
    assert sorted(node.kubelet.registrations) == [GPU, SMALL]
    assert node.registry.get_sample_value("nicrails_faker_devices", {"resource": GPU}) == 2
    assert node.registry.get_sample_value("nicrails_faker_registrations_total", {"resource": GPU}) == 1


async def test_changes_reach_the_kubelet_without_a_registration(node: Node) -> None:
    """Devices that come and go are told on the stream that there is, and the same list is not told twice."""
    await node.plugins.offer({GPU: _devices("a", "b")})
    node.run()
    await node.until(gpu=2)
    for wanted in (("a", "b"), ("a",), (), ("c", "d", "e"), ("c", "d", "e")):
        await node.plugins.offer({GPU: _devices(*wanted)})
        await node.until(gpu=len(wanted))
    assert node.kubelet.registrations == [GPU]
    assert [ids for _, ids in node.kubelet.sets] == [("a", "b"), ("a",), (), ("c", "d", "e")]


async def test_another_order_or_numa_node_is_a_change(node: Node) -> None:
    """The kubelet has what is offered, in every respect."""
    await node.plugins.offer({GPU: _devices("a", "b")})
    node.run()
    await node.until(gpu=2)
    await node.plugins.offer({GPU: (Device(id="a", numa_node=3), Device(id="b"))})
    await eventually(
        lambda: [one.ID for one in node.kubelet.plugins[GPU].devices["a"].topology.nodes] == [3],
        within=10,
        what="the NUMA node has arrived",
    )


async def test_a_resource_that_goes_counts_nothing_and_stays_registered(node: Node) -> None:
    """A profile that is no longer there is 0 at once, and another profile is registered beside it."""
    await node.plugins.offer({GPU: _devices("a"), SMALL: _devices("s1", "s2")})
    node.run()
    await node.until(gpu=1, small=2)
    await node.plugins.offer({GPU: _devices("a"), LARGE: _devices("l1")})
    await node.until(gpu=1, small=0, large=1)
    assert node.kubelet.plugins[SMALL].connected, "its stream is open, so the capacity is 0 too"
    assert node.registry.get_sample_value("nicrails_faker_devices", {"resource": SMALL}) == 0
    await node.plugins.offer({SMALL: _devices("s3")})
    await node.until(gpu=0, small=1, large=0)
    assert sorted(node.kubelet.registrations) == [GPU, SMALL, LARGE]


def _counts(node: Node, names: list[str]) -> bool:
    return all(node.kubelet.allocatable.get(name) == 1 for name in names)


async def test_names_without_end_leave_a_bounded_number_of_plugins(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of resources that are no longer offered only so many stay; one that comes back is served and counted again."""
    monkeypatch.setattr(plugins, "MOST", 4)
    node.run()
    for number in range(6):
        names = [f"example.com/r{number}-{at}" for at in range(2)]
        await node.plugins.offer({GPU: _devices("a"), **{name: _devices(name[-1]) for name in names}})
        await eventually(functools.partial(_counts, node, names), within=20, what=f"{names} are there")
        assert len([path for path in node.folder.iterdir() if path.name.startswith("fake-")]) <= 5
    assert node.registry.get_sample_value("nicrails_faker_devices", {"resource": "example.com/r0-0"}) is None
    await node.plugins.offer({"example.com/r0-0": _devices("x", "y")})
    await eventually(
        lambda: node.kubelet.allocatable["example.com/r0-0"] == 2 and node.kubelet.allocatable[GPU] == 0,
        within=20,
        what="the first name is there again",
    )
    assert node.kubelet.registrations.count(GPU) == 1
    await eventually(lambda: node.reason == "", within=10, what="it is in health")


async def test_what_goes_is_told_before_what_comes(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a GPU is cut anew, what it was before is handed over to the kubelet before what it becomes is offered."""
    await node.plugins.offer({GPU: _devices("a"), SMALL: ()})
    node.run()
    await node.until(gpu=1, small=0)
    order: list[tuple[str, int]] = []
    offer, handed_over = Plugin.offer, Plugin.handed_over

    async def noted(plugin: Plugin, devices: tuple[Device, ...]) -> None:
        order.append((plugin.resource, len(devices)))
        await offer(plugin, devices)

    async def waited(plugin: Plugin) -> None:
        await handed_over(plugin)
        assert plugin._handed_over == plugin._version
        order.append((plugin.resource, -1))

    monkeypatch.setattr(Plugin, "offer", noted)
    monkeypatch.setattr(Plugin, "handed_over", waited)
    await node.plugins.offer({SMALL: _devices("s1")})
    assert order[:3] == [(GPU, 0), (GPU, -1), (SMALL, 1)]
    await node.until(gpu=0, small=1)


async def test_a_kubelet_that_reads_nothing_is_not_waited_for(node: Node) -> None:
    """Offering ends although the kubelet takes nothing over."""
    await node.plugins.offer({GPU: _devices("a")})
    node.run()
    await node.until(gpu=1)
    plugin = node.plugins._keepers[GPU].plugin
    plugin._streams += 1
    plugin._handed_over = -(10**6)
    plugin._version += 1
    began = time.monotonic()
    await plugin.handed_over()
    assert time.monotonic() - began >= HANDING_OVER / 2
    plugin._streams -= 1


async def test_a_new_kubelet_gets_everything_again(node: Node) -> None:
    """A kubelet that starts anew removes all sockets; the plugins bind and register again, also the empty ones."""
    await node.plugins.offer({GPU: _devices("a"), SMALL: _devices("s")})
    node.run()
    await node.until(gpu=1, small=1)
    await node.plugins.offer({GPU: _devices("a")})
    await node.until(gpu=1, small=0)
    for _ in range(3):
        await node.kubelet.restart()
        assert node.kubelet.allocatable == {}
        await node.until(gpu=1, small=0)
        assert {path.name for path in node.folder.iterdir()} == {
            "kubelet.sock",
            "fake-nvidia-gpu.sock",
            "fake-nvidia_com_mig_1g_5gb.sock",
        }
    await eventually(lambda: node.reason == "", within=10, what="it is in health again")


async def test_a_kubelet_that_stays_away_is_told(node: Node) -> None:
    """Without a kubelet registering fails with a sentence, and works as soon as there is one."""
    await node.kubelet.stop()
    await node.plugins.offer({GPU: _devices("a")})
    node.run()
    await eventually(lambda: "there is no " in node.reason, within=10, what="the missing socket is told")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(node.folder / "kubelet.sock"))
    await eventually(lambda: "no kubelet listens on" in node.reason, within=10, what="the dead socket is told")
    await node.kubelet.start()
    await node.until(gpu=1)
    await eventually(lambda: node.reason == "", within=10, what="it is in health again")


async def test_the_same_inode_is_another_kubelet(tmp_path: Path) -> None:
    """A socket that was removed and made anew is another one, although its inode may be the same."""
    path = tmp_path / "kubelet.sock"
    seen = set()
    for _ in range(5):
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
        found = SocketIdentity.of(path)
        assert found is not None
        seen.add(found)
        path.unlink()
    assert len(seen) == 5
    assert SocketIdentity.of(path) is None


async def test_a_kubelet_whose_socket_alone_is_new_is_noticed(node: Node) -> None:
    """Also a kubelet that left the plugins' sockets alone has forgotten the registrations."""
    await node.plugins.offer({GPU: _devices("a")})
    node.run()
    await node.until(gpu=1)
    await node.kubelet.stop()
    node.kubelet.plugins.clear()
    await node.kubelet.start(keep=True)
    await node.until(gpu=1)


async def test_a_socket_that_somebody_removed_is_made_again(node: Node) -> None:
    """A missing socket is bound and registered anew, with the same kubelet."""
    await node.plugins.offer({GPU: _devices("a")})
    node.run()
    await node.until(gpu=1)
    (node.folder / "fake-nvidia-gpu.sock").unlink()
    await eventually(lambda: node.kubelet.registrations == [GPU, GPU], within=20, what="it is registered again")
    await node.until(gpu=1)
    response = await node.kubelet.allocate(GPU, ["a"])
    assert response.container_responses[0].envs["NODE_NAME"] == "node1"


async def test_a_stream_that_the_kubelet_ends_is_a_lost_registration(node: Node) -> None:
    """A kubelet that lets go of a plugin gets it registered again, with all devices."""
    await node.plugins.offer({GPU: _devices("a"), SMALL: _devices("s")})
    node.run()
    await node.until(gpu=1, small=1)
    await node.kubelet.disconnect(GPU)
    assert node.kubelet.allocatable[GPU] == 0
    await node.until(gpu=1, small=1)
    assert sorted(node.kubelet.registrations) == [GPU, GPU, SMALL]


async def test_registrations_that_hold_are_left_alone(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the kubelet follows, no look finds a reason to register again."""
    looks = 0
    look = Keeper._look

    async def counted(keeper: Keeper) -> None:
        nonlocal looks
        await look(keeper)
        looks += 1

    monkeypatch.setattr(keeping, "LOOK", 0.01)
    monkeypatch.setattr(keeping, "ALONE", 0.0)
    monkeypatch.setattr(keeping, "NOT_FOLLOWED", 0.0)
    monkeypatch.setattr(Keeper, "_look", counted)
    await node.plugins.offer({GPU: _devices("a")})
    node.run()
    await node.until(gpu=1)
    settled, before = looks, len(node.kubelet.registrations)
    await eventually(lambda: looks > settled + 20, within=20, what="it has looked twenty times")
    assert len(node.kubelet.registrations) == before


async def test_one_refused_resource_takes_nothing_from_the_others(node: Node) -> None:
    """A resource that the kubelet refuses is told, tried again, and the others are registered."""
    node.kubelet.refuse = {SMALL}
    await node.plugins.offer({SMALL: _devices("s"), GPU: _devices("a")})
    node.run()
    await node.until(gpu=1)
    await eventually(lambda: f"can not register {SMALL}" in node.reason, within=10, what="the refusal is told")
    await node.plugins.offer({SMALL: _devices("s"), GPU: _devices("a", "b")})
    await node.until(gpu=2)
    node.kubelet.refuse = set()
    await node.until(gpu=2, small=1)
    await eventually(lambda: node.reason == "", within=10, what="all are registered")


async def test_allocations_are_checked(node: Node) -> None:
    """A device that is not there is refused as an invalid argument, and counted."""
    await node.plugins.offer({GPU: _devices("a", "b")})
    node.run()
    await node.until(gpu=2)
    response = await node.kubelet.allocate(GPU, ["a"], ["b"])
    assert [one.envs["MOCK_NVIDIA_VISIBLE_DEVICES"] for one in response.container_responses] == ["a", "b"]
    await node.plugins.offer({GPU: _devices("a")})
    with pytest.raises(aio.AioRpcError) as caught:
        await node.kubelet.allocate(GPU, ["b"])
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == (
        '"b" is no device of nvidia.com/gpu on this Node; it has changed since, or never was one'
    )
    labels = {"resource": GPU}
    assert node.registry.get_sample_value("nicrails_faker_allocations_total", labels) == 2
    assert node.registry.get_sample_value("nicrails_faker_refused_allocations_total", labels) == 1


async def test_preferences_are_answered(node: Node) -> None:
    """The kubelet gets the devices that suit each other, or an invalid argument; the start of a container is taken note of."""
    await node.plugins.offer({GPU: _devices("a", "b", "c")})
    node.run()
    await node.until(gpu=3)
    assert await node.kubelet.preferred(GPU, ["c", "b"], ["c"], 2) == ("c", "b")
    with pytest.raises(aio.AioRpcError) as caught:
        await node.kubelet.preferred(GPU, ["a"], [], 2)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    await node.kubelet.pre_start(GPU, "a")


@contextlib.contextmanager
def _bound(path: Path) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
        yield


async def test_what_a_predecessor_left_is_removed(node: Node) -> None:
    """Stale sockets of ours go at the start; other sockets and files stay."""
    for name in ("fake-nvidia_com_mig_9g_99gb.sock", "fake-nvidia-gpu.sock", "nvidia-gpu.sock"):
        with _bound(node.folder / name):
            pass
    (node.folder / "fake-file.sock").write_text("")
    (node.folder / "kubelet_internal_checkpoint").write_text("{}")
    await node.plugins.offer({GPU: _devices("a")})
    node.run()
    await node.until(gpu=1)
    assert {path.name for path in node.folder.iterdir()} == {
        "kubelet.sock",
        "fake-nvidia-gpu.sock",
        "nvidia-gpu.sock",
        "fake-file.sock",
        "kubelet_internal_checkpoint",
    }


async def test_names_that_come_out_alike_get_sockets_of_their_own(node: Node) -> None:
    """Two resources whose sockets would have the same name are both served."""
    await node.plugins.offer({"a-b.example/c": _devices("x"), "a.b.example/c": _devices("y", "z")})
    node.run()
    await eventually(
        lambda: node.kubelet.allocatable == {"a-b.example/c": 1, "a.b.example/c": 2}, within=20, what="both are there"
    )
    assert node.kubelet.devices("a-b.example/c") == ("x",)
    assert len({one.endpoint for one in node.kubelet.plugins.values()}) == 2


async def test_the_end_leaves_no_socket(node: Node) -> None:
    """When the plugins end their sockets are gone and the kubelet counts nothing; successors take over."""
    await node.plugins.offer({GPU: _devices("a")})
    node.run()
    await node.until(gpu=1)
    await node.end()
    assert {path.name for path in node.folder.iterdir()} == {"kubelet.sock"}
    await node.until(gpu=0)
    node.plugins = node.new_plugins()
    await node.plugins.offer({GPU: _devices("a", "b")})
    node.run()
    await node.until(gpu=2)


async def test_a_folder_that_is_missing_is_told(tmp_path: Path) -> None:
    """Without the kubelet's folder it says so, and begins when the folder is there."""
    node = Node(tmp_path / "missing")
    await node.plugins.offer({GPU: _devices("a")})
    node.run()
    try:
        await eventually(lambda: "mount the kubelet's folder" in node.reason, within=10, what="the folder is told")
        node.folder.mkdir()
        await node.kubelet.start()
        await node.until(gpu=1)
    finally:
        await node.end()
        await node.kubelet.stop()


async def test_a_path_that_can_not_be_bound_is_told(node: Node) -> None:
    """A folder in the place of a socket is told with what to do, and does not end the others."""
    (node.folder / "fake-nvidia-gpu.sock").mkdir()
    await node.plugins.offer({GPU: _devices("a"), SMALL: _devices("s")})
    node.run()
    await node.until(small=1)
    await eventually(lambda: f"can not serve {GPU} on" in node.reason, within=10, what="the path is told")
    (node.folder / "fake-nvidia-gpu.sock").rmdir()
    await node.until(gpu=1, small=1)


async def test_an_empty_node_is_in_health(node: Node) -> None:
    """A Node that offers nothing has nothing to register."""
    node.run()
    await node.plugins.offer({})
    assert node.reason == ""
