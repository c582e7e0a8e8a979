"""Which Helm the tests use, and how it is built; nothing here needs Go or a real Helm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import programs


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache and an empty PATH."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    for name in ("KUBEBUILDER_ASSETS", "REQUIRE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "path").mkdir()
    return tmp_path


def program(path: Path, script: str = "true") -> Path:
    """An executable file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_the_pinned_helm_comes_before_the_machine_s(home: Path) -> None:
    """Without a built Helm the one on PATH will do; the built one is of the pinned version and comes first."""
    assert "helm" not in programs.find()
    on_path = program(home / "path" / "helm")
    assert programs.find() == {"helm": on_path}
    built = program(programs.cache("helm") / "helm")
    assert programs.find() == {"helm": built}
    assert programs.version("helm") in built.parts


def test_another_helm_does_not_cost_another_control_plane(home: Path) -> None:
    """Helm has a folder of its own, so that a new version of it leaves the control plane's built programs alone."""
    assert programs.cache("helm") != programs.cache("etcd") == programs.cache()


def test_a_folder_of_control_plane_programs_still_leaves_helm_to_build(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who names such a folder gets Helm built all the same, where there is Go; it is asked for by its pinned module."""
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(home / "assets"))
    assert programs.prepare() == 0
    assert "no Go to build helm with" in capsys.readouterr().err
    go = """
PATH=/bin:/usr/bin
printf '%s' "$*" > ../../asked
while [ "$1" != -o ]; do shift; done
touch "$2"
chmod +x "$2"
"""
    program(home / "path" / "go", go)
    assert programs.prepare() == 0
    asked = (programs.cache("helm") / "asked").read_text()
    assert asked.endswith(" helm.sh/helm/v4/cmd/helm")
    assert f"version.version=v{programs.version('helm')}" in asked
    assert programs.find()["helm"] == programs.cache("helm") / "helm"


def test_who_demands_helm_gets_it_or_a_failure(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ``REQUIRE=helm`` a machine that can not have Helm fails before the tests begin."""
    monkeypatch.setenv("REQUIRE", "helm")
    assert programs.prepare() == 1
