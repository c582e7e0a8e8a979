"""The command ``nicrails-faker mig``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping

from nicrails_faker.arguments import add_arguments as add_common_arguments
from nicrails_faker.arguments import add_node_argument, add_topology_arguments, node_of

PORT = 8081
TAKEN_WITHIN = 60.0
PLUGIN_SELECTOR = "app=device-plugin,component=device-plugin"
MAX_SECONDS = 3600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_common_arguments(parser, port=PORT)
    add_topology_arguments(parser)
    add_node_argument(parser)
    add_request_arguments(parser)
    parser.add_argument(
        "--on-change",
        choices=("follow", "restart"),
        default="follow",
        help="follow: the device plugin follows the topology; restart: its pod is deleted (%(default)s)",
    )
    parser.add_argument(
        "--plugin-selector",
        metavar="LABELS",
        default=PLUGIN_SELECTOR,
        help="with restart: the labels of its pods, in the namespace of the topology (%(default)s)",
    )


def add_request_arguments(parser: argparse.ArgumentParser, environ: Mapping[str, str] = os.environ) -> None:
    """Declare how requests are served."""
    parser.add_argument(
        "--strict", action="store_true", help="advertise only what NVIDIA's plugin would; as for the device plugin"
    )
    parser.add_argument(
        "--taken-within",
        type=_seconds,
        metavar="SECONDS",
        default=TAKEN_WITHIN,
        help="how long a Node may take to advertise what was written, before it is taken back (%(default)g)",
    )
    parser.add_argument(
        "--no-node-labels",
        dest="node_labels",
        action="store_false",
        default=environ.get("DISABLE_NODE_LABELING", "").lower() != "true",
        help="no labels of GPU Feature Discovery (DISABLE_NODE_LABELING=true)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the service; returns the exit code."""
    # Imported when it is run: every command would pay for it otherwise.
    from nicrails_faker.migfaker import app  # noqa: PLC0415
    from nicrails_faker.migfaker.teller import Options  # noqa: PLC0415
    from nicrails_faker.running import run_service  # noqa: PLC0415

    return run_service(
        "mig",
        arguments,
        app.DUTIES,
        lambda service: app.build(
            service,
            node=node_of(arguments),
            namespace=arguments.topology_namespace,
            name=arguments.topology_name,
            options=Options(strict=arguments.strict, taken_within=arguments.taken_within, labels=arguments.node_labels),
            plugin_selector=arguments.plugin_selector if arguments.on_change == "restart" else None,
        ),
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_SECONDS:
        raise argparse.ArgumentTypeError(f"{text[:20]!r}: more than 0 and at most {MAX_SECONDS:g} seconds")
    return seconds
