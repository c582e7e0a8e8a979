"""The embedded cluster: an API server on loopback with its controllers, and its objects at hand."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import datetime
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from aiohttp import web

from nicrails_faker.api import deletion, label_selectors
from nicrails_faker.api.controllers import Controllers
from nicrails_faker.api.execs import ExecHandler
from nicrails_faker.api.faults import Faults
from nicrails_faker.api.operations import Operations, utc_now
from nicrails_faker.api.options import Call, DeleteOptions
from nicrails_faker.api.patches import merge
from nicrails_faker.api.requests import RequestLog
from nicrails_faker.api.resources import DEFAULT_RESOURCES, Resource, Table
from nicrails_faker.api.server import Authorize, Server
from nicrails_faker.api.store import Key, Store

Json = dict[str, Any]
Objects = list[Json]

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
"""The namespaces that every cluster has."""
_GRACE = 0.2
"""Seconds that requests get to end when the server goes."""


class EmbeddedCluster:
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
        self._table = Table(resources)
        self._store = Store(self._table.resources, window=window)
        self._operations = Operations(self._store, self._table, now=now, seed=seed)
        self._controllers = Controllers(self._operations, self._table, delay=controller_delay)
        self._server = Server(self._operations, log_size=log_size)
        self._running = contextlib.AsyncExitStack()
        if self._table.of_kind("v1", "Namespace") is not None:
            for name in NAMESPACES:
                self.create("v1", "namespaces", {"metadata": {"name": name}})

    # --- life -------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            group = await stack.enter_async_context(asyncio.TaskGroup())
            controllers = group.create_task(self._controllers.run(), name="embedded cluster: controllers")
            stack.callback(controllers.cancel)
            app = web.Application()
            app.router.add_route("*", "/{path:.*}", self._server.handle)
            runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=_GRACE)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, self._host, self._port, backlog=1024).start()
            self._port = runner.addresses[0][1]
            self._server.address = f"{self._host}:{self._port}"
            stack.callback(self._server.close_streams)
            self._running = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._running.aclose()

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
        user = f'{{token: "{token}"}}' if token else "{}"
        path.touch(mode=0o600)
        path.write_text(
            "apiVersion: v1\n"
            "kind: Config\n"
            f'clusters: [{{name: embedded, cluster: {{server: "{self.url}"}}}}]\n'
            f"users: [{{name: embedded, user: {user}}}]\n"
            "contexts: [{name: embedded, context: {cluster: embedded, user: embedded}}]\n"
            "current-context: embedded\n"
        )
        return path

    # --- objects ----------------------------------------------------------------------------------------------------

    def create(self, api_version: str, plural: str, document: Mapping[str, Any], *, namespace: str = "") -> Json:
        """Create an object.

        Args:
            api_version: ``v1`` or ``apps/v1``.
            plural: The resource: ``nodes``, ``configmaps``, ….
            document: The object; ``kind`` and ``apiVersion`` may be left out. Its status, which a client would have to
                write in a second step, is kept.
            namespace: Its namespace; by default the document's, else ``default``.

        Returns:
            The object as it is stored.

        Raises:
            StatusError: As over HTTP.
            KeyError: There is no such resource.
        """
        resource = self._table.named(api_version, plural)
        given = copy.deepcopy(dict(document))
        where = namespace or given.get("metadata", {}).get("namespace") or "default"
        state = given.get("status")
        stored = self._operations.create(resource, where if resource.namespaced else "", given, _call())
        if state and resource.status:
            stored = self._operations.patch(resource, stored.key, _merging({"status": state}), _call(), "status")
        return copy.deepcopy(stored.document)

    def get(self, api_version: str, plural: str, name: str, *, namespace: str = "") -> Json:
        """One object; the arguments are as for :meth:`create`.

        Raises:
            StatusError: 404.
            KeyError: There is no such resource.
        """
        resource = self._table.named(api_version, plural)
        return copy.deepcopy(self._operations.get(resource, _key(resource, namespace, name)).document)

    def update(self, api_version: str, plural: str, document: Mapping[str, Any], *, namespace: str = "") -> Json:
        """Replace an object, its status too if the document has one; the arguments are as for :meth:`create`.

        Raises:
            StatusError: As over HTTP.
            KeyError: There is no such resource.
        """
        resource = self._table.named(api_version, plural)
        given = copy.deepcopy(dict(document))
        meta = given.get("metadata", {})
        key = _key(resource, namespace or meta.get("namespace", ""), meta.get("name", ""))
        stored = self._operations.replace(resource, key, given, _call())
        if resource.status and "status" in given:
            state = given["status"]
            stored = self._operations.patch(resource, key, lambda now: {**now, "status": state}, _call(), "status")
        return copy.deepcopy(stored.document)

    def patch(
        self,
        api_version: str,
        plural: str,
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> Json:
        """Apply a merge patch; ``subresource`` may be ``status``.

        Raises:
            StatusError: As over HTTP.
            KeyError: There is no such resource.
        """
        resource = self._table.named(api_version, plural)
        change = _merging(copy.deepcopy(dict(patch)))
        stored = self._operations.patch(resource, _key(resource, namespace, name), change, _call(), subresource)
        return copy.deepcopy(stored.document)

    def delete(self, api_version: str, plural: str, name: str, *, namespace: str = "", grace: int = 0) -> None:
        """Delete an object; one with finalizers stays, marked.

        Args:
            api_version: As for :meth:`create`.
            plural: As for :meth:`create`.
            name: Its name.
            namespace: Its namespace; by default ``default``.
            grace: Seconds that a pod on a Node is given. There is no kubelet that would confirm its end: with a grace
                period it stays, terminating, until it is deleted with 0.

        Raises:
            StatusError: As over HTTP.
            KeyError: There is no such resource.
        """
        resource = self._table.named(api_version, plural)
        options = DeleteOptions(grace=grace)
        deletion.delete(self._operations, resource, _key(resource, namespace, name), options, _call())

    def list(self, api_version: str, plural: str, *, namespace: str = "", label_selector: str = "") -> Objects:
        """All objects, in order.

        Args:
            api_version: As for :meth:`create`.
            plural: As for :meth:`create`.
            namespace: Only this one; empty: all.
            label_selector: Only those that it selects.

        Raises:
            SelectorError: It is no label selector.
            KeyError: There is no such resource.
        """
        selected = label_selectors.parse(label_selector)
        found = self._store.collection(self._table.named(api_version, plural)).current()
        return [
            copy.deepcopy(stored.document)
            for stored in found
            if namespace in {"", stored.key[0]} and selected(stored.document)
        ]

    @property
    def revision(self) -> int:
        """The revision of the last change."""
        return self._store.revision

    def compact(self) -> None:
        """Let nobody go on from before now: older watches and continue tokens get 410; open watches go on."""
        self._store.compact()

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


def _call() -> Call:
    return Call(manager="nicrails-faker")


def _key(resource: Resource, namespace: str, name: str) -> Key:
    return (namespace or "default") if resource.namespaced else "", name


def _merging(patch: Json) -> Callable[[Json], Json]:
    def change(document: Json) -> Json:
        merged: Json = merge(document, patch)
        return merged

    return change
