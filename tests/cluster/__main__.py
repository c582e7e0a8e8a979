"""A real control plane to try things on: ``make cluster`` runs this in the foreground, ``make cluster-down`` ends it."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import IO

from tests.cluster import programs
from tests.cluster.controlplane import ControlPlane, ControlPlaneError
from tests.support.waiting import NotInTimeError, eventually_sync

HELP = """\
A real Kubernetes {version} control plane is up: etcd, kube-apiserver{controllers}. There are no kubelets, so no pod runs.

  export KUBECONFIG={kubeconfig}
  {client}

Try the services on it (their options: docs/broker.md, docs/observer.md), and look at what they write:

  {record}

Logs: {folder}/*.log
Ctrl-C here or `make cluster-down` anywhere ends it and removes its data.
"""


def main(argv: list[str]) -> int:
    """``up`` (the default) or ``down``; an exit status."""
    state = programs.cache().parents[2] / "cluster"
    state.mkdir(parents=True, exist_ok=True)
    # Append mode: an open that truncates would wipe the running one's process id.
    with (state / "pid").open("a+") as owner:
        return _down(owner) if argv[:1] == ["down"] else _up(state, owner)


def _up(state: Path, owner: IO[str]) -> int:
    if not _lock(owner):
        return _fail(
            f"a control plane is up already: export KUBECONFIG={state / 'kubeconfig'}; `make cluster-down` ends it"
        )
    owner.truncate(0)
    owner.write(str(os.getpid()))
    owner.flush()
    found = programs.find()
    if missing := [name for name in programs.REQUIRED if name not in found]:
        return _fail(f"{' and '.join(missing)} not found: `scripts/control-plane build` builds them")
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        with ControlPlane.running(found) as plane:
            _explain(plane, plane.kubeconfig(state / "kubeconfig"), found)
            while not ended.wait(1):
                if not plane.complete():
                    return _fail(f"a part of the control plane ended; the logs end with\n{plane.log_tail()}")
    except ControlPlaneError as error:
        return _fail(str(error))
    finally:
        (state / "kubeconfig").unlink(missing_ok=True)
    sys.stdout.write("\nThe control plane is down.\n")
    return 0


def _explain(plane: ControlPlane, kubeconfig: Path, found: dict[str, Path]) -> None:
    path = "/api/v1/namespaces/default/configmaps/topograph-nic-rails"
    kubectl = found.get("kubectl") or shutil.which("kubectl")
    if kubectl is not None:
        # A name on PATH is shorter to type than a cache folder.
        name = "kubectl" if shutil.which("kubectl") else str(kubectl)
        client, record = f"{name} get namespaces", f"{name} get configmap topograph-nic-rails -o yaml"
    else:
        curl = f"curl --cacert {plane.authority.file} -H 'Authorization: Bearer {plane.endpoint.token}' {plane.endpoint.url}"
        client, record = f"{curl}/api/v1/namespaces", f"{curl}{path}"
    version = plane.request("GET", "/version")["gitVersion"]
    sys.stdout.write(
        HELP.format(
            version=version,
            controllers=" and its garbage collector" if "kube-controller-manager" in found else "",
            kubeconfig=kubeconfig,
            client=client,
            record=record,
            folder=plane.folder,
        )
    )
    sys.stdout.flush()


def _down(owner: IO[str]) -> int:
    if _lock(owner):
        return _fail("no control plane of `make cluster` is up")
    owner.seek(0)
    os.kill(int(owner.read()), signal.SIGTERM)
    try:
        eventually_sync(lambda: _lock(owner), within=30, what="the control plane is down", interval=0.1)
    except NotInTimeError as error:
        return _fail(str(error))
    sys.stdout.write("The control plane is down.\n")
    return 0


def _lock(owner: IO[str]) -> bool:
    """Whether nobody holds the lock; then it is this process's until it ends."""
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _fail(sentence: str) -> int:
    sys.stderr.write(f"{sentence}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
