"""Finding and building the control plane's programs; nothing here needs Go or a real program."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster import programs


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no other folder of programs and a PATH without Go."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv("REQUIRE", raising=False)
    (tmp_path / "path").mkdir()
    return tmp_path


def program(folder: Path, name: str, script: str = "true") -> Path:
    """An executable file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_given_folder_comes_before_the_cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KUBEBUILDER_ASSETS wins, and what it lacks is taken from the cache."""
    assert programs.find() == {}
    controllers = program(programs.cache(), "kube-controller-manager")
    program(programs.cache(), "etcd")
    given = program(home / "assets", "etcd")
    (home / "assets" / "kube-apiserver").write_text("not executable")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(home / "assets"))
    assert programs.find() == {"etcd": given, "kube-controller-manager": controllers}


def test_another_version_is_another_folder(home: Path) -> None:
    """The cache's name carries the pinned versions, and all staging modules are of the same release."""
    kubernetes, etcd = programs.version("kubernetes"), programs.version("etcd")
    assert programs.cache().parent.name == f"{kubernetes}-etcd-{etcd}"
    module = (Path(programs.__file__).parent / "modules" / "kubernetes" / "go.mod").read_text()
    replaced = {line.rsplit(" ", 1)[1] for line in module.splitlines() if " => k8s.io/" in line}
    assert replaced == {f"v0.{kubernetes.removeprefix('1.')}"}


def test_without_go_only_who_demands_it_fails(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test run goes on without a control plane unless REQUIRE says that it must not."""
    assert programs.prepare() == 0
    monkeypatch.setenv("REQUIRE", "all")
    assert programs.prepare() == 1
    monkeypatch.setenv("REQUIRE", "root")
    assert programs.prepare() == 0
    for name in programs.BUILT:
        program(programs.cache(), name)
    monkeypatch.setenv("REQUIRE", "all")
    assert programs.prepare() == 0


def test_builds_only_what_is_missing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go is asked for the missing program of the pinned module, with the version stamped in."""
    program(programs.cache(), "etcd", "echo old")
    go = """
PATH=/bin:/usr/bin
printf '%s' "$*" > ../../asked
cp go.mod ../../module
while [ "$1" != -o ]; do shift; done
touch "$2"
chmod +x "$2"
"""
    program(home / "path", "go", go)
    programs.build(["etcd", "kube-apiserver"])
    asked = (programs.cache() / "asked").read_text()
    assert "k8s.io/kubernetes/cmd/kube-apiserver" in asked
    assert f"gitVersion=v{programs.version('kubernetes')}" in asked
    assert "module nicrails.test/kubernetes" in (programs.cache() / "module").read_text()
    assert (programs.cache() / "etcd").read_text().endswith("echo old\n")
    assert os.access(programs.cache() / "kube-apiserver", os.X_OK)


def test_a_failed_build_leaves_nothing(home: Path) -> None:
    """No half program is found later, and the sentence says what failed."""
    program(home / "path", "go", "exit 3")
    with pytest.raises(programs.BuildError, match="`go build` failed with status 3"):
        programs.build(["etcd"])
    assert programs.find() == {}
    assert list(programs.cache().iterdir()) == []
