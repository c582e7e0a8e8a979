from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import asyncio, sys
from nicrails_faker.{first} import {name}
from grpc import aio

async def main():
    server = aio.server()
    try:
        server.add_insecure_port("unix:" + sys.argv[1])
    except RuntimeError:
        print("refused")
    await server.stop(None)

asyncio.run(main())
"""


@pytest.mark.parametrize(("first", "name"), [("kubelet", "register"), ("deviceplugin", "app"), ("dcgm", "app")])
def test_grpc_writes_no_lines_of_its_own(tmp_path: Path, first: str, name: str) -> None:
    """A failure of gRPC's core leaves standard error to our log, whichever package is imported first."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(first=first, name=name), str(tmp_path / "missing" / "it.sock")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert (done.stdout, done.stderr) == ("refused\n", "")
