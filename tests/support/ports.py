"""Loopback TCP ports that no other test run takes, also while nobody listens on them."""

from __future__ import annotations

import errno
import functools
import random
import socket
from pathlib import Path

_LOWEST = 15_000
_held: dict[int, socket.socket] = {}


def reserve_port() -> int:
    """A free port on 127.0.0.1 that stays this process's until it ends.

    The port lies below the kernel's ephemeral range. A client that keeps dialling a dead port of that range connects to
    itself sooner or later, and any outgoing connection may take it: outage tests need a port that stays dead.
    """
    while True:
        # Which ports are free differs from run to run by nature; a fixed seed would make runs meet.
        port = random.SystemRandom().randrange(_LOWEST, _ephemeral_floor())
        if _claim(port):
            return port


def release_port(port: int) -> None:
    """Give a reserved port back."""
    _held.pop(port).close()


def _claim(port: int) -> bool:
    # An abstract socket is a lock that the kernel takes back when its owner dies, per network namespace as ports are.
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        lock.bind(f"\0nicrails-test-port-{port}")
        probe.bind(("127.0.0.1", port))
    except OSError as error:
        lock.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    finally:
        probe.close()
    _held[port] = lock
    return True


@functools.cache
def _ephemeral_floor() -> int:
    floor = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    # Some machines use nearly all ports for outgoing connections; then nothing is better than the usual floor.
    return floor if floor > _LOWEST + 1000 else 32_768
