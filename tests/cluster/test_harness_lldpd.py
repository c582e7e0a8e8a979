"""The lab of real lldpds."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.lldpd import RAILS, LldpLab
from tests.support.waiting import eventually_sync

pytestmark = pytest.mark.needs("root", "lldpd")


@pytest.fixture(scope="module")
def lab() -> Iterator[LldpLab]:
    """Two rails for this module."""
    with LldpLab.running() as made:
        yield made


def test_sees_the_switch_on_every_rail(lab: LldpLab) -> None:
    """The command for the broker prints a neighbour for each rail and nothing else."""
    printed = subprocess.run(lab.lldpctl, capture_output=True, text=True, check=True, timeout=10).stdout
    assert '"eth_r0_p0"' in printed
    assert lab.neighbours() == {rail: ["switch"] for rail in RAILS}
    assert lab.version.startswith("1.")


@pytest.mark.parametrize(
    "name",
    [
        'evil", "interface": [{"name": "eth_r9_p0"}], "x": "',
        "two\nlines\t\x07",
        "Größe 東",
        "\\",
        "' ; reboot #",
        "a" * 255,
    ],
    ids=["json", "control characters", "not ASCII", "backslash", "shell", "long"],
)
def test_lets_the_switch_have_any_name(lab: LldpLab, name: str) -> None:
    """A hostile system name reaches the host as it is."""
    lab.name_switch(name)
    assert lab.neighbours() == {rail: [name] for rail in RAILS}
    lab.name_switch("switch")


def test_pulls_a_cable(lab: LldpLab) -> None:
    """A rail without a link loses its neighbour and has it again once it is plugged in."""
    lab.unplug("eth_r0_p0")
    lab.wait_for_neighbours(["eth_r1_p0"])
    lab.plug("eth_r0_p0")
    lab.wait_for_neighbours(RAILS)


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "stopped"])
def test_loses_its_daemon(lab: LldpLab, *, kill: bool) -> None:
    """Without lldpd lldpctl fails; a killed lldpd leaves its socket behind, and a new one takes it over."""
    (lab.host.lldpd.kill if kill else lab.host.lldpd.stop)()
    assert lab.host.socket.exists() == kill
    assert subprocess.run(lab.lldpctl, capture_output=True, check=False, timeout=10).returncode != 0
    lab.host.start()
    lab.wait_for_neighbours(RAILS)


def test_has_as_many_interfaces_as_wanted() -> None:
    """No interface at all is a lab, and so is a host with interfaces that nobody answers on."""
    with LldpLab.running([]) as lab:
        assert lab.host.show() == {"lldp": [{}]}
    with LldpLab.running(["eth_r0_p0"], unplugged=["eth_r1_p0"]) as lab:
        assert lab.neighbours() == {"eth_r0_p0": ["switch"]}
        assert "eth_r1_p0" in lab.host.run("ip", "-o", "link")


def test_touches_nothing_of_the_machine(lab: LldpLab) -> None:
    """The machine's own network has none of the interfaces, and the lab's processes end with it."""
    assert "eth_r0_p0" not in subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    with LldpLab.running(["eth_r0_p0"]) as other:
        assert other.host.holder != lab.host.holder
        pids = [other.host.holder, other.switch.holder, other.host.lldpd.pid, other.switch.lldpd.pid]
        folder = other.host.socket.parent
    eventually_sync(
        lambda: not any(Path("/proc", str(pid), "exe").exists() for pid in pids),
        within=10,
        what="its processes are gone",
    )
    assert not folder.exists()
