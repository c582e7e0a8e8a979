"""Arguments that the faker's services have in common.

It imports nothing that costs time: the command line declares the arguments of all commands each time it starts.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

LOG_LEVELS = ("debug", "info", "warning", "error")
MAX_PORT = 65535


class ArgumentsError(Exception):
    """The arguments do not say what is needed; the message is one sentence."""


def add_arguments(parser: argparse.ArgumentParser, *, port: int) -> None:
    """Declare what every service takes.

    Args:
        parser: Of the service.
        port: Where it listens by default.
    """
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="for use outside a cluster")
    parser.add_argument("--address", default="0.0.0.0", help="where to listen (%(default)s)")  # noqa: S104  (a pod's own)
    parser.add_argument(
        "--port",
        type=_port,
        default=port,
        help="of /livez, /healthz, /readyz and /metrics (%(default)s); 0 takes a free one",
    )
    parser.add_argument("--log-level", choices=LOG_LEVELS, default="info", help="%(default)s by default")


def add_topology_arguments(parser: argparse.ArgumentParser, environ: Mapping[str, str] = os.environ) -> None:
    """Declare where the topology ConfigMaps are."""
    parser.add_argument(
        "--topology-name",
        metavar="NAME",
        default=environ.get("TOPOLOGY_CM_NAME") or "topology",
        help="the cluster's ConfigMap; that of a Node is NAME-<node> (TOPOLOGY_CM_NAME, else topology)",
    )
    parser.add_argument(
        "--topology-namespace",
        metavar="NAMESPACE",
        default=environ.get("TOPOLOGY_CM_NAMESPACE") or "gpu-operator",
        help="where they are (TOPOLOGY_CM_NAMESPACE, else gpu-operator)",
    )


def add_node_argument(parser: argparse.ArgumentParser, environ: Mapping[str, str] = os.environ) -> None:
    """Declare which Node the service is for; :func:`node_of` reads it."""
    parser.add_argument(
        "--node", metavar="NAME", default=environ.get("NODE_NAME") or "", help="the Node's name (NODE_NAME)"
    )


def node_of(arguments: argparse.Namespace) -> str:
    """The Node's name.

    Raises:
        ArgumentsError: There is none.
    """
    node: str = arguments.node
    if not node:
        raise ArgumentsError("no Node is named; set NODE_NAME from the pod's spec.nodeName, or give --node NAME")
    return node


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= MAX_PORT):
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is no port; 0 to {MAX_PORT} are")
    return int(text)
