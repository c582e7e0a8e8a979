"""What the faker's services on a cluster have in common: endpoints, health, metrics, and a bounded life.

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
from nicrails_faker.arguments import ArgumentsError
from nicrails_faker.reporting import Metrics, Report, WatchReport

GOOD, FAILED, BAD_ARGUMENTS = 0, 1, 2
DISTRIBUTION = "nicrails-faker"


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
        arguments: With those of :func:`nicrails_faker.arguments.add_arguments`.
        duties: Names of what it is there for.
        build: Adds the service's tasks; called in the event loop; may raise ArgumentsError.
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
