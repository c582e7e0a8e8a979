"""The embedded API as a service of its own, for people and for other processes' tests."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nicrails_faker import api
from nicrails_faker.api import EmbeddedCluster
from nicrails_faker.demo.scenery import DEPLOYMENT, NAMESPACE, Scenery
from nicrails_faker.machines import find, write


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to serve.

    Attributes:
        address: Where to listen.
        port: 0 takes a free one.
        kubeconfig: Where a kubeconfig is written, if anywhere.
        server: The URL in it, where others reach this under another one.
        machines: Names of shipped machines, or folders.
        directory: Where they are written, each into a folder of its name.
    """

    address: str = "127.0.0.1"
    port: int = 0
    kubeconfig: Path | None = None
    server: str | None = None
    machines: tuple[str, ...] = ()
    directory: Path | None = None


def serve(options: Options, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        options: What to serve.
        say: Is told, line by line, what is there.

    Raises:
        OSError: The address can not be bound, or a file can not be written.
        KeyError: There is no such machine.
        ValueError: A folder does not describe a machine.
    """
    asyncio.run(_serve(options, say))


async def _serve(options: Options, say: Callable[[str], None]) -> None:
    machines = [find(name) for name in options.machines]

    def started(cluster: EmbeddedCluster) -> None:
        scenery = Scenery(cluster)
        for machine in machines:
            directory = (options.directory or Path()) / machine.name
            scenery.add(write(machine, directory))
            say(f"Node {machine.name}, its machine in {directory}")
        say(f"namespace {NAMESPACE} with Deployment {DEPLOYMENT}")
        if options.kubeconfig is not None:
            _write_kubeconfig(cluster, options.kubeconfig, options.server)
            say(f"kubeconfig {options.kubeconfig}")
        say(f"serving {cluster.url}")

    serving = asyncio.create_task(api.serve(host=options.address, port=options.port, started=started), name="api")
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await serving


def _write_kubeconfig(cluster: EmbeddedCluster, file: Path, server: str | None) -> None:
    """Written last and at once, for others may wait for the file."""
    beside = cluster.kubeconfig(file.with_name(f".{file.name}.new"))
    if server is not None:
        beside.write_text(beside.read_text().replace(cluster.url, server))
    beside.replace(file)
