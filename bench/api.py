"""The API server that a benchmark runs on, and plain requests to it."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from nicrails_faker.api import EmbeddedCluster
from tests.cluster import programs
from tests.cluster.controlplane import ControlPlane


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """An API server and how to reach it."""

    kind: str
    url: str
    kubeconfig: Path
    session: aiohttp.ClientSession
    tls: ssl.SSLContext | bool

    async def call(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """One request that must succeed."""
        headers = {"Content-Type": content_type}
        data = None if body is None else orjson.dumps(body)
        async with self.session.request(method, self.url + path, data=data, headers=headers, ssl=self.tls) as answer:
            text = await answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]!r}")
            return orjson.loads(text)


def has_real() -> bool:
    """Whether the programs of a real API server are there."""
    return {"etcd", "kube-apiserver"} <= programs.find().keys()


@contextlib.asynccontextmanager
async def running_api(folder: Path, *, window: int) -> AsyncIterator[Api]:
    """A real API server where its programs are found, else the embedded one.

    Args:
        folder: For the kubeconfig.
        window: Events that the embedded one remembers.
    """
    kubeconfig = folder / "kubeconfig"
    if not has_real():
        async with EmbeddedCluster(log_size=100, window=window) as cluster, aiohttp.ClientSession() as session:
            yield Api(
                kind="embedded API",
                url=cluster.url,
                kubeconfig=cluster.kubeconfig(kubeconfig),
                session=session,
                tls=True,
            )
        return
    with ControlPlane.running(programs.find()) as plane:
        async with aiohttp.ClientSession(headers=plane.endpoint.headers) as session:
            yield Api(
                kind="kube-apiserver",
                url=plane.endpoint.url,
                kubeconfig=plane.kubeconfig(kubeconfig),
                session=session,
                tls=plane.endpoint.ssl_context() or True,
            )
