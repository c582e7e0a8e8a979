"""A real two-node cluster with the chart installed, to play with: ``make cluster`` brings it up, ``make cluster-down`` ends it.

The cluster lives as long as a process in the background; everything of it ends with that process.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO

from tests.cluster import programs
from tests.cluster.controlplane import ControlPlaneError
from tests.cluster.nodecluster import NodeCluster
from tests.e2e.images import TAG, ImagesError, archives
from tests.e2e.site import CONFIG_MAP, MACHINES, NAMESPACE, OPERATOR, PLUGIN, Site, rails
from tests.support.needs import NEEDS, missing
from tests.support.waiting import NotInTimeError, eventually_sync

HELP = """\
A real Kubernetes {version} is up: two Nodes with kubelet, containerd and lldpd, simulated GPU machines, a stand-in for the
GPU Operator, and the chart as release nicrails in namespace {namespace}.

In this folder:

  export KUBECONFIG={kubeconfig} PATH={programs}:$PATH
  kubectl get nodes,pods --all-namespaces
  kubectl -n {namespace} get configmap {config_map} -o yaml
  kubectl -n {namespace} logs daemonset/nicrails-broker
  helm test nicrails -n {namespace} --logs
  helm upgrade nicrails helm/nicrails -n {namespace} --reuse-values \\
      --set 'nodeMetadata.plugins.gpuNicRailMapping.railSource.hostLLDP.railID=fabric-$1'
  kubectl delete node node2         # its record goes; the Node comes back only with a new cluster
  kubectl -n {namespace} get configmap {config_map} -o yaml

Fake GPUs and fake MIG (docs/mig.md) instead of the stand-in, on node1:

  kubectl -n {operator} delete daemonset {plugin}
  kubectl label node node1 run.ai/simulated-gpu-node-pool=default node-role.kubernetes.io/runai-dynamic-mig=true
  helm upgrade nicrails helm/nicrails -n {namespace} --reuse-values --set faker.enabled=true,faker.image.tag={tag}
  kubectl annotate node node1 run.ai/mig.config='{{version: v1, mig-configs: {{a: [{{devices: [0], mig-enabled: true, mig-devices: {{"1g.5gb": 7}}}}]}}}}'
  kubectl get node node1 -o jsonpath='{{.status.allocatable}}'

The Nodes' hosts: {folder}/node*/host (simulated /sys, nvidia-smi, lldpd's socket). Logs: {folder}
`make cluster-down` ends it and removes its data.
"""


def main(argv: list[str]) -> int:
    """``up`` (the default), ``down``, or ``hold``, the process in the background; an exit status."""
    state = programs.cache().parents[2] / "node-cluster"
    state.mkdir(parents=True, exist_ok=True)
    verb = argv[0] if argv else "up"
    if verb == "hold":
        return _hold(state)
    # Append mode: an open that truncates would wipe the running one's process id.
    with (state / "pid").open("a+") as owner:
        return _down(owner) if verb == "down" else _up(state, owner)


def _up(state: Path, owner: IO[str]) -> int:
    causes = [
        f"{cause}: {NEEDS[need].remedy}" for need in ("nodes", "images", "helm", "lldpd") if (cause := missing(need))
    ]
    if causes:
        alone = "without nodes: `python -m tests.cluster` runs a control plane alone"
        return _fail("\n".join(["this machine cannot run real nodes yet:", *causes, alone]))
    if not _lock(owner):
        return _fail(f"a cluster is up already: export KUBECONFIG={state / 'kubeconfig'}; `make cluster-down` ends it")
    ready = state / "ready"
    ready.unlink(missing_ok=True)
    log = state / "log"
    _say("building the images and starting the cluster")
    with log.open("wb") as out:
        # The lock goes along with the file, so that it is held as long as the cluster lives.
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e", "hold"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=[owner.fileno()],
        )
    owner.truncate(0)
    owner.write(str(process.pid))
    owner.flush()
    while not ready.exists():
        try:
            process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            continue
        return _fail(f"the cluster did not come up; its log ends with\n{log.read_text()[-3000:]}")
    sys.stdout.write(ready.read_text())
    return 0


def _hold(state: Path) -> int:
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        images = archives()
        with NodeCluster.running(programs.find(), rails=[rails(name) for name in MACHINES.values()]) as cluster:
            for archive in images.values():
                cluster.import_image(archive)
            shutil.copy(cluster.kubeconfig, state / "kubeconfig")
            with tempfile.TemporaryDirectory() as folder, Site.on(cluster, Path(folder)) as site:
                site.install()
                _wait(cluster)
                _write_help(state, cluster)
                ended.wait()
    except (ControlPlaneError, ImagesError, AssertionError) as error:
        return _fail(str(error))
    finally:
        for name in ("kubeconfig", "ready"):
            (state / name).unlink(missing_ok=True)
    return 0


def _wait(cluster: NodeCluster) -> None:
    for kind in ("daemonset/nicrails-broker", "deployment/nicrails-observer"):
        cluster.kubectl("-n", NAMESPACE, "rollout", "status", kind, "--timeout=90s", within=100)
    cluster.kubectl("-n", OPERATOR, "get", "pods")


def _write_help(state: Path, cluster: NodeCluster) -> None:
    text = HELP.format(
        version=cluster.plane.request("GET", "/version")["gitVersion"],
        namespace=NAMESPACE,
        config_map=CONFIG_MAP,
        kubeconfig=state / "kubeconfig",
        programs=f"{cluster.programs['kubectl'].parent}:{cluster.programs['helm'].parent}",
        operator=OPERATOR,
        plugin=PLUGIN,
        tag=TAG,
        folder=cluster.folder,
    )
    beside = state / "ready.new"
    beside.write_text(text)
    beside.replace(state / "ready")


def _down(owner: IO[str]) -> int:
    if _lock(owner):
        return _fail("no cluster of `make cluster` is up")
    owner.seek(0)
    os.kill(int(owner.read()), signal.SIGTERM)
    try:
        eventually_sync(lambda: _lock(owner), within=60, what="the cluster is down", interval=0.1)
    except NotInTimeError as error:
        return _fail(str(error))
    _say("The cluster is down.")
    return 0


def _lock(owner: IO[str]) -> bool:
    """Whether nobody holds the lock; then it is this process's until it ends."""
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _fail(sentence: str) -> int:
    sys.stderr.write(f"{sentence}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
