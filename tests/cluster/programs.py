"""The programs of a real cluster, and Helm: where they are found, and how they are built from their Go modules.

Looked for in ``KUBEBUILDER_ASSETS`` first (the ecosystem's name for such a folder), then in this project's cache; Helm, of
which any machine may have one, also on ``PATH``. Tests only look; building is ``scripts/control-plane build``. The modules and their checksums are pinned in ``modules/``.

Standard library only: this runs before the project's environment exists.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REQUIRED = ("etcd", "kube-apiserver")
"""Without these there is no control plane."""

NODES = ("kube-scheduler", "kubelet", "kubectl", "containerd", "containerd-shim-runc-v2", "ctr", "pause")
"""What a cluster with real nodes needs besides; nodes need root."""

BUILT = ("etcd", "kube-apiserver", "kube-controller-manager", "helm", *NODES)
"""What is built unless asked otherwise."""

_MODULES = Path(__file__).parent / "modules"
_PACKAGES = {
    "etcd": ("etcd", "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": ("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-controller-manager": ("kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kube-scheduler": ("kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    "kubelet": ("kubernetes", "k8s.io/kubernetes/cmd/kubelet"),
    "kubectl": ("kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    "helm": ("helm", "helm.sh/helm/v4/cmd/helm"),
    "containerd": ("containerd", "github.com/containerd/containerd/v2/cmd/containerd"),
    "containerd-shim-runc-v2": ("containerd", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"),
    "ctr": ("containerd", "github.com/containerd/containerd/v2/cmd/ctr"),
    "pause": ("pause", "."),
}
_RELEASED = {
    "kubernetes": "k8s.io/kubernetes",
    "etcd": "go.etcd.io/etcd/server/v3",
    "helm": "helm.sh/helm/v4",
    "containerd": "github.com/containerd/containerd/v2",
}
"""The Go module whose version is the release, for each folder of ``modules``."""


class BuildError(RuntimeError):
    """A program cannot be built here; the sentence says why and what to do."""


def version(module: str) -> str:
    """The pinned version of ``kubernetes``, ``etcd``, ``helm`` or ``containerd``, without the ``v``.

    This project's own ``pause`` has the first digits of its source's hash.
    """
    if module == "pause":
        return hashlib.sha256((_MODULES / module / "main.go").read_bytes()).hexdigest()[:12]
    path = _RELEASED[module]
    found = re.search(rf"\b{re.escape(path)} v(\S+)", (_MODULES / module / "go.mod").read_text())
    assert found is not None, f"{module}/go.mod does not require {path}"
    return found[1]


def cache(program: str = "kube-apiserver") -> Path:
    """The folder that a program is built into; its name carries the versions, so another version is another folder."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nicrails"
    module, _ = _PACKAGES[program]
    if module not in {"kubernetes", "etcd"}:
        return base / module / version(module) / "bin"
    return base / "control-plane" / f"{version('kubernetes')}-etcd-{version('etcd')}" / "bin"


def find() -> dict[str, Path]:
    """Every known program that is there, by name.

    A folder given by ``KUBEBUILDER_ASSETS`` comes first and is completed from the cache: the folders that envtest ships
    have no controller manager.
    """
    folders = [cache(name) for name in ("etcd", "helm", "containerd", "pause")]
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        folders.insert(0, Path(assets))
    found = {
        name: path
        for folder in reversed(folders)
        for name in _PACKAGES
        if os.access(path := folder / name, os.X_OK) and path.is_file()
    }
    # The pinned Helm comes before the machine's, so that a test says the same everywhere.
    if "helm" not in found and (on_path := shutil.which("helm")) is not None:
        found["helm"] = Path(on_path)
    return found


def build(names: list[str]) -> None:
    """Build what the cache lacks; two builds at once wait for each other.

    Raises:
        BuildError: There is no usable Go, or a build failed.
    """
    for name in names:
        target = cache(name)
        target.mkdir(parents=True, exist_ok=True)
        with (target.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if os.access(target / name, os.X_OK):
                _say(f"{name}: already in {target}")
            else:
                _build(name, target / name)


def prepare() -> int:
    """Build what a test run would lack, if this machine can; an exit status.

    Without Go that is no failure unless ``REQUIRE`` demands one of them: the tests then list what was not run.
    """
    demanded = {"all", "control-plane", "garbage-collector", "helm", "nodes"} & set(
        os.environ.get("REQUIRE", "").replace(",", " ").split()
    )
    # Who names a folder of programs has decided what control plane to test with; such a folder never has a Helm.
    wanted = BUILT if demanded or not os.environ.get("KUBEBUILDER_ASSETS") else ("helm",)
    found = find()
    missing = [name for name in wanted if name not in found and (name not in NODES or demanded or os.geteuid() == 0)]
    if not missing:
        return 0
    if not demanded and shutil.which("go") is None:
        _say(f"no Go to build {', '.join(missing)} with: what needs them will be listed as not run")
        return 0
    try:
        build(missing)
    except BuildError as error:
        _say(f"{error}; " + ("REQUIRE demands it" if demanded else "what needs it will be listed as not run"))
        return 1 if demanded else 0
    return 0


def _build(name: str, out: Path) -> None:
    module, package = _PACKAGES[name]
    release = version(module)
    _say(f"{name} {release}: building; some minutes when Go's caches are cold, seconds when they are warm")
    start = time.monotonic()
    stamp = ""
    if module == "kubernetes":
        # Unstamped, the server calls itself v0.0.0 and clients misjudge what it can do.
        base = "k8s.io/component-base/version"
        major, minor, _ = release.split(".", 2)
        stamp = (
            f" -X {base}.gitVersion=v{release} -X {base}.gitMajor={major} -X {base}.gitMinor={minor}"
            f" -X k8s.io/client-go/pkg/version.gitVersion=v{release}"
        )
    elif module == "helm":
        stamp = f" -X helm.sh/helm/v4/internal/version.version=v{release}"
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        made = Path(folder) / name
        # Go reads the module from a copy: it may rewrite go.mod, and this project's folder may be read-only.
        copy = Path(shutil.copytree(_MODULES / module, Path(folder) / "module"))
        _go(copy, "build", "-trimpath", "-mod=readonly", "-ldflags", f"-s -w{stamp}", "-o", str(made), package)
        made.replace(out)
    _say(f"{name} {release}: built in {time.monotonic() - start:.0f} s, {out.stat().st_size >> 20} MiB")


def _go(folder: Path, *arguments: str) -> None:
    if shutil.which("go") is None:
        raise BuildError(
            "no `go` on PATH: install Go 1.26 or newer, or set KUBEBUILDER_ASSETS to a folder with the programs"
        )
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}
    done = subprocess.run(["go", *arguments], cwd=folder, env=environment, check=False)
    if done.returncode:
        raise BuildError(f"`go {arguments[0]}` failed with status {done.returncode}; its own words are above")


