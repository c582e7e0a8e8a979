"""Ports that stay a test run's own."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from tests.support import ports


def test_a_reserved_port_is_free_and_outside_the_ephemeral_range() -> None:
    """A server can listen on it at once, and no outgoing connection will be given it."""
    port = ports.reserve_port()
    try:
        with socket.create_server(("127.0.0.1", port)) as server:
            assert server.getsockname()[1] == port
        assert 15_000 <= port < ports._ephemeral_floor()
    finally:
        ports.release_port(port)


def test_no_other_run_takes_it() -> None:
    """While it is reserved no process can reserve it, although nobody listens; afterwards one can."""
    port = ports.reserve_port()
    root = Path(__file__).parents[2]
    claim = [sys.executable, "-c", f"from tests.support import ports; print(ports._claim({port}))"]
    assert subprocess.check_output(claim, cwd=root, text=True, timeout=30) == "False\n"
    ports.release_port(port)
    assert subprocess.check_output(claim, cwd=root, text=True, timeout=30) == "True\n"
