"""The command ``nicrails-faker device-plugin``."""

from __future__ import annotations

import argparse
from pathlib import Path

from nicrails_faker.arguments import add_arguments as add_common_arguments
from nicrails_faker.arguments import add_node_argument, add_topology_arguments, node_of

PORT = 8082
PLUGIN_DIRECTORY = Path("/var/lib/kubelet/device-plugins")
HOST_DIRECTORY = Path("/var/lib/nicrails-faker")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_common_arguments(parser, port=PORT)
    add_topology_arguments(parser)
    add_node_argument(parser)
    parser.add_argument(
        "--plugin-directory",
        type=Path,
        metavar="DIR",
        default=PLUGIN_DIRECTORY,
        help="the kubelet's folder of device plugins (%(default)s)",
    )
    parser.add_argument(
        "--host-directory",
        type=Path,
        metavar="DIR",
        default=HOST_DIRECTORY,
        help="a folder of the host, mounted here under the same path, for the fake nvidia-smi (%(default)s)",
    )
    parser.add_argument("--strict", action="store_true", help="offer no GPUs where NVIDIA's plugin would not start")
    parser.add_argument(
        "--on-change",
        choices=("follow", "restart"),
        default="follow",
        help="follow: take over changes of the topology; restart: read it once, the pod is deleted for a change"
        " (%(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the service; returns the exit code."""
    # Imported when it is run: every command would pay for it otherwise.
    from nicrails_faker.deviceplugin import app  # noqa: PLC0415
    from nicrails_faker.running import run_service  # noqa: PLC0415

    return run_service(
        "device-plugin",
        arguments,
        app.DUTIES,
        lambda service: app.build(
            service,
            node=node_of(arguments),
            namespace=arguments.topology_namespace,
            name=arguments.topology_name,
            options=app.Options(
                plugin_directory=arguments.plugin_directory,
                host_directory=arguments.host_directory,
                strict=arguments.strict,
                follow=arguments.on_change == "follow",
            ),
        ),
    )
