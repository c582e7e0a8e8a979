"""``nicrails-faker mig-plan``: what a request would make of a Node, without a cluster."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TextIO

from nicrails.text import excerpt
from nicrails_faker.mig import request as requests
from nicrails_faker.mig import topology_yaml, yaml_text
from nicrails_faker.mig.errors import MigError
from nicrails_faker.mig.plan import plan
from nicrails_faker.mig.report import as_json, as_table
from nicrails_faker.mig.request import MigRequest, parse_request
from nicrails_faker.mig.topology import NodeTopology
from nicrails_faker.mig.topology_yaml import read_topology

GOOD, REFUSED, BAD_ARGUMENTS = 0, 1, 2
STDIN = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "request",
        nargs="?",
        metavar="REQUEST",
        help="the text of run.ai/mig.config, or a file of mig-parted; - is stdin",
    )
    parser.add_argument("--off", action="store_true", help="instead of a request: what its removal does")
    parser.add_argument("--config", metavar="NAME", help="which of several named configurations is meant")
    node = parser.add_argument_group("the Node, as it is")
    either = node.add_mutually_exclusive_group(required=True)
    either.add_argument("--topology", metavar="FILE", help="its topology.yml; - is stdin")
    either.add_argument("--product", metavar="NAME", help="or a new one with GPUs of this product")
    node.add_argument("--gpus", type=int, default=1, metavar="N", help="with --product: how many (%(default)s)")
    node.add_argument("--node", default="node1", metavar="NAME", help="with --product: its name (%(default)s)")
    node.add_argument(
        "--memory",
        type=int,
        default=0,
        metavar="MIB",
        help="with --product: of each GPU, if the product has several sizes",
    )
    parser.add_argument("--json", action="store_true", help="JSON instead of tables")


def run(arguments: argparse.Namespace, stdin: TextIO, stdout: TextIO, stderr: TextIO) -> int:
    """Run the command.

    Returns:
        0 if the request can be met, 1 if it is refused or a file cannot be read, 2 for arguments that do not fit together.
    """
    wrong = _wrong(arguments)
    if wrong:
        return _fail(stderr, wrong, BAD_ARGUMENTS)
    try:
        after = plan(_topology(arguments, stdin), _request(arguments, stdin))
        text = as_json(after) if arguments.json else as_table(after)
    except MigError as error:
        return _fail(stderr, str(error), REFUSED)
    except OSError as error:
        return _fail(stderr, f"{error.filename}: {error.strerror}", REFUSED)
    stdout.write(text)
    return GOOD


def _wrong(arguments: argparse.Namespace) -> str | None:
    """What about the arguments does not fit together."""
    if (arguments.request is None) != arguments.off:
        return "give either a REQUEST or --off"
    if arguments.request == STDIN and arguments.topology == STDIN:
        return "REQUEST and --topology cannot both be standard input"
    if not 0 <= arguments.gpus <= topology_yaml.MAX_GPUS:
        return f"--gpus: expected 0 to {topology_yaml.MAX_GPUS}, found {arguments.gpus}"
    if not 0 <= arguments.memory <= topology_yaml.MAX_MEMORY:
        return f"--memory: expected 0 to {topology_yaml.MAX_MEMORY}, found {arguments.memory}"
    return None


def _topology(arguments: argparse.Namespace, stdin: TextIO) -> NodeTopology:
    if arguments.topology is None:
        return NodeTopology.create(
            arguments.node, gpu_product=arguments.product, gpu_count=arguments.gpus, gpu_memory=arguments.memory
        )
    try:
        return read_topology(_read(arguments.topology, stdin, yaml_text.MAX_SIZE))
    except MigError as error:
        raise MigError(f"{_name(arguments.topology)}: {error}") from error


def _request(arguments: argparse.Namespace, stdin: TextIO) -> MigRequest | None:
    if arguments.off:
        return None
    try:
        return parse_request(_read(arguments.request, stdin, requests.MAX_SIZE), config=arguments.config)
    except MigError as error:
        raise MigError(f"{_name(arguments.request)}: {error}") from error


def _read(file: str, stdin: TextIO, most: int) -> str:
    """The text of a file or of standard input, no more of it than shows that it is too long."""
    try:
        if file == STDIN:
            return stdin.read(most + 1)
        with Path(file).open(encoding="utf-8") as stream:
            return stream.read(most + 1)
    except UnicodeDecodeError as error:
        raise MigError("not UTF-8") from error


def _name(file: str) -> str:
    return "standard input" if file == STDIN else excerpt(file, 120)


def _fail(stderr: TextIO, sentence: str, code: int) -> int:
    stderr.write(f"nicrails-faker mig-plan: {sentence}\n")
    return code
