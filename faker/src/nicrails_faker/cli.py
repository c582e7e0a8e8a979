"""The command line of ``nicrails-faker``.

Each command imports what it needs when it is called: listing machines must not cost the start of a web server.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

from nicrails_faker import checker
from nicrails_faker.mig import command

GOOD, FAILED, BAD_ARGUMENTS = 0, 1, 2

SERVICES = {
    "topology": ("topologies", "keeps the topology ConfigMaps of the Nodes, and serves them"),
    "device-plugin": ("deviceplugin", "advertises a Node's fake GPUs and slices to its kubelet"),
    "mig": ("migfaker", "cuts a Node's fake GPUs as its annotation asks"),
    "nodes": ("fakenodes", "advertises the fake GPUs of Nodes that have no kubelet"),
    "metrics": ("dcgm", "metrics of a Node's fake GPUs and slices under DCGM's names"),
}
"""Services on a real cluster: the package that has ``command.add_arguments`` and ``command.run``, and what they do."""


def main(argv: Sequence[str]) -> int:
    """Run one command.

    Args:
        argv: The arguments, without the program's name.

    Returns:
        The exit code: 0 good, 1 failed, 2 bad arguments, 130 interrupted.
    """
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as end:  # argparse ends the process for --help and for bad arguments
        return end.code if isinstance(end.code, int) else BAD_ARGUMENTS
    chosen: Callable[[argparse.Namespace], int] = arguments.command
    try:
        return chosen(arguments)
    except BrokenPipeError:
        # Whoever read our output has had enough; the interpreter must not complain about it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nicrails-faker",
        description="Runs nicrails without a GPU: an embedded Kubernetes API, simulated machines, a demonstration.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('nicrails-faker')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    demo = commands.add_parser(
        "demo",
        help="the real broker and observer on an embedded cluster of simulated machines",
        description="Shows what nicrails does and checks every promise; exit code 0 only if all of them held.",
        allow_abbrev=False,
    )
    demo.add_argument("--keep", action="store_true", help="leave everything running afterwards, until Ctrl-C")
    demo.set_defaults(command=_demo)

    api = commands.add_parser(
        "api",
        help="the embedded Kubernetes API alone",
        description="Serves until SIGTERM or Ctrl-C. Everybody who reaches the port is let in.",
        allow_abbrev=False,
    )
    api.add_argument("--address", default="127.0.0.1", help="where to listen (%(default)s)")
    api.add_argument("--port", type=int, default=0, help="0, the default, takes a free one")
    api.add_argument("--kubeconfig", type=Path, metavar="FILE", help="write a kubeconfig there")
    api.add_argument("--server", metavar="URL", help="the server in the kubeconfig, where others reach it otherwise")
    api.add_argument(
        "--machine",
        action="append",
        default=[],
        metavar="NAME",
        help="also a Node with the pod of the GPU Operator; a shipped machine or a folder; may be repeated",
    )
    api.add_argument("--directory", type=Path, metavar="DIR", help="where the machines are written")
    api.set_defaults(command=_api)

    check = commands.add_parser(
        "check",
        help="whether a running embedded cluster, its observer and its brokers are right",
        description="Waits until records, health and metrics are right; exit code 0 only then.",
        allow_abbrev=False,
    )
    checker.add_arguments(check)
    check.set_defaults(command=checker.run)

    machine = commands.add_parser("machine", help="simulated machines", allow_abbrev=False)
    verbs = machine.add_subparsers(title="commands", metavar="COMMAND", required=True)
    verbs.add_parser("list", help="the shipped machines", allow_abbrev=False).set_defaults(command=_machine_list)
    write = verbs.add_parser("write", help="put a machine into a directory", allow_abbrev=False)
    write.add_argument("name", metavar="NAME", help="a shipped machine, or a folder with machine.json")
    write.add_argument("directory", type=Path, metavar="DIR", help="must not exist, or be empty")
    write.set_defaults(command=_machine_write)

    plan = commands.add_parser(
        "mig-plan",
        help="what a MIG request would make of a node's GPUs",
        description="Checks a MIG request against a node's topology and shows the slices; acts on nothing.",
        allow_abbrev=False,
    )
    command.add_arguments(plan)
    plan.set_defaults(command=_mig_plan)

    for name, (package, text) in SERVICES.items():
        service = commands.add_parser(name, help=text, description=text.capitalize() + ".", allow_abbrev=False)
        module = importlib.import_module(f"nicrails_faker.{package}.command")
        module.add_arguments(service)
        service.set_defaults(command=module.run)
    return parser


def _demo(arguments: argparse.Namespace) -> int:
    from nicrails_faker.demo import run  # noqa: PLC0415  (see the module's docstring)

    return run(keep=arguments.keep)


def _api(arguments: argparse.Namespace) -> int:
    from nicrails_faker.standalone import Options, serve  # noqa: PLC0415  (see the module's docstring)

    if arguments.machine and arguments.directory is None:
        return _fail("api: --machine needs --directory", BAD_ARGUMENTS)
    options = Options(
        address=arguments.address,
        port=arguments.port,
        kubeconfig=arguments.kubeconfig,
        server=arguments.server,
        machines=tuple(arguments.machine),
        directory=arguments.directory,
    )
    try:
        serve(options, lambda line: print(line, flush=True))  # noqa: T201  (a command line's output)
    except* (OSError, ValueError, KeyError) as errors:
        # A server that can not listen fails within its own task group.
        sentence = "; ".join(_sentence(error) for error in _flat(errors))
    else:
        return GOOD
    return _fail(f"api: {sentence}", FAILED)


def _machine_list(_: argparse.Namespace) -> int:
    from nicrails_faker.machines import names, shipped  # noqa: PLC0415  (see the module's docstring)

    for name in names():
        print(f"{name:20}  {shipped(name).description}")  # noqa: T201  (a command line's output)
    return GOOD


def _machine_write(arguments: argparse.Namespace) -> int:
    from nicrails_faker.machines import find, write  # noqa: PLC0415  (see the module's docstring)

    try:
        installed = write(find(arguments.name), arguments.directory)
    except (OSError, ValueError, KeyError) as error:
        return _fail(f"machine write: {_sentence(error)}", FAILED)
    for text, path in (
        ("sysfs root", installed.sysfs_root),
        ("lldpctl", installed.lldpctl),
        ("nvidia-smi", installed.nvidia_smi),
        ("answers", installed.answers),
    ):
        print(f"{text:10}  {path}")  # noqa: T201  (a command line's output)
    return GOOD


def _mig_plan(arguments: argparse.Namespace) -> int:
    return command.run(arguments, sys.stdin, sys.stdout, sys.stderr)


def _flat(group: BaseExceptionGroup[Exception]) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _flat(error)
        else:
            yield error


def _sentence(error: Exception) -> str:
    return str(error.args[0]) if isinstance(error, KeyError) else str(error)


def _fail(sentence: str, code: int) -> int:
    sys.stderr.write(f"nicrails-faker {sentence}\n")
    return code
