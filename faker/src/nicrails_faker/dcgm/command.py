"""The command ``nicrails-faker metrics``."""

from __future__ import annotations

import argparse
from pathlib import Path

from nicrails_faker.arguments import add_arguments as add_common_arguments
from nicrails_faker.arguments import add_node_argument, add_topology_arguments, node_of

PORT = 9400
POD_RESOURCES = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
INTERVAL = 2.0
SHORTEST, LONGEST = 0.1, 3600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_common_arguments(parser, port=PORT)
    add_topology_arguments(parser)
    add_node_argument(parser)
    parser.add_argument(
        "--pod-resources",
        type=Path,
        metavar="SOCKET",
        default=POD_RESOURCES,
        help="the kubelet's socket that says who holds which device (%(default)s)",
    )
    parser.add_argument(
        "--interval",
        type=_seconds,
        metavar="SECONDS",
        default=INTERVAL,
        help="between two questions to the kubelet (%(default)g)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the service; returns the exit code."""
    # Imported when it is run: every command would pay for it otherwise.
    from nicrails_faker.dcgm import app  # noqa: PLC0415
    from nicrails_faker.running import run_service  # noqa: PLC0415

    return run_service(
        "metrics",
        arguments,
        app.DUTIES,
        lambda service: app.build(
            service,
            node=node_of(arguments),
            namespace=arguments.topology_namespace,
            name=arguments.topology_name,
            pod_resources=arguments.pod_resources,
            interval=arguments.interval,
        ),
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not SHORTEST <= seconds <= LONGEST:
        raise argparse.ArgumentTypeError(f"{text[:20]!r}: {SHORTEST:g} to {LONGEST:g} seconds")
    return seconds
