"""A real Node on this machine: kubelet, containerd and lldpd in network, process, mount and cgroup places of their own.

Nothing of it is visible outside but its cgroups, and all of it ends with the first process of its process namespace.
Needs root, runc and the CNI plugins.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.controlplane import ControlPlane
from tests.cluster.lldpd import LldpLab
from tests.cluster.process import Daemon
from tests.support.reaper import reaper
from tests.support.waiting import eventually_sync

CNI_PLUGINS = Path("/usr/lib/cni")
HOST = Path("/var/lib/nicrails-host")
"""What pods mount of the node: its simulated ``/sys`` and the folder of lldpd's socket."""
KUBELET = Path("/var/lib/kubelet")
FAKER = Path("/var/lib/nicrails-faker")
PAUSE = "localhost/pause:1"

_CGROUPS = Path("/sys/fs/cgroup")

# The kubelet's device plugin folder is a constant in its code, so every node has a mount of its own there; and two
# kubelets would remove each other's logs as orphans.
_START = f"""
mount --make-rprivate /
mkdir -p {KUBELET} {HOST} {FAKER} /run/netns
mount --bind "$1/kubelet" {KUBELET}
mount --bind "$1/host" {HOST}
mount --bind "$1/faker" {FAKER}
mount --bind "$1/log" /var/log
mount -t tmpfs tmpfs /run/netns
mount --make-rshared /
exec "$2"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a node is.

    Attributes:
        name: The Node's name.
        node: Its IP address.
        gateway: Of its network.
        pods: The first three numbers of its pods' addresses.
    """

    name: str
    node: str
    gateway: str
    pods: str


