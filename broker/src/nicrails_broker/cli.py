"""The commands of ``nicrails-broker``.

Each command imports what it needs when it is called: reading one capture must not cost the start of a service.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

from nicrails.text import excerpt

OK, FAILED, BAD_CONFIGURATION = 0, 1, 2
STANDARD_INPUT = "-"
MAX_INPUT = 16 * 1024 * 1024


def main(argv: Sequence[str]) -> int:
    """Run one command.

    Args:
        argv: Without the program's name.

    Returns:
        0 for good, 1 for failed or refused, 2 for a bad configuration or command line.
    """
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as end:  # argparse ends the process for --help and for a wrong command line
        return end.code if isinstance(end.code, int) else BAD_CONFIGURATION
    command: Callable[[argparse.Namespace], int] = arguments.command
    try:
        return command(arguments)
    except BrokenPipeError:
        # Whoever read our output has had enough; the interpreter must not complain about it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nicrails-broker",
        description="Discovers which NICs are closest to each GPU of this Node on each network rail, and publishes it.",
        epilog="Exit status: 0 good, 1 failed or refused, 2 bad configuration or command line.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('nicrails-broker')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    run = commands.add_parser(
        "run",
        help="the service: discover, publish, keep true",
        description="Runs until SIGTERM. Needs NODE_NAME and POD_NAMESPACE in the environment, as the downward API sets them.",
        allow_abbrev=False,
    )
    _add_config(run)
    _add_kubeconfig(run)
    run.set_defaults(command=_run)

    check = commands.add_parser(
        "check-config",
        help="tell all faults of a settings file",
        description="Prints every fault on standard error, one a line with its dotted path; exit status 0 or 2.",
        allow_abbrev=False,
    )
    _add_config(check)
    check.set_defaults(command=_check_config)

    discover = commands.add_parser(
        "discover",
        help="one discovery, the record on standard output, nothing published",
        description=(
            "Prints the record that would be published, or null where there would be none. Each input may come from a "
            "file; with all of them no API server is needed. The Node's UID is --node-uid, or that of the Node "
            "NODE_NAME where an API server is known, or else all zeros."
        ),
        allow_abbrev=False,
    )
    _add_config(discover)
    _add_kubeconfig(discover)
    discover.add_argument("--sysfs-root", metavar="DIR", help="the machine's /sys, instead of host.sysfsRoot")
    discover.add_argument("--lldp-file", metavar="FILE", help="output of: lldpctl -f json0")
    discover.add_argument("--topo-file", metavar="FILE", help="output of: nvidia-smi topo -m")
    discover.add_argument(
        "--inventory-file",
        metavar="FILE",
        help="output of: nvidia-smi --query-gpu=index,uuid,pci.bus_id --format=csv,noheader",
    )
    discover.add_argument("--node-uid", metavar="UID", help="the nodeUID of the record")
    discover.set_defaults(command=_discover)

    parse = commands.add_parser(
        "parse",
        help="read one captured output and show what was read, as JSON",
        description="A refused input: exit status 1, nothing on standard output, one sentence on standard error.",
        allow_abbrev=False,
    )
    parse.add_argument("kind", choices=("topo", "inventory", "lldp"), help="what the file is the output of")
    parse.add_argument("file", metavar="FILE", help="the captured output; - for standard input")
    parse.set_defaults(command=_parse)
    return parser


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", metavar="FILE", required=True, help="settings, YAML with the keys of the Helm values"
    )


def _add_kubeconfig(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kubeconfig", metavar="FILE", help="how to reach the API server, instead of as a pod")


def _run(arguments: argparse.Namespace) -> int:
    from nicrails.service import ServiceError, stop_on_signals  # noqa: PLC0415  (see the module's docstring)
    from nicrails.service.logs import configure  # noqa: PLC0415
    from nicrails.settings import Fault, SettingsError  # noqa: PLC0415
    from nicrails_broker.app import Broker  # noqa: PLC0415
    from nicrails_broker.settings import read_identity, read_settings, with_overrides  # noqa: PLC0415

    faults: list[Fault] = []
    settings = identity = None
    try:
        settings = with_overrides(read_settings(Path(arguments.config)), kubeconfig=arguments.kubeconfig)
    except SettingsError as error:
        faults += error.faults
    try:
        identity = read_identity(os.environ)
    except SettingsError as error:
        faults += error.faults
    if settings is None or identity is None:
        _tell(faults)
        return BAD_CONFIGURATION
    configure(settings.logging.level)
    broker = Broker(settings, identity)

    async def serve() -> None:
        with stop_on_signals() as stop:
            await broker.run(stop)

    try:
        asyncio.run(serve())
    except ServiceError as error:
        _tell([error])
        return FAILED
    return OK


def _check_config(arguments: argparse.Namespace) -> int:
    from nicrails.settings import SettingsError  # noqa: PLC0415
    from nicrails_broker.settings import read_settings  # noqa: PLC0415

    try:
        read_settings(Path(arguments.config))
    except SettingsError as error:
        _tell(error.faults)
        return BAD_CONFIGURATION
    return OK


def _discover(arguments: argparse.Namespace) -> int:
    from nicrails.settings import SettingsError  # noqa: PLC0415
    from nicrails_broker.failures import BrokerError  # noqa: PLC0415
    from nicrails_broker.once import discover_once, read_inputs  # noqa: PLC0415
    from nicrails_broker.settings import read_settings, with_overrides  # noqa: PLC0415

    try:
        settings = with_overrides(
            read_settings(Path(arguments.config)), kubeconfig=arguments.kubeconfig, sysfs_root=arguments.sysfs_root
        )
        inputs = read_inputs(
            lldp=arguments.lldp_file,
            topology=arguments.topo_file,
            inventory=arguments.inventory_file,
            node_uid=arguments.node_uid,
            environ=os.environ,
        )
        record = asyncio.run(discover_once(settings, inputs, lambda sentence: _tell([sentence])))
    except SettingsError as error:
        _tell(error.faults)
        return BAD_CONFIGURATION
    except BrokerError as error:
        _tell([error])
        return FAILED
    return _show(record)


def _parse(arguments: argparse.Namespace) -> int:
    from nicrails_broker.parse_command import run  # noqa: PLC0415
    from nicrails_broker.parsers.errors import ParseError  # noqa: PLC0415

    try:
        data = _read(arguments.file)
        answer = run(arguments.kind, data)
    except OSError as error:
        _tell([f"can not read {arguments.file}: {error.strerror or error}"])
        return FAILED
    except ParseError as error:
        _tell([error])
        return FAILED
    return _show(answer)


def _read(file: str) -> bytes:
    if file == STANDARD_INPUT:
        data = sys.stdin.buffer.read(MAX_INPUT + 1)
    else:
        with Path(file).open("rb") as stream:
            data = stream.read(MAX_INPUT + 1)
    if len(data) > MAX_INPUT:
        raise OSError(f"larger than {MAX_INPUT} bytes")
    return data


def _show(document: bytes) -> int:
    sys.stdout.buffer.write(document + b"\n")
    sys.stdout.buffer.flush()
    return OK


def _tell(sentences: Iterable[object]) -> None:
    for sentence in sentences:
        print(excerpt(str(sentence), 2048), file=sys.stderr)  # noqa: T201  (a command speaks to its user)
