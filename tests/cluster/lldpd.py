"""A host and a switch in network namespaces of their own, each with a real lldpd, cabled by veth pairs named as rails.

Nothing of the machine is touched: the namespaces have no names and go with the processes that hold them, and each lldpd
has its own control socket, configuration and ``/run``. Needs root.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from tests.cluster.process import Daemon
from tests.support.reaper import reaper
from tests.support.waiting import eventually_sync

RAILS = ("eth_r0_p0", "eth_r1_p0")

# /run is where lldpd keeps its chroot; a system lldpd's must not be shared.
_START = 'mount -t tmpfs tmpfs /run && mkdir /run/lldpd && exec lldpd -d -u "$1" -O "$2"'


class Machine:
    """One network namespace with an lldpd in it.

    Attributes:
        socket: The control socket of its lldpd. The folder is open to all: on Debian lldpctl runs as ``_lldpd``,
            whoever calls it.
        lldpd: The daemon, to stop and start.
    """

    def __init__(self, name: str, folder: Path, socket: Path | None = None) -> None:
        self.socket = socket or folder / f"{name}.socket"
        self._holder = Daemon(f"{name}-namespace", ["unshare", "--net", "sleep", "infinity"], folder)
        self._holder.start()
        eventually_sync(self._entered, within=10, what=f"the network namespace of {name} is made", interval=0.005)
        configuration = folder / f"{name}.conf"
        # The usual 30 s between two announcements would make every test as long.
        configuration.write_text(f"configure lldp tx-interval 1\nconfigure system hostname {name}\n")
        start = ["unshare", "--mount", "sh", "-c", _START, "sh", str(self.socket), str(configuration)]
        self.lldpd = Daemon(f"{name}-lldpd", [*self._inside, *start], folder)

    @property
    def holder(self) -> int:
        """The process whose network namespace this is."""
        return self._holder.pid

    @property
    def _inside(self) -> list[str]:
        # Not `ip netns exec`: that mounts /sys anew and hides the cgroups.
        return ["nsenter", f"--net=/proc/{self.holder}/ns/net"]

    def run(self, *argv: str) -> str:
        """Run a command in the namespace; its output.

        Raises:
            AssertionError: It failed.
        """
        return _run([*self._inside, *argv])

    def start(self) -> None:
        """Start lldpd and wait until its control socket answers."""
        self.lldpd.start()
        eventually_sync(self._answers, within=20, what=f"{self.lldpd.name} answers")

    def configure(self, *words: str) -> None:
        """Give lldpd a ``configure`` command and let it announce itself anew at once."""
        _run(["lldpcli", "-u", str(self.socket), "configure", *words])
        _run(["lldpcli", "-u", str(self.socket), "update"])

    def show(self) -> Any:
        """What lldpd knows about its neighbours, in the ``json0`` form."""
        return json.loads(_run(["lldpctl", "-u", str(self.socket), "-f", "json0"]))

    def end(self) -> None:
        """End lldpd and give the namespace up, and with it its ends of the cables."""
        self.lldpd.kill()
        self._holder.kill()

    def _entered(self) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return Path(f"/proc/{self.holder}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
        raise RuntimeError(f"no network namespace: {self._holder.tail()}")

    def _answers(self) -> bool:
        if not self.lldpd.running:
            raise RuntimeError(f"{self.lldpd.name} ended while it started: {self.lldpd.tail()}")
        try:
            self.show()
        except AssertionError:
            return False
        return True


class LldpLab:
    """A host whose rails are cabled to a switch; ``running`` makes one.

    Attributes:
        host: The machine whose neighbours a broker reads.
        switch: The machine at the other end.
        rails: The host's interfaces.
        version: lldpd's version.
    """

    def __init__(self, rails: Sequence[str], folder: Path, socket: Path | None = None) -> None:
        self.rails = list(rails)
        self.version = _run(["lldpd", "-v"]).strip()
        self._ports: dict[str, str] = {}
        self.host = Machine("host", folder, socket)
        try:
            self.switch = Machine("switch", folder)
        except BaseException:
            self.host.end()
            raise

    @classmethod
    @contextlib.contextmanager
    def running(
        cls, rails: Sequence[str] = RAILS, *, unplugged: Sequence[str] = (), socket: Path | None = None
    ) -> Iterator[Self]:
        """A lab whose host sees the switch on each of its rails, ended afterwards.

        Args:
            rails: The host's interfaces; none at all is allowed. A name has at most 15 characters.
            unplugged: Further interfaces of the host that have no neighbour.
            socket: The host's control socket; by default somewhere in a temporary folder.
        """
        with tempfile.TemporaryDirectory(prefix="nicrails-lldp-") as name:
            Path(name).chmod(0o755)
            undo = reaper().folder(Path(name))
            lab = cls([*rails, *unplugged], Path(name), socket)
            try:
                for number, rail in enumerate(lab.rails):
                    lab._cable(rail, f"swp{number}")
                for rail in rails:
                    lab.plug(rail)
                lab.host.start()
                lab.switch.start()
                lab.wait_for_neighbours(rails)
                yield lab
            finally:
                lab.host.end()
                lab.switch.end()
        reaper().forget(undo)

    @property
    def lldpctl(self) -> list[str]:
        """The command that reads the host's neighbours."""
        return ["lldpctl", "-u", str(self.host.socket), "-f", "json0"]

    def neighbours(self) -> dict[str, list[str]]:
        """The host's interfaces that have neighbours, each with the neighbours' system names."""
        found: dict[str, list[str]] = {}
        for interface in self.host.show()["lldp"][0].get("interface", []):
            names = [chassis["name"][0]["value"] for chassis in interface["chassis"]]
            found.setdefault(interface["name"], []).extend(names)
        return found

    def wait_for_neighbours(self, rails: Sequence[str], *, within: float = 20) -> None:
        """Wait until exactly these interfaces of the host have a neighbour."""

        def seen() -> bool:
            found = self.neighbours()
            assert found.keys() == set(rails), f"neighbours on {sorted(found)}"
            return True

        eventually_sync(seen, within=within, what=f"lldpd sees neighbours on {sorted(rails)}", interval=0.05)

    def plug(self, rail: str) -> None:
        """Give a rail its link."""
        self.switch.run("ip", "link", "set", self._ports[rail], "up")

    def unplug(self, rail: str) -> None:
        """Take a rail's link away, as a pulled cable does."""
        self.switch.run("ip", "link", "set", self._ports[rail], "down")

    def name_switch(self, name: str, *, within: float = 20) -> None:
        """Let the switch call itself anything at all, and wait until the host has heard it on every plugged rail."""
        self.switch.configure("system", "hostname", name)
        eventually_sync(
            lambda: all(found == [name] for found in self.neighbours().values()),
            within=within,
            what=f"the host knows the switch as {name!r}",
            interval=0.05,
        )

    def _cable(self, rail: str, port: str) -> None:
        peer = ["peer", "name", port, "netns", str(self.switch.holder)]
        self.host.run("ip", "link", "add", rail, "type", "veth", *peer)
        self.host.run("ip", "link", "set", rail, "up")
        self._ports[rail] = port


def _run(argv: Sequence[str]) -> str:
    done = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, check=False, timeout=20)
    assert done.returncode == 0, f"{argv}: status {done.returncode}: {done.stderr[-1000:].decode(errors='replace')}"
    return done.stdout.decode(errors="replace")