class RealNode:
    """One node.

    Args:
        address: Name and addresses.
        folder: For all its files.
        plane: The control plane that it joins.
        programs: ``programs.find()``.
        lab: The network namespace with its rails and lldpd.
        cgroup: The name of its cgroups.

    Attributes:
        name: The Node's name.
        host: The folder that is ``/var/lib/nicrails-host`` on the node.
        faker: The folder that is ``/var/lib/nicrails-faker`` on the node.
        lab: The network namespace with its rails and lldpd.
        kubelet: The kubelet, to stop and start.
        containerd: The container runtime.
    """

    def __init__(
        self,
        address: Address,
        folder: Path,
        plane: ControlPlane,
        programs: Mapping[str, Path],
        *,
        lab: LldpLab,
        cgroup: str,
    ) -> None:
        self.name = address.name
        self.address = address
        self.lab = lab
        self._folder = folder
        self._plane = plane
        self._programs = programs
        self._cgroup = cgroup
        self._undo: list[int] = []
        self.host = folder / "host"
        self.faker = folder / "faker"
        self._ctr = [str(programs["ctr"]), "-a", str(folder / "containerd.sock"), "-n", "k8s.io"]
        for name in ("containerd", "kubelet", "cni", "host/lldpd", "host/sys", "faker", "log"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        enter = ["nsenter", f"--net=/proc/{lab.host.holder}/ns/net"]
        start = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-ec", _START, "sh"]
        self._first = Daemon("init", [*enter, *start, str(folder), str(programs["pause"])], folder)

    def start(self) -> None:
        """Start everything; the Node is not ready yet when this returns."""
        self._make_cgroups()
        self._configure()
        self._first.start()
        eventually_sync(self._entered, within=10, what=f"the namespaces of {self.name} are made")
        # containerd looks for its shim on PATH.
        path = f"{self._programs['containerd'].parent}:/usr/sbin:/usr/bin:/sbin:/bin"
        environment = {"PATH": path, "HOME": str(self._folder), "LANG": "C.UTF-8"}
        options = ["-c", str(self._folder / "containerd.toml")]
        self.containerd = Daemon(
            "containerd",
            [*self.inside, str(self._programs["containerd"]), *options],
            self._folder,
            environment,
            behind=True,
        )
        self.containerd.start()
        eventually_sync(self._runtime_answers, within=30, what=f"containerd on {self.name} answers", interval=0.1)
        options = [
            f"--config={self._folder / 'kubelet.yaml'}",
            f"--kubeconfig={self._folder / 'kubelet.kubeconfig'}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address.node}",
            f"--cert-dir={self._folder / 'pki'}",
        ]
        self.kubelet = Daemon(
            "kubelet",
            [*self.inside, str(self._programs["kubelet"]), *options],
            self._folder,
            environment,
            behind=True,
        )

    def import_image(self, archive: Path) -> None:
        """Make the images of an archive known to the node, under their names.

        Raises:
            AssertionError: containerd refused.
        """
        self.run(*self._ctr, "images", "import", str(archive), within=120)

    def kill_container(self, container: str) -> None:
        """End a container's process as the kernel does when memory is short.

        Args:
            container: Its ID.
        """
        self.run(*self._ctr, "tasks", "kill", "--signal", "SIGKILL", container)

    def run(self, *argv: str, within: float = 20) -> str:
        """Run a command on the node; its output.

        Raises:
            AssertionError: It failed.
        """
        done = subprocess.run(
            [*self.inside, *argv], capture_output=True, stdin=subprocess.DEVNULL, check=False, timeout=within
        )
        said = f"{done.stdout[-500:].decode(errors='replace')} {done.stderr[-1000:].decode(errors='replace')}"
        assert done.returncode == 0, f"{argv}: status {done.returncode}: {said}"
        return done.stdout.decode(errors="replace")

    def stop(self) -> None:
        """End everything on the node and remove its cgroups."""
        self._first.kill()
        for daemon in (getattr(self, "kubelet", None), getattr(self, "containerd", None)):
            if daemon is not None:
                daemon.kill()
        for folder in self._cgroup_folders():
            _remove_cgroup(folder)
        for number in self._undo:
            reaper().forget(number)

    def log_tail(self, lines: int = 15) -> str:
        """The last lines of the node's logs."""
        daemons = [daemon for daemon in (getattr(self, "containerd", None), getattr(self, "kubelet", None)) if daemon]
        return "\n".join(f"--- {daemon.log}\n{daemon.tail(lines)}" for daemon in [self._first, *daemons])

    @property
    def inside(self) -> Sequence[str]:
        """The command that enters the node's network, processes and mounts."""
        return ["nsenter", f"--target={self._child()}", "--net", "--mount", "--pid", "--"]

    def _child(self) -> int:
        """The first process of the process namespace, by its id here."""
        children = Path(f"/proc/{self._first.pid}/task/{self._first.pid}/children").read_text().split()
        assert children, f"no process namespace: {self._first.tail()}"
        return int(children[0])

    def _entered(self) -> bool:
        if not self._first.running:
            raise RuntimeError(f"{self.name} has no namespaces: {self._first.tail()}")
        program = Path(f"/proc/{self._child()}/comm").read_text().strip()
        return program == self._programs["pause"].name

    def _runtime_answers(self) -> bool:
        if not self.containerd.running:
            raise RuntimeError(f"containerd ended while it started: {self.containerd.tail()}")
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            self.run(*self._ctr, "version", within=5)
            return True
        return False

    def _cgroup_folders(self) -> list[Path]:
        if (_CGROUPS / "cgroup.controllers").exists():
            return [_CGROUPS / self._cgroup]
        return [folder / self._cgroup for folder in sorted(_CGROUPS.iterdir()) if folder.is_dir()]

    def _make_cgroups(self) -> None:
        for folder in self._cgroup_folders():
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
            self._undo.append(
                reaper().command(["find", str(folder), "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"])
            )
            for name in ("cpuset.cpus", "cpuset.mems"):  # version 1: empty at first, and unusable until filled
                if (folder.parent / name).is_file():
                    (folder / name).write_text((folder.parent / name).read_text())

    def _configure(self) -> None:
        pair = self._plane.authority.issue(
            f"kubelet-{self.name}",
            common_name=f"system:node:{self.name}",
            groups=["system:nodes"],
            addresses=[self.address.node],
            hosts=[self.name],
        )
        cluster = {"server": self._plane.endpoint.url, "certificate-authority": str(self._plane.authority.file)}
        user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
        _write(
            self._folder / "kubelet.kubeconfig",
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "test", "cluster": cluster}],
                "users": [{"name": "node", "user": user}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "node"}}],
                "current-context": "test",
            },
        )
        _write(
            self._folder / "kubelet.yaml",
            {
                "apiVersion": "kubelet.config.k8s.io/v1beta1",
                "kind": "KubeletConfiguration",
                "authentication": {
                    "anonymous": {"enabled": False},
                    "webhook": {"enabled": True},
                    "x509": {"clientCAFile": str(self._plane.authority.file)},
                },
                "authorization": {"mode": "Webhook"},
                "tlsCertFile": str(pair.certificate),
                "tlsPrivateKeyFile": str(pair.key),
                "cgroupDriver": "cgroupfs",
                "cgroupRoot": f"/{self._cgroup}",
                "failCgroupV1": False,
                "enforceNodeAllocatable": [],
                "containerRuntimeEndpoint": f"unix://{self._folder / 'containerd.sock'}",
                "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
                "failSwapOn": False,
                "localStorageCapacityIsolation": False,
                # So that a test sees within a second what a production node reports within ten.
                "nodeStatusUpdateFrequency": "1s",
                "syncFrequency": "2s",
                # The usual pause between two starts of a failing container would make tests as long.
                "crashLoopBackOff": {"maxContainerRestartPeriod": "2s"},
                "featureGates": {"KubeletCrashLoopBackOffMax": True},
            },
        )
        _write(
            self._folder / "cni" / "10-bridge.conflist",
            {
                "cniVersion": "0.4.0",
                "name": "pods",
                "plugins": [
                    {
                        "type": "bridge",
                        "bridge": "cni0",
                        "isGateway": True,
                        "hairpinMode": True,
                        "ipam": {
                            "type": "host-local",
                            "dataDir": str(self._folder / "ipam"),
                            "ranges": [[{"subnet": f"{self.address.pods}.0/24"}]],
                            "routes": [{"dst": "0.0.0.0/0"}],
                        },
                    }
                ],
            },
        )
        # Without CAP_SYS_RESOURCE no process may lower its score, and every sandbox would die of that.
        (self._folder / "containerd.toml").write_text(
            f"""version = 3
root = "{self._folder}/containerd/root"
state = "{self._folder}/containerd/state"
[grpc]
  address = "{self._folder}/containerd.sock"
[plugins."io.containerd.nri.v1.nri"]
  disable = true
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    options = {{SystemdCgroup = false}}
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{CNI_PLUGINS}"]
    conf_dir = "{self._folder}/cni"
"""
        )


def _write(file: Path, document: object) -> None:
    file.write_text(json.dumps(document))  # JSON is YAML too


def _remove_cgroup(folder: Path) -> None:
    """Remove a cgroup and all below; processes that are just ending hold it for a moment."""
    deadline = time.monotonic() + 5
    while folder.exists():
        for path, _, _ in os.walk(folder, topdown=False):
            with contextlib.suppress(OSError):
                Path(path).rmdir()
        if time.monotonic() > deadline:
            return
        time.sleep(0.02)


def missing_tools() -> str | None:
    """What a node needs of this machine and does not have, or None."""
    missing = [
        name
        for name in ("runc", "iptables", "unshare", "nsenter", "ip", "sysctl", "curl", "pgrep")
        if shutil.which(name) is None
    ]
    if missing:
        return f"{', '.join(missing)} not on PATH"
    plugins = [name for name in ("bridge", "host-local", "loopback") if not (CNI_PLUGINS / name).exists()]
    return f"no CNI plugin {', '.join(plugins)} in {CNI_PLUGINS}" if plugins else None
