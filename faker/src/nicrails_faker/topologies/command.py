"""The command ``nicrails-faker topology``."""

from __future__ import annotations

import argparse

from nicrails_faker.arguments import add_arguments as add_common_arguments
from nicrails_faker.arguments import add_topology_arguments

PORT = 8080


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_common_arguments(parser, port=PORT)
    add_topology_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the service; returns the exit code."""
    # Imported when it is run: every command would pay for it otherwise.
    from nicrails_faker.running import run_service  # noqa: PLC0415
    from nicrails_faker.topologies import app  # noqa: PLC0415

    return run_service(
        "topology",
        arguments,
        app.DUTIES,
        lambda service: app.build(service, namespace=arguments.topology_namespace, name=arguments.topology_name),
    )
