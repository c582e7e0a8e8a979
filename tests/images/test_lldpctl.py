"""The broker's image on a host with a real lldpd."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from nicrails_faker.machines import InstalledMachine, shipped, write
from tests.cluster.lldpd import LldpLab
from tests.images.docker import Done, Images, build, remove, run

pytestmark = [pytest.mark.needs("images", "root", "lldpd"), pytest.mark.timeout(900)]

MACHINE = "cpu-rails"
AS_ROOT = ("--user=0:0", "--cap-add=DAC_OVERRIDE")
SETTINGS = """
nodeMetadata:
  plugins:
    gpuNicRailMapping:
      railSource:
        name: host-lldp
        hostLLDP:
          interfaceRegex: '^eth_r([0-9]+)_p[0-9]+$'
          railID: 'rail$1'
      gpuSource: null
host:
  sysfsRoot: /host/sys
  lldpdSocket: /host/lldpd/lldpd.socket
"""


@pytest.fixture(scope="module")
def fitting(images: Images) -> Iterator[Images]:
    """The broker's image with the lldpctl of this machine's lldpd."""
    found = build(f"{images.tag}-host", "broker", environment={"HOST_LLDPD": "yes"})
    yield found
    remove(found)


@pytest.fixture(scope="module")
def host() -> Iterator[tuple[InstalledMachine, LldpLab, Path]]:
    """A machine without GPUs whose rails a real lldpd watches, and the folder that has all of it."""
    # Not below pytest's folder, which is closed to all others: Debian's lldpctl runs as its own user.
    with tempfile.TemporaryDirectory(prefix="nicrails-host-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        machine = write(shipped(MACHINE), folder / "machine")
        (folder / "lldpd").mkdir()
        (folder / "settings.yaml").write_text(SETTINGS)
        rails = [name for name in machine.machine.netdevs if name.startswith("eth_r")]
        with LldpLab.running(rails, socket=folder / "lldpd/lldpd.socket") as lab:
            yield machine, lab, folder


def discover(images: Images, folder: Path, uid: str, user: Sequence[str] = AS_ROOT) -> Done:
    """One discovery in a container that has of the host what the chart gives it."""
    options = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--network=none", *user]
    options += [
        f"--volume={folder}/lldpd:/host/lldpd:ro",
        f"--volume={folder}/machine/sys:/host/sys:ro",
        f"--volume={folder}/settings.yaml:/etc/nicrails/settings.yaml:ro",
    ]
    return images.run(
        "broker", "discover", "--config=/etc/nicrails/settings.yaml", f"--node-uid={uid}", options=options
    )


def test_the_host_s_version_is_understood(fitting: Images, host: tuple[InstalledMachine, LldpLab, Path]) -> None:
    """With the lldpctl of the host's lldpd, an image discovers the golden record; its label says which version that is."""
    machine, lab, folder = host
    assert fitting.inspect("broker")["Config"]["Labels"]["nicrails.lldpctl.version"] == lab.version
    done = discover(fitting, folder, machine.machine.settings.node_uid)
    assert (done.status, done.err) == (0, "")
    assert machine.machine.record is not None
    assert done.out.strip() == machine.machine.record.decode()


def test_the_group_of_the_socket_is_enough(fitting: Images, host: tuple[InstalledMachine, LldpLab, Path]) -> None:
    """As its own user and in the socket's group, without any capability, the broker may ask lldpd."""
    machine, lab, folder = host
    group = lab.host.socket.stat().st_gid
    done = discover(fitting, folder, machine.machine.settings.node_uid, user=[f"--user=65532:{group}"])
    assert (done.status, done.err) == (0, "")


def test_a_socket_that_is_forbidden_is_told(fitting: Images, host: tuple[InstalledMachine, LldpLab, Path]) -> None:
    """Outside of the group the error says that it is the permission, and what to do."""
    machine, _, folder = host
    done = discover(fitting, folder, machine.machine.settings.node_uid, user=())
    assert done.status == 1
    assert "Permission denied; the socket belongs to group _lldpd: run the broker as root or in that group" in done.err


@pytest.fixture(scope="module")
def other(images: Images, host: tuple[InstalledMachine, LldpLab, Path]) -> Iterator[Images]:
    """The broker's image with an lldpctl that is not of this machine's lldpd: the default one, or Debian 12's."""
    stated = images.inspect("broker")["Config"]["Labels"]["nicrails.lldpctl.version"]
    if stated != host[1].version:
        yield images
        return
    base = run(["scripts/base-image", "get", "bookworm"], within=300).out.strip()
    found = build(f"{images.tag}-other", "broker", environment={"LLDPCTL_IMAGE": base, "LLDPD_VERSION": "1.0.16"})
    yield found
    remove(found)


def test_another_version_than_the_host_s_is_told(other: Images, host: tuple[InstalledMachine, LldpLab, Path]) -> None:
    """Where lldpctl does not understand the host's lldpd, the error says that it is the version; there is no record."""
    machine, _, folder = host
    done = discover(other, folder, machine.machine.settings.node_uid)
    assert (done.status, done.out) == (1, "")
    assert "lldpctl and the host's lldpd are of different versions" in done.err
    assert "use the lldpctl of the lldpd release that runs on the host" in done.err
