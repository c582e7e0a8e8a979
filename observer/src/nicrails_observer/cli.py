"""The command line: ``nicrails-observer run`` and ``nicrails-observer check-config``."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from nicrails.kube import Access, InClusterAccess, KubeClient, KubeconfigAccess
from nicrails.service import ServiceError, stop_on_signals
from nicrails.service.logs import configure
from nicrails.settings import SettingsError, load, read_document
from nicrails_observer.app import ObserverApp
from nicrails_observer.memory import return_large_buffers
from nicrails_observer.settings import Identity, Settings, identity

GOOD, FAILED, BAD_CONFIGURATION = 0, 1, 2


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run the program.

    Args:
        argv: The arguments, without the program's name.
        environ: The environment.

    Returns:
        The exit code: 0 good, 1 failed while running, 2 bad configuration or arguments.
    """
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else BAD_CONFIGURATION
    settings, faults = read_settings(arguments.config)
    if arguments.command == "check-config":
        if settings is None:
            return _bad(faults)
        sys.stdout.write(f"{arguments.config}: good\n")
        return GOOD
    me = identity(environ, settings.mapping.observer_deployment if settings else None)
    if not isinstance(me, Identity):
        faults += [f"environment: {fault}" for fault in me]
    access = _access(arguments.kubeconfig or (settings.kubernetes.kubeconfig if settings else None), environ)
    if isinstance(access, str):
        faults.append(access)
    if settings is None or not isinstance(me, Identity) or isinstance(access, str):
        return _bad(faults)
    configure(settings.logging.level)
    return_large_buffers()
    try:
        asyncio.run(_serve(settings, me, access))
    except ServiceError as error:
        sys.stderr.write(f"nicrails-observer: {error}\n")
        return FAILED
    return GOOD


def read_settings(file: Path) -> tuple[Settings | None, list[str]]:
    """Read a settings file.

    Returns:
        The settings, or None and all faults, one a line, with the file's name and the dotted path.
    """
    try:
        return load(read_document(file), Settings), []
    except SettingsError as error:
        return None, [f"{file}: {fault}" for fault in error.faults]


def _bad(faults: Sequence[str]) -> int:
    sys.stderr.writelines(f"{fault}\n" for fault in faults)
    return BAD_CONFIGURATION


def _access(kubeconfig: str | None, environ: Mapping[str, str]) -> Access | str:
    """The way to the API server, or the fault that there is none."""
    if kubeconfig is not None:
        file = Path(kubeconfig)
        return KubeconfigAccess(file) if file.is_file() else f"{file}: no such kubeconfig file"
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return InClusterAccess(environ=environ)
    return "environment: KUBERNETES_SERVICE_HOST: missing, so this is no pod; give --kubeconfig FILE"


async def _serve(settings: Settings, me: Identity, access: Access) -> None:
    client = KubeClient(access, user_agent=f"nicrails-observer/{version('nicrails-observer')}")
    with stop_on_signals() as stop:
        await ObserverApp(settings, me, client).run(stop)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nicrails-observer",
        description="Owns the ConfigMap of GPU and NIC records and removes records of Nodes that are gone or replaced.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('nicrails-observer')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in (
        ("run", "run the service until SIGTERM or SIGINT"),
        ("check-config", "tell all faults of a settings file; exit 0 if there are none, else 2"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--config", type=Path, required=True, metavar="FILE", help="the settings file")
        if name == "run":
            command.add_argument("--kubeconfig", metavar="FILE", help="for use outside a cluster")
    return parser
