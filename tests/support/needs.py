"""What a test needs from the machine: probed once, and where it is missing the test is reported as not run, with the cause.

A test says ``@pytest.mark.needs("control-plane", "root")``. Where a need is not met the test is skipped and a section at
the end of the run groups these tests by cause and says what would make them run. With ``REQUIRE=all`` (or a comma
separated list of needs) in the environment a missing need is an error instead.

This is a pytest plugin; ``tests/conftest.py`` loads it. No other module of the project skips a test.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster import programs
from tests.cluster.node import missing_tools


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Something outside Python that tests need.

    Attributes:
        probe: Returns None if the machine has it, else the cause in a few words; cheap, called once.
        remedy: What a person does to have it.
        unproven: What stays unproven while it is missing.
    """

    probe: Callable[[], str | None]
    remedy: str
    unproven: str


def _absent(commands: Iterable[str]) -> str | None:
    missing = [command for command in commands if shutil.which(command) is None]
    return f"{', '.join(missing)} not on PATH" if missing else None


def _control_plane() -> str | None:
    found = programs.find()
    missing = [name for name in programs.REQUIRED if name not in found]
    return f"{' and '.join(missing)} of a control plane not found" if missing else None


def _garbage_collector() -> str | None:
    if cause := _control_plane():
        return cause
    return None if "kube-controller-manager" in programs.find() else "kube-controller-manager not found"


def _helm() -> str | None:
    return None if "helm" in programs.find() else "helm not found"


