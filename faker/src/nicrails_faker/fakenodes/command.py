"""The command ``nicrails-faker nodes``."""

from __future__ import annotations

import argparse
import re

from nicrails_faker.arguments import add_arguments as add_common_arguments
from nicrails_faker.arguments import add_topology_arguments
from nicrails_faker.migfaker.command import add_request_arguments

PORT = 8082
FAKE_LABEL = "nicrails.io/fake-node=true"

_LABEL = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_./]{0,315})=([-A-Za-z0-9_.]{0,63})", re.ASCII)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_common_arguments(parser, port=PORT)
    add_topology_arguments(parser)
    add_request_arguments(parser)
    parser.add_argument(
        "--fake-node-label",
        type=_label,
        metavar="KEY=VALUE",
        default=FAKE_LABEL,
        help="the label of Nodes without a kubelet, besides those of KWOK (%(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the service; returns the exit code."""
    # Imported when it is run: every command would pay for it otherwise.
    from nicrails_faker.fakenodes import app  # noqa: PLC0415
    from nicrails_faker.fakenodes.controller import FakeNodes  # noqa: PLC0415
    from nicrails_faker.migfaker.teller import Options  # noqa: PLC0415
    from nicrails_faker.running import run_service  # noqa: PLC0415

    key, _, value = arguments.fake_node_label.partition("=")
    return run_service(
        "nodes",
        arguments,
        app.DUTIES,
        lambda service: app.build(
            service,
            namespace=arguments.topology_namespace,
            name=arguments.topology_name,
            fake=FakeNodes(label=key, value=value),
            options=Options(strict=arguments.strict, taken_within=arguments.taken_within, labels=arguments.node_labels),
        ),
    )


def _label(text: str) -> str:
    if _LABEL.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is no label; write KEY=VALUE")
    return text
