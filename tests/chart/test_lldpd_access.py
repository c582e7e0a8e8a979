"""Whether the broker's security context reaches a real lldpd: its user, its group, no capability, a read-only folder."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tests.chart.combinations import RECORDS
from tests.chart.helm import Helm, Json, at, merged
from tests.cluster.lldpd import LldpLab

pytestmark = pytest.mark.needs("helm", "root", "lldpd")

_ASK = """
mount --bind "$1" "$2" && mount -o remount,bind,ro "$2" && shift 2
exec setpriv --no-new-privs --inh-caps=-all --ambient-caps=-all "$@"
"""


def ask(lab: LldpLab, folder: Path, template: Json) -> subprocess.CompletedProcess[str]:
    """Run lldpctl as a container of this pod would, with the socket's folder mounted read-only.

    Args:
        lab: Whose lldpd is asked.
        folder: An empty folder that all may enter, for the mount and the program.
        template: The pod's spec.
    """
    pod, container = template["securityContext"], template["containers"][0]["securityContext"]
    mount, program = folder / "lldpd", folder / "lldpctl"
    mount.mkdir()
    # Debian gives the program to group adm alone; an image opens it to all.
    shutil.copy(shutil.which("lldpctl") or "", program)
    program.chmod(0o755)
    groups = pod.get("supplementalGroups", [])
    # setpriv knows what a runtime does for root: it has the capabilities of its bounding set, and nobody else has any.
    assert container["capabilities"]["drop"] == ["ALL"]
    kept = "".join(f",+{name.lower()}" for name in container["capabilities"].get("add", []))
    argv = [
        *("unshare", "--mount", "sh", "-ec", _ASK, "sh", str(lab.host.socket.parent), str(mount)),
        *(f"--bounding-set=-all{kept}", f"--reuid={pod['runAsUser']}", f"--regid={pod['runAsGroup']}"),
        *([f"--groups={','.join(map(str, groups))}"] if groups else ["--clear-groups"]),
        *(str(program), "-u", str(mount / lab.host.socket.name), "-f", "json0"),
    ]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=20, stdin=subprocess.DEVNULL)


@pytest.fixture
def folder(lldp_lab: LldpLab) -> Path:
    """A folder that every user may enter; it goes with the lab."""
    made = lldp_lab.host.socket.parent / "as-in-a-pod"
    made.mkdir()
    return made


def neighbours(done: subprocess.CompletedProcess[str]) -> set[str]:
    """The interfaces that lldpctl tells."""
    assert done.returncode == 0, done.stderr
    return {interface["name"] for interface in json.loads(done.stdout)["lldp"][0]["interface"]}


def broker(helm: Helm, group: int | None) -> Json:
    """The broker's pod."""
    return helm.template(merged(RECORDS, at("broker.lldpdGroup", group))).pod("DaemonSet")


def test_the_group_of_the_socket_is_enough(helm: Helm, lldp_lab: LldpLab, folder: Path) -> None:
    """With ``lldpdGroup`` set to the socket's group, user 65532 without any capability reads the neighbours."""
    found = lldp_lab.host.socket.stat()
    assert stat.S_IMODE(found.st_mode) == 0o770, "the socket is not what the chart is made for"
    assert neighbours(ask(lldp_lab, folder, broker(helm, found.st_gid))) == set(lldp_lab.rails)


def test_root_with_one_capability_is_enough(helm: Helm, lldp_lab: LldpLab, folder: Path) -> None:
    """Without ``lldpdGroup`` the broker's root with DAC_OVERRIDE alone reads them."""
    assert neighbours(ask(lldp_lab, folder, broker(helm, None))) == set(lldp_lab.rails)


def test_root_without_the_capability_is_not(helm: Helm, lldp_lab: LldpLab, folder: Path) -> None:
    """The capability is needed: the socket is lldpd's own user's, so root without it is held back like anybody else."""
    template = broker(helm, None)
    del template["containers"][0]["securityContext"]["capabilities"]["add"]
    done = ask(lldp_lab, folder, template)
    assert "Permission denied" in done.stderr
    assert done.returncode != 0


def test_another_group_is_not(helm: Helm, lldp_lab: LldpLab, folder: Path) -> None:
    """With a group that is not the socket's, lldpd is out of reach, so the group's id must be the host's."""
    done = ask(lldp_lab, folder, broker(helm, lldp_lab.host.socket.stat().st_gid + 1))
    assert "Permission denied" in done.stderr
    assert done.returncode != 0