def pin(kubernetes: str, etcd: str, helm: str, containerd: str) -> None:
    """Write ``modules/`` anew for these versions, given without the ``v``."""
    with tempfile.TemporaryDirectory() as folder:
        for name, release in (("etcd", etcd), ("helm", helm)):
            module = Path(folder) / name
            _start_module(module)
            _go(module, "get", "-tool", f"{_PACKAGES[name][1]}@v{release}")
            _keep(module)
        module = Path(folder) / "containerd"
        _start_module(module)
        for owner, package in _PACKAGES.values():
            if owner == "containerd":
                _go(module, "get", "-tool", f"{package}@v{containerd}")
        _keep(module)
        module = Path(folder) / "kubernetes"
        _start_module(module)
        _go(module, "mod", "download", f"k8s.io/kubernetes@v{kubernetes}")
        cached = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True).stdout.strip()
        required = Path(cached, "cache/download/k8s.io/kubernetes/@v", f"v{kubernetes}.mod").read_text()
        # Kubernetes requires its staging modules at v0.0.0, which do not exist: each is replaced by its release v0.X.Y.
        staging = sorted(set(re.findall(r"^\s*(k8s\.io/\S+) v0\.0\.0(?:\s|$)", required, re.MULTILINE)))
        _go(module, "mod", "edit", *(f"-replace={m}={m}@v0.{kubernetes.removeprefix('1.')}" for m in staging))
        for name, (owner, package) in _PACKAGES.items():
            if owner == "kubernetes":
                # Without the version Go upgrades the module on the way.
                _go(module, "get", "-tool", f"{package}@v{kubernetes}")
                _say(f"{name} pinned")
        _keep(module)


def _start_module(folder: Path) -> None:
    folder.mkdir()
    (folder / "go.mod").write_text(f"module nicrails.test/{folder.name}\n\ngo 1.26.0\n")


def _keep(folder: Path) -> None:
    target = _MODULES / folder.name
    target.mkdir(parents=True, exist_ok=True)
    for file in ("go.mod", "go.sum"):
        shutil.copy(folder / file, target / file)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main(argv: list[str]) -> int:
    """The command line behind ``scripts/control-plane``."""
    parser = argparse.ArgumentParser(prog="scripts/control-plane", description=__doc__.split("\n", 1)[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    builder = verbs.add_parser("build", help="build what the cache lacks from the pinned Go modules")
    builder.add_argument("name", nargs="*", default=list(BUILT), help=f"of {', '.join(_PACKAGES)}")
    verbs.add_parser("prepare", help="build what a test run lacks, if there is Go; REQUIRE=all: or fail")
    verbs.add_parser("find", help="say which programs would be used; exit status 1 if one is missing")
    pinner = verbs.add_parser("pin", help="write tests/cluster/modules for other versions")
    pinner.add_argument("kubernetes", help="such as 1.36.3")
    pinner.add_argument("etcd", help="such as 3.6.16")
    pinner.add_argument("helm", help="such as 4.3.1")
    pinner.add_argument("containerd", help="such as 2.2.9")
    arguments = parser.parse_args(argv)
    if arguments.verb == "build":
        if unknown := set(arguments.name) - set(_PACKAGES):
            parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(_PACKAGES)}")
        try:
            build(arguments.name)
        except BuildError as error:
            _say(str(error))
            return 1
    elif arguments.verb == "prepare":
        return prepare()
    elif arguments.verb == "pin":
        pin(arguments.kubernetes, arguments.etcd, arguments.helm, arguments.containerd)
    else:
        found = find()
        for name in BUILT:
            sys.stdout.write(f"{name}: {found.get(name, 'not found')}\n")
        return 0 if all(name in found for name in BUILT) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
