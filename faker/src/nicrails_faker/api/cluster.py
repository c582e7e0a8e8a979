"""The embedded cluster: an API server on loopback with its controllers, and its objects at hand."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import orjson
from aiohttp import web

from nicrails_faker.api.controllers import Controllers
from nicrails_faker.api.execs import ExecHandler
from nicrails_faker.api.faults import Faults
from nicrails_faker.api.objects import Objects
from nicrails_faker.api.operations import Operations, utc_now
from nicrails_faker.api.requests import RequestLog
from nicrails_faker.api.resources import DEFAULT_RESOURCES, Resource, Table
from nicrails_faker.api.server import Authorize, Server
from nicrails_faker.api.store import Store

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
"""The namespaces that every cluster has."""
_GRACE = 0.2
"""Seconds that requests get to end when the server goes."""


class EmbeddedCluster(Objects):
    """A Kubernetes API in this process, over HTTP on loopback; an asynchronous context manager.

    Its methods are for the thread of its event loop. Objects go in and come out as copies.

    Args:
        host: Where to listen.
        port: 0: any free port.
        resources: What it serves.
        window: Events that each resource remembers; who goes on from before them is told to list again.
        log_size: Requests that :attr:`requests` remembers.
        seed: For UIDs and generated names, which are then the same in every run.
        now: The wall clock, for timestamps alone.
        controller_delay: Seconds between a change and what controllers do about it.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        resources: Sequence[Resource] = DEFAULT_RESOURCES,
        window: int = 1000,
        log_size: int = 10_000,
        seed: int | None = None,
        now: Callable[[], datetime.datetime] = utc_now,
        controller_delay: float = 0.05,
    ) -> None:
        self._host, self._port = host, port
        table = Table(resources)
        operations = Operations(Store(table.resources, window=window), table, now=now, seed=seed)
        super().__init__(operations)
        self._controllers = Controllers(operations, table, delay=controller_delay)
        self._server = Server(operations, log_size=log_size)
        self._running = contextlib.AsyncExitStack()
        if table.of_kind("v1", "Namespace") is not None:
            for name in NAMESPACES:
                self.create("v1", "namespaces", {"metadata": {"name": name}})

    # --- life -------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            # Fixtures enter and leave in different tasks, which a TaskGroup does not allow for.
            controllers = asyncio.create_task(self._controllers.run(), name="embedded cluster: controllers")
            stack.push_async_callback(_end, controllers)
            app = web.Application(client_max_size=0)  # the server has a limit of its own, and an answer for it
            app.router.add_route("*", "/{path:.*}", self._server.handle)
            runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=_GRACE)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, self._host, self._port, backlog=1024).start()
            self._port = runner.addresses[0][1]
            self._server.open(f"{self._host}:{self._port}")
            stack.callback(self._server.close_streams)
            self._running = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._running.aclose()

    @contextlib.asynccontextmanager
    async def outage(self) -> AsyncIterator[None]:
        """Nobody listens within the block; afterwards the same objects are served at the same port."""
        await self._running.aclose()
        try:
            yield
        finally:
            await self.__aenter__()

    @property
    def url(self) -> str:
        """``http://127.0.0.1:43521``, once it listens."""
        return f"http://{self._host}:{self._port}"

    def kubeconfig(self, path: Path, *, token: str | None = None) -> Path:
        """Write a kubeconfig for this server, readable by its owner alone.

        Args:
            path: Where to.
            token: The bearer token, if :attr:`tokens` are set.

        Returns:
            The path.
        """
        # A JSON string is a YAML string too.
        user = f"{{token: {orjson.dumps(token).decode()}}}" if token else "{}"
        path.touch(mode=0o600)
        path.chmod(0o600)
        path.write_text(
            "apiVersion: v1\n"
            "kind: Config\n"
            f'clusters: [{{name: embedded, cluster: {{server: "{self.url}"}}}}]\n'
            f"users: [{{name: embedded, user: {user}}}]\n"
            "contexts: [{name: embedded, context: {cluster: embedded, user: embedded}}]\n"
            "current-context: embedded\n"
        )
        return path

    # --- behaviour --------------------------------------------------------------------------------------------------

    @property
    def faults(self) -> Faults:
        """The faults in force; add :class:`~nicrails_faker.api.Fault` objects here."""
        return self._server.faults

    @property
    def requests(self) -> RequestLog:
        """The latest requests, for assertions."""
        return self._server.log

    @property
    def tokens(self) -> Mapping[str, str] | None:
        """Bearer token → user name; None: everybody is let in."""
        return self._server.tokens

    @tokens.setter
    def tokens(self, tokens: Mapping[str, str] | None) -> None:
        self._server.tokens = tokens

    @property
    def authorize(self) -> Authorize | None:
        """Asked about every request: None allows it, a sentence refuses it, an empty one in the server's own words."""
        return self._server.authorize

    @authorize.setter
    def authorize(self, authorize: Authorize | None) -> None:
        self._server.authorize = authorize

    @property
    def exec_handler(self) -> ExecHandler | None:
        """Runs commands in containers; None: no kubelet answers."""
        return self._server.exec_handler

    @exec_handler.setter
    def exec_handler(self, handler: ExecHandler | None) -> None:
        self._server.exec_handler = handler

    @property
    def bookmark_interval(self) -> float:
        """Seconds between the bookmarks of a watch; for watches that are yet to come."""
        return self._server.bookmark_interval

    @bookmark_interval.setter
    def bookmark_interval(self, seconds: float) -> None:
        self._server.bookmark_interval = seconds


async def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    kubeconfig: Path | None = None,
    started: Callable[[EmbeddedCluster], None] | None = None,
) -> None:
    """Run an embedded cluster by itself until this is cancelled.

    Args:
        host: Where to listen.
        port: 0: any free port.
        kubeconfig: Where to write one, if anywhere.
        started: Called once it listens, to print its address or to fill it.

    Raises:
        OSError: The port is taken, or the kubeconfig can not be written.
    """
    async with EmbeddedCluster(host, port) as cluster:
        if kubeconfig is not None:
            cluster.kubeconfig(kubeconfig)
        if started is not None:
            started(cluster)
        await asyncio.Event().wait()


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its end; if it had failed before, that failure is raised here."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.result()
