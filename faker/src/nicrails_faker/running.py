"""What the faker's services on a cluster have in common: arguments, endpoints, and a bounded life.

A service is a function that adds its tasks to a :class:`ServiceApp`::

    def build(app: ServiceApp) -> None:
        keeper = Keeper(app.client, app.report("topologies"))
        app.tasks["keeper"] = keeper.run


    def run(arguments: argparse.Namespace) -> int:
        return run_service("topology", arguments, ("topologies",), build)
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import structlog

from nicrails.kube import Access, InClusterAccess, KubeClient, KubeconfigAccess
from nicrails.service import (
    Health,
    LoopMonitor,
    ServiceError,
    application,
    registry,
    run_until,
    serving,
    stop_on_signals,
)
from nicrails.service.logs import configure
from nicrails_faker.reporting import Metrics, Report, WatchReport

GOOD, FAILED, BAD_ARGUMENTS = 0, 1, 2

DISTRIBUTION = "nicrails-faker"
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


class ServiceApp:
    """A service: its client, its health, its metrics, its endpoints and its tasks.

    Args:
        name: Of the command, such as ``device-plugin``.
        client: The API server; closed when :meth:`run` ends.
        duties: Names of what it is there for.
        address: Where it listens.
        port: 0 takes a free one.
        clock: Monotonic seconds.

    Attributes:
        health: What ``/healthz`` says.
        registry: What ``/metrics`` says.
        metrics: Those that all services have.
        tasks: They run until the service ends; one that ends by itself ends the service.
        web: The endpoints; more can be added before :meth:`run`.
        bound: Address and port of the endpoints once they are served.
        serving: Set when they are.
    """

    def __init__(
        self,
        name: str,
        client: KubeClient,
        duties: Iterable[str],
        *,
        address: str = "127.0.0.1",
        port: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.client = client
        self.health = Health(duties, clock=clock)
        self.registry = registry(DISTRIBUTION)
        self.metrics = Metrics(self.registry)
        self.web = application(self.health, self.registry)
        self.bound: tuple[str, int] | None = None
        self.serving = asyncio.Event()
        self.tasks: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "loop-monitor": LoopMonitor(self.registry).run
        }
        self._address = address
        self._port = port

    def report(self, duty: str) -> Report:
        """How a duty goes."""
        return Report(duty, self.health, self.metrics)

    def watch_report(self, collection: str, duty: Report) -> WatchReport:
        """How following a collection goes, which is (a part of) a duty."""
        return WatchReport(collection, duty, self.metrics)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until the event is set.

        Raises:
            ServiceError: The address can not be bound, or a task ended by itself.
        """
        async with self.client, serving(self.web, address=self._address, port=self._port) as self.bound:
            structlog.get_logger().info("serving", service=self.name, address=self.bound[0], port=self.bound[1])
            self.serving.set()
            await run_until(stop, self.tasks, on_stop=self.health.stopping)


def run_service(
    name: str,
    arguments: argparse.Namespace,
    duties: Iterable[str],
    build: Callable[[ServiceApp], None],
    *,
    environ: Mapping[str, str] = os.environ,
) -> int:
    """Run a service until SIGTERM or SIGINT.

    Args:
        name: Of the command.
        arguments: With those of :func:`add_arguments`.
        duties: Names of what it is there for.
        build: Adds the service's tasks; called in the event loop; may raise :class:`ArgumentsError`.
        environ: The environment.

    Returns:
        The exit code: 0 good, 1 failed while running, 2 bad arguments.
    """
    try:
        access = _access(arguments.kubeconfig, environ)
        configure(arguments.log_level)
        asyncio.run(_serve(name, arguments, access, duties, build))
    except ArgumentsError as error:
        sys.stderr.write(f"nicrails-faker {name}: {error}\n")
        return BAD_ARGUMENTS
    except ServiceError as error:
        sys.stderr.write(f"nicrails-faker {name}: {error}\n")
        return FAILED
    return GOOD


async def _serve(
    name: str,
    arguments: argparse.Namespace,
    access: Access,
    duties: Iterable[str],
    build: Callable[[ServiceApp], None],
) -> None:
    client = KubeClient(access, user_agent=f"nicrails-faker-{name}/{version(DISTRIBUTION)}")
    app = ServiceApp(name, client, duties, address=arguments.address, port=arguments.port)
    with stop_on_signals() as stop:
        build(app)
        await app.run(stop)


def _access(kubeconfig: Path | None, environ: Mapping[str, str]) -> Access:
    """The way to the API server."""
    if kubeconfig is not None:
        if not kubeconfig.is_file():
            raise ArgumentsError(f"{kubeconfig}: no such kubeconfig file; give another one with --kubeconfig FILE")
        return KubeconfigAccess(kubeconfig)
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return InClusterAccess(environ=environ)
    raise ArgumentsError("KUBERNETES_SERVICE_HOST is not set, so this is no pod; give --kubeconfig FILE")


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= MAX_PORT):
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is no port; 0 to {MAX_PORT} are")
    return int(text)
