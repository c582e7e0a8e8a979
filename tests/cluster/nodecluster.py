"""A whole real cluster on this machine: a control plane with its scheduler and controllers, and real nodes.

The control plane lives in a network namespace that the nodes hang on by a bridge; the Service address of the API server
is an address of that namespace, so pods reach it without a service proxy. This machine has one foot in that network.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.cluster.controlplane import ControlPlane, ControlPlaneError, Place
from tests.cluster.image import write_image
from tests.cluster.lldpd import RAILS, LldpLab
from tests.cluster.node import PAUSE, Address, RealNode
from tests.cluster.process import Daemon
from tests.support.reaper import reaper
from tests.support.waiting import NotInTimeError, eventually_sync

SERVICE = "10.96.0.1"
_NETWORKS = 100


class NodeCluster:
    """One running cluster; ``running`` makes one.

    Attributes:
        plane: Its control plane, with the administrator's credentials.
        nodes: By name: ``node1``, ``node2``.
        folder: Where its files and logs are.
        kubeconfig: The administrator's.
    """

    def __init__(self, programs: Mapping[str, Path], folder: Path, number: int, holder: int) -> None:
        self.folder = folder
        self.programs = programs
        self._number = number
        self._holder = holder
        self.nodes: dict[str, RealNode] = {}
        inside = ["nsenter", f"--net=/proc/{holder}/ns/net"]
        (folder / "plane").mkdir()
        self.plane = ControlPlane(
            programs,
            folder / "plane",
            # Pods come by the Service address, which is another one of the namespace.
            api_server_args=["--bind-address=0.0.0.0", "--service-cluster-ip-range=10.96.0.0/16"],
            controllers=["*"],
            # So that a test need not wait 50 s until a Node counts as lost.
            controller_args=["--node-monitor-grace-period=8s", "--node-monitor-period=1s"],
            place=Place(address=f"10.77.{number}.1", port=443, inside=inside),
        )
        self.kubeconfig = self.plane.kubeconfig(folder / "kubeconfig")
        options = [f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--secure-port=0"]
        self._scheduler = Daemon("kube-scheduler", [*inside, str(programs["kube-scheduler"]), *options], folder)

    @classmethod
    @contextlib.contextmanager
    def running(
        cls, programs: Mapping[str, Path], *, nodes: int = 2, rails: Sequence[Sequence[str]] = (RAILS, RAILS)
    ) -> Iterator[Self]:
        """A cluster in a temporary folder whose Nodes are Ready, ended and removed afterwards.

        Args:
            programs: ``programs.find()``.
            nodes: How many Nodes.
            rails: The interfaces of each that have a neighbour.

        Raises:
            ControlPlaneError: It did not come up.
        """
        with contextlib.ExitStack() as stack:
            name = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="nicrails-nodes-", ignore_cleanup_errors=True)
            )
            folder = Path(name)
            folder.chmod(0o755)
            undo = reaper().folder(folder)
            stack.callback(reaper().forget, undo)
            holder = Daemon("network", ["unshare", "--net", "sleep", "infinity"], folder)
            holder.start()
            stack.callback(holder.kill)
            number = _connect(holder)
            cluster = cls(programs, folder, number, holder.pid)
            stack.callback(cluster._stop)
            cluster._start()
            write_image(PAUSE, programs["pause"], folder / "pause.tar")
            for index in range(1, nodes + 1):
                cluster._add_node(index, stack.enter_context(cluster._lab(index, rails[index - 1])))
            cluster._wait_ready()
            yield cluster

    def import_image(self, archive: Path) -> None:
        """Make the images of an archive known to all Nodes."""
        for node in self.nodes.values():
            node.import_image(archive)

    def kubectl(self, *arguments: str, within: float = 30) -> str:
        """Run kubectl as administrator; its output.

        Raises:
            AssertionError: It failed.
        """
        argv = [str(self.programs["kubectl"]), f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(
            argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, timeout=within
        )
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr[-1000:]}"
        return done.stdout

    def log_tail(self, lines: int = 15) -> str:
        """The last lines of every log."""
        return "\n".join([self.plane.log_tail(lines), *(node.log_tail(lines) for node in self.nodes.values())])

    def _start(self) -> None:
        self._inside("ip", "addr", "add", f"{SERVICE}/32", "dev", "lo")
        self.plane.start()
        self._scheduler.start()

    @contextlib.contextmanager
    def _lab(self, index: int, rails: Sequence[str]) -> Iterator[LldpLab]:
        socket = self.folder / f"node{index}" / "host" / "lldpd" / "lldpd.socket"
        socket.parent.mkdir(parents=True)
        with LldpLab.running(rails, socket=socket) as lab:
            yield lab

    def _add_node(self, index: int, lab: LldpLab) -> None:
        number = self._number
        address = Address(
            name=f"node{index}",
            node=f"10.77.{number}.{10 + index}",
            gateway=f"10.77.{number}.1",
            pods=f"10.{128 + number}.{index}",
        )
        name = f"nicrails{number}n{index}"
        self._inside("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(lab.host.holder))
        self._inside("ip", "link", "set", name, "master", "br0", "up")
        self._inside("ip", "route", "add", f"{address.pods}.0/24", "via", address.node)
        lab.host.run("ip", "link", "set", "lo", "up")
        lab.host.run("ip", "addr", "add", f"{address.node}/24", "dev", "eth0")
        lab.host.run("ip", "link", "set", "eth0", "up")
        lab.host.run("ip", "route", "add", "default", "via", address.gateway)
        lab.host.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        node = RealNode(
            address,
            self.folder / address.name,
            self.plane,
            self.programs,
            lab=lab,
            cgroup=f"nicrails{number}-{address.name}",
        )
        self.nodes[node.name] = node
        node.start()
        node.import_image(self.folder / "pause.tar")
        node.kubelet.start()

    def _wait_ready(self) -> None:
        def ready() -> bool:
            for name in self.nodes:
                conditions = self.plane.request("GET", f"/api/v1/nodes/{name}")["status"].get("conditions", [])
                found = {one["type"]: one["status"] for one in conditions}
                assert found.get("Ready") == "True", (name, conditions)
            return True

        def looked() -> bool:
            try:
                return ready()
            except ControlPlaneError as error:
                raise AssertionError(str(error)) from error

        try:
            eventually_sync(looked, within=90, what="all Nodes are Ready", interval=0.2)
        except NotInTimeError as error:
            raise ControlPlaneError(f"{error}; the logs end with\n{self.log_tail()}") from error

    def _stop(self) -> None:
        for node in self.nodes.values():
            node.stop()
        self._scheduler.kill()
        self.plane.stop()

    def _inside(self, *argv: str) -> None:
        _run("nsenter", f"--net=/proc/{self._holder}/ns/net", *argv)


def _connect(holder: Daemon) -> int:
    """Wire the control plane's network to this machine; the number of the network, which no other cluster has."""

    def entered() -> bool:
        return Path(f"/proc/{holder.pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()

    eventually_sync(entered, within=10, what="the network namespace of the control plane is made", interval=0.005)
    inside = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
    for number in range(_NETWORKS):
        name = f"nicrails{number}"
        # Two clusters cannot make an interface of the same name, so the name is the lock.
        made = subprocess.run(
            ["ip", "link", "add", name, "type", "veth", "peer", "name", "foot", "netns", str(holder.pid)],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode == 0:
            break
        assert "File exists" in made.stderr, made.stderr
    else:
        raise ControlPlaneError(f"{_NETWORKS} clusters are up on this machine; end one of them")
    _run(*inside, "ip", "link", "set", "lo", "up")
    _run(*inside, "ip", "link", "add", "br0", "type", "bridge")
    _run(*inside, "ip", "addr", "add", f"10.77.{number}.1/24", "dev", "br0")
    _run(*inside, "ip", "link", "set", "br0", "up")
    _run(*inside, "ip", "link", "set", "foot", "master", "br0", "up")
    _run(*inside, "sysctl", "-qw", "net.ipv4.ip_forward=1")
    _run("ip", "addr", "add", f"10.77.{number}.254/24", "dev", name)
    _run("ip", "link", "set", name, "up")
    return number


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, timeout=20)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
