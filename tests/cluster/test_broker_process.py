"""The broker as a process of its own: how it starts, ends, is killed, and what it takes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
import yaml

from nicrails_broker.sources import Command
from nicrails_faker.machines import Answer
from tests.broker.site import Site, install, make_site
from tests.cluster.controlplane import ControlPlane
from tests.cluster.kubelet import FakeKubelet, hangs
from tests.cluster.process import Daemon
from tests.cluster.world import World
from tests.support import faults
from tests.support.ports import release_port, reserve_port
from tests.support.proxy import FaultProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs("control-plane")

MIB = 1024 * 1024
GRACE = 5.0


class Process:
    """``nicrails-broker run`` on a site."""

    def __init__(self, site: Site, folder: Path) -> None:
        self._site = site
        self._folder = folder
        self._daemons: list[Daemon] = []

    def write_config(self, *, port: int = 0) -> Path:
        """The settings file."""
        rails = self._site.machine.machine.settings
        config = self._folder / "broker.yaml"
        config.write_text(
            yaml.safe_dump(
                {
                    "nodeMetadata": {
                        "plugins": {
                            "gpuNicRailMapping": {
                                "startJitter": 0,
                                "refreshInterval": "1s",
                                "verifyInterval": "1s",
                                "railSource": {
                                    "hostLLDP": {"interfaceRegex": rails.interface_regex, "railID": rails.rail_id}
                                },
                                "gpuSource": {"gpuOperatorNamespace": self._site.world.namespace, "timeout": "30s"},
                            }
                        }
                    },
                    "host": {
                        "sysfsRoot": str(self._site.machine.sysfs_root),
                        "lldpctl": str(self._site.machine.lldpctl),
                    },
                    "server": {"address": "127.0.0.1", "port": port},
                }
            )
        )
        return config

    def start(self, kubeconfig: Path | None = None, *, port: int = 0, **environment: str) -> Daemon:
        """Start one."""
        config = self.write_config(port=port)
        daemon = Daemon(
            f"broker-{len(self._daemons)}",
            [
                *(sys.executable, "-m", "nicrails_broker", "run", "--config", str(config)),
                *("--kubeconfig", str(kubeconfig or self._site.kubeconfig)),
            ],
            self._folder,
            {
                **os.environ,
                "NODE_NAME": self._site.name,
                "POD_NAMESPACE": self._site.world.namespace,
                **environment,
            },
        )
        self._daemons.append(daemon)
        daemon.start()
        return daemon

    def end(self) -> None:
        """Kill what is left."""
        for daemon in self._daemons:
            daemon.kill()


@pytest_asyncio.fixture
async def site(control_plane: ControlPlane, world: World, kubelet: FakeKubelet, tmp_path: Path) -> Site:
    """A Node with GPUs, the GPU Operator's pod and the observer's ConfigMap."""
    machine = install("h100-8gpu-dual-port", tmp_path / "h100-8gpu-dual-port")
    site = await make_site(world, machine, control_plane.kubeconfig(tmp_path / "kubeconfig"), kubelet)
    await site.make_operator()
    await site.make_config_map()
    return site


@pytest.fixture
def process(site: Site, tmp_path: Path) -> Iterator[Process]:
    """Starts brokers, and ends them afterwards."""
    made = Process(site, tmp_path)
    yield made
    made.end()


async def ends(daemon: Daemon, number: signal.Signals = signal.SIGTERM) -> tuple[int, float]:
    """Send a signal and wait for the end; the exit status and the seconds it took."""
    process = daemon._process
    assert process is not None
    started = time.monotonic()
    process.send_signal(number)
    await eventually(lambda: process.poll() is not None, within=15, what="the broker has ended")
    return process.returncode, time.monotonic() - started


def lines(daemon: Daemon) -> list[dict[str, object]]:
    """The log, each line of which must be JSON."""
    return [json.loads(line) for line in daemon.log.read_text().splitlines()]


def events(daemon: Daemon) -> list[object]:
    """The names of the log's events."""
    return [line["event"] for line in lines(daemon)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.fault("F10")
async def test_a_signal_ends_an_idle_broker(site: Site, process: Process, number: signal.Signals) -> None:
    """F10: SIGTERM and SIGINT end the broker with status 0 at once; the record stays; its log is JSON throughout."""
    daemon = process.start()
    await site.published()
    status, seconds = await ends(daemon, number)
    assert status == 0
    assert seconds < GRACE
    assert await site.record() == site.expected()
    assert events(daemon)[-1] == "stopping"


@pytest.mark.fault("F10")
async def test_a_signal_ends_a_broker_that_waits(site: Site, process: Process, tmp_path: Path) -> None:
    """F10: a broker in the middle of a long back-off ends at once."""
    kubeconfig = tmp_path / "nowhere"
    document = yaml.safe_load(site.kubeconfig.read_text())
    document["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    kubeconfig.write_text(yaml.safe_dump(document))
    daemon = process.start(kubeconfig)
    await eventually(lambda: daemon.log.exists() and "step-failed" in events(daemon), within=15, what="a failure")
    status, seconds = await ends(daemon)
    assert (status, seconds < GRACE) == (0, True)


@pytest.mark.fault("F10")
async def test_a_signal_ends_a_broker_in_an_exec(site: Site, process: Process) -> None:
    """F10: a hanging exec is given up: its WebSocket is closed and the process ends in time."""
    assert site.kubelet is not None
    site.kubelet.answers(Command.TOPOLOGY.argv, hangs(b"GPU0"))
    daemon = process.start()

    def hanging() -> bool:
        assert site.kubelet is not None
        return any(asked.command == Command.TOPOLOGY.argv for asked in site.kubelet.asked)

    await eventually(hanging, within=15, what="the exec hangs")
    status, seconds = await ends(daemon)
    assert (status, seconds < GRACE) == (0, True)
    for asked in site.kubelet.asked:
        await asyncio.wait_for(asked.over.wait(), 5)
    assert await site.record() is None


@pytest.mark.fault("F10")
async def test_a_signal_ends_a_broker_in_a_patch(
    control_plane: ControlPlane, site: Site, process: Process, tmp_path: Path
) -> None:
    """F10: a patch whose answer does not come is given up; whether it was done is left open."""
    release = asyncio.Event()
    async with FaultProxy(control_plane.endpoint) as proxy:
        with proxy.rule(faults.held_back(release), method="PATCH"):
            daemon = process.start(proxy.kubeconfig(tmp_path / "proxied"))
            await site.published()
            status, seconds = await ends(daemon)
            assert (status, seconds < GRACE) == (0, True)
            release.set()
    assert await site.record() == site.expected()


@pytest.mark.fault("B12")
async def test_nothing_is_written_after_the_signal(
    control_plane: ControlPlane, site: Site, process: Process, tmp_path: Path
) -> None:
    """B12: a broker that was told to end between its look and its patch does not patch any more."""
    release = asyncio.Event()
    async with FaultProxy(control_plane.endpoint) as proxy:
        with proxy.rule(faults.held_back(release), method="GET", path="configmaps"):
            daemon = process.start(proxy.kubeconfig(tmp_path / "proxied"))
            await eventually(lambda: proxy.requests("GET", "configmaps"), within=20, what="the look is under way")
            status, _ = await ends(daemon)
            release.set()
        assert status == 0
        assert proxy.requests("PATCH") == []
    assert await site.record() is None


@pytest.mark.parametrize("done", [False, True], ids=["before-it-is-done", "after-it-was-done"])
async def test_a_killed_publication_is_healed(
    control_plane: ControlPlane, site: Site, process: Process, tmp_path: Path, done: bool
) -> None:
    """A broker that is killed in the middle of its patch leaves the old record or the new one, and its successor the new."""
    await site.world.api.merge_patch(site.path, {"data": {site.name: "old", "another-node": "x"}})
    release = asyncio.Event()
    fault = faults.held_back(release) if done else faults.held(release)
    async with FaultProxy(control_plane.endpoint) as proxy:
        with proxy.rule(fault, method="PATCH"):
            daemon = process.start(proxy.kubeconfig(tmp_path / "proxied"))
            await eventually(lambda: proxy.requests("PATCH"), within=20, what="the patch is under way")
            if done:
                await site.published()
            await asyncio.to_thread(daemon.kill)
            assert await site.record() == (site.expected() if done else b"old")
    process.start()
    await site.published()
    assert (await site.config_map() or {})["data"]["another-node"] == "x"


@pytest.mark.fault("F13")
async def test_a_port_that_is_taken_is_one_line(site: Site, process: Process) -> None:
    """F13: a taken port ends the process with status 1 and one line that names it and the settings."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        daemon = process.start(port=port)
        running = daemon._process
        assert running is not None
        await eventually(lambda: running.poll() is not None, within=15, what="the broker has ended")
    assert running.returncode == 1
    assert re.fullmatch(
        rf"can not listen on 127\.0\.0\.1 port {port}: .*server\.address and server\.port\n", daemon.log.read_text()
    )
    assert await site.record() is None


async def test_a_discovery_asks_the_cluster_and_publishes_nothing(site: Site, process: Process) -> None:
    """``discover`` with API access prints the record with the Node's UID and leaves the ConfigMap as it is."""
    before = await site.config_map()
    config = process.write_config()
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "nicrails_broker", "discover", "--config", str(config)),
        *("--kubeconfig", str(site.kubeconfig)),
        env={**os.environ, "NODE_NAME": site.name},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await running.communicate()
    assert (running.returncode, errors) == (0, b"")
    assert out == site.expected() + b"\n"
    assert await site.config_map() == before


@pytest.mark.fault("F11")
async def test_a_broker_that_stands_still_is_not_live(site: Site, process: Process) -> None:
    """F11: ``/livez`` does not answer while the process stands still, which is what a liveness probe catches."""
    port = reserve_port()
    daemon = process.start(port=port)
    await site.published()

    async def live() -> bool:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=0.5)) as session:
            try:
                async with session.get(f"http://127.0.0.1:{port}/livez") as response:
                    return response.status == 200
            except TimeoutError:
                return False

    assert await live()
    daemon.pause()
    assert not await live()
    daemon.resume()
    assert await live()
    release_port(port)


async def test_a_broker_is_small(site: Site, process: Process) -> None:
    """After several publications the process has at most 64 MiB resident, without GPU libraries or model classes."""
    daemon = process.start()
    await site.published()
    for answer in (b'{"lldp": [{}]}', None) * 2:
        if answer is None:
            site.machine.heal()
            await site.published()
        else:
            site.machine.answer(Answer.LLDP, answer)
            await site.published(lambda value: value is None)
    status = await asyncio.to_thread(Path(f"/proc/{daemon.pid}/status").read_text)
    resident = int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]  # Linux always has it
    assert resident <= 64 * MIB, f"{resident / MIB:.1f} MiB"