def _root() -> str | None:
    if os.geteuid() != 0:
        return "not running as root"
    if cause := _absent(["unshare", "nsenter", "ip"]):
        return cause
    # A container's root often may not; this is what the tests do.
    command = ["unshare", "--mount", "--net", "ip", "link", "add", "probe0", "type", "veth", "peer", "name", "probe1"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    if answer.returncode:
        return f"root may not make mount and network namespaces with veth pairs here: {answer.stderr.strip()[:256]!r}"
    return None


def _nodes() -> str | None:
    if cause := _garbage_collector() or _root() or missing_tools():
        return cause
    missing = [name for name in programs.NODES if name not in programs.find()]
    return f"{', '.join(missing)} not found" if missing else None


def _docker() -> str | None:
    if cause := _absent(["docker"]):
        return cause
    if _succeeds(["docker", "version"]):
        return None
    return None if os.geteuid() == 0 and not _absent(["dockerd"]) else "no Docker engine answers"


def _images() -> str | None:
    if cause := _docker():
        return cause
    # A public base image may be pulled; where no registry can be reached one is made.
    return None if _succeeds(["scripts/base-image", "find"]) else _absent(["mmdebstrap"])


def _compose() -> str | None:
    if cause := _images():
        return cause
    if _succeeds(["docker", "compose", "version"]) or shutil.which("docker-compose"):
        return None
    return "no Docker Compose"


def _succeeds(argv: list[str]) -> bool:
    root = Path(__file__).parent.parent.parent
    return subprocess.run(argv, cwd=root, capture_output=True, check=False, timeout=30).returncode == 0


NEEDS = {
    "control-plane": Need(
        probe=_control_plane,
        remedy="run `make cluster-programs` (needs Go), or set KUBEBUILDER_ASSETS to a folder with them",
        unproven="nothing was checked against a real kube-apiserver by these",
    ),
    "garbage-collector": Need(
        probe=_garbage_collector,
        remedy="run `make cluster-programs` (needs Go); the folders that envtest ships have no controller manager",
        unproven="nothing was checked against Kubernetes' own garbage collector by these",
    ),
    "helm": Need(
        probe=_helm,
        remedy="run `make cluster-programs` (needs Go), or install Helm 4 on PATH",
        unproven="nothing was checked against what the Helm chart renders by these",
    ),
    "root": Need(
        probe=_root,
        remedy="run as root (`sudo make test`) where network namespaces may be made, with iproute2 and util-linux installed",
        unproven="nothing was checked in network namespaces by these",
    ),
    "lldpd": Need(
        probe=lambda: _absent(["lldpd", "lldpcli", "lldpctl"]),
        remedy="install lldpd (Debian: `apt-get install --no-install-recommends lldpd`)",
        unproven="nothing was checked against a real lldpd by these",
    ),
    "nodes": Need(
        probe=_nodes,
        remedy=(
            "run as root, `make cluster-programs` (needs Go), and install the rest"
            " (Debian: `apt-get install --no-install-recommends runc containernetworking-plugins iptables iproute2 procps curl`)"
        ),
        unproven="nothing was checked with a real kubelet and containerd by these",
    ),
    "docker": Need(
        probe=_docker,
        remedy="install and start Docker (Debian: `apt-get install --no-install-recommends docker.io`)",
        unproven="nothing was checked in containers by these",
    ),
    "images": Need(
        probe=_images,
        remedy="install and start Docker, and mmdebstrap where no registry of images is reachable",
        unproven="nothing was checked of the images by these",
    ),
    "compose": Need(
        probe=_compose,
        remedy="install Docker Compose (Debian: `apt-get install --no-install-recommends docker-compose`)",
        unproven="nothing was checked of the Compose file by these",
    ),
    "promtool": Need(
        probe=lambda: _absent(["promtool"]),
        remedy="install promtool (Debian: `apt-get install --no-install-recommends prometheus`)",
        unproven="nothing was checked by Prometheus's own linter by these",
    ),
}


_REASONS: dict[str, dict[str, str]] = {}
"""Behind each reason that a test was skipped for: its causes, each with the need that is not met."""


@functools.cache
def missing(need: str) -> str | None:
    """The cause why this machine lacks ``need``, or None if it is there."""
    return NEEDS[need].probe()


def require(*needs: str) -> None:
    """End the calling test or fixture unless everything named is there.

    The test is then reported as skipped, or fails if ``REQUIRE`` demands what is missing.
    """
    causes: dict[str, str] = {}
    for need in needs:
        if (cause := missing(need)) is not None:
            # One cause can stand behind several needs; the first one's remedy will do.
            causes.setdefault(cause, need)
    demanded = _demanded()
    refused = [f"{cause}: {NEEDS[need].remedy}" for cause, need in causes.items() if {"all", need} & demanded]
    if refused:
        pytest.fail(f"REQUIRE does not allow to leave this out, but {'; '.join(refused)}", pytrace=False)
    if causes:
        reason = f"not run, because {'; '.join(causes)}"
        _REASONS[reason] = causes
        pytest.skip(reason)


def _demanded() -> set[str]:
    return set(os.environ.get("REQUIRE", "").replace(",", " ").split())


@dataclass(slots=True)
class _Tally:
    """What ran and what did not, for the closing section."""

    not_run: dict[str, dict[str, str]]
    ran: set[str]


_TALLY = pytest.StashKey[_Tally]()


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker and refuse a ``REQUIRE`` that demands what nobody knows."""
    config.addinivalue_line("markers", f"needs(*what): what the test needs from the machine: {', '.join(NEEDS)}")
    config.stash[_TALLY] = _Tally({}, set())
    unknown = _demanded() - {"all", *NEEDS}
    if unknown:
        raise pytest.UsageError(f"REQUIRE names {', '.join(sorted(unknown))}; known: all, {', '.join(NEEDS)}")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse a misspelt need at collection, where it cannot be overlooked."""
    for mark in item.iter_markers("needs"):
        unknown = set(mark.args) - set(NEEDS)
        if unknown or mark.kwargs or not mark.args:
            raise pytest.UsageError(f"{item.nodeid}: needs{mark.args!r}; known: {', '.join(NEEDS)}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Check the test's needs before any fixture is made."""
    # The module's marks come first, as they are read.
    require(*(need for mark in reversed(list(item.iter_markers("needs"))) for need in mark.args))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note which tests ran and which did not."""
    report = yield
    tally = item.config.stash[_TALLY]
    reason = _REASONS.get(str(call.excinfo.value)) if call.excinfo is not None else None
    if reason is not None and report.skipped:
        tally.not_run[item.nodeid] = reason
    elif call.when == "call":
        tally.ran.add(_function(item.nodeid))
    return report


def _function(nodeid: str) -> str:
    """A test without its parameters."""
    return nodeid.split("[", 1)[0]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """List what was not run after everything else, just above pytest's closing line."""
    yield
    tally = terminalreporter.config.stash[_TALLY]
    if not tally.not_run:
        return
    terminalreporter.section("not run, because …", yellow=True)
    causes: dict[str, tuple[Need, list[str]]] = {}
    for nodeid, its_causes in tally.not_run.items():
        for cause, name in its_causes.items():
            causes.setdefault(cause, (NEEDS[name], []))[1].append(nodeid)
    for cause, (need, nodeids) in sorted(causes.items()):
        terminalreporter.write_line(f"{cause}: {_count(len(nodeids), 'test')} not run", yellow=True, bold=True)
        by_file: dict[str, int] = {}
        for nodeid in nodeids:
            file = nodeid.split("::", 1)[0]
            by_file[file] = by_file.get(file, 0) + 1
        for file, count in sorted(by_file.items()):
            terminalreporter.write_line(f"    {count:4} in {file}")
        elsewhere = sum(_function(nodeid) in tally.ran for nodeid in nodeids)
        if elsewhere:
            terminalreporter.write_line(f"    {elsewhere} of them ran in another variant only: {need.unproven}")
        terminalreporter.write_line(f"  to run them: {need.remedy}")
    terminalreporter.write_line("REQUIRE=all makes a missing need an error.")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
