"""The HTTP endpoints that probes and Prometheus use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from nicrails.service.health import Health
from nicrails.service.lifecycle import ServiceError


def application(health: Health, registry: CollectorRegistry) -> web.Application:
    """The endpoints ``/livez``, ``/healthz``, ``/readyz`` and ``/metrics``.

    ``/livez`` answers as long as the event loop turns and depends on nothing outside. ``/healthz`` and ``/readyz`` are
    the same: 200 while every duty is done, else 503.
    """

    async def livez(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(
            status=200 if health.healthy else 503,
            body=orjson.dumps(health.report(), option=orjson.OPT_APPEND_NEWLINE),
            content_type="application/json",
        )

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    app = web.Application(client_max_size=1024)
    app.add_routes(
        [
            web.get("/livez", livez),
            web.get("/healthz", healthz),
            web.get("/readyz", healthz),
            web.get("/metrics", metrics),
        ]
    )
    return app


@asynccontextmanager
async def serving(app: web.Application, *, address: str, port: int) -> AsyncIterator[tuple[str, int]]:
    """Serve an application; gives the address and the port, which matters where port 0 was asked for.

    Raises:
        ServiceError: The address can not be bound.
    """
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0, keepalive_timeout=30.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, address, port, reuse_port=False)
        try:
            await site.start()
        except OSError as error:
            raise ServiceError(
                f"can not listen on {address} port {port}: {error.strerror or error}; "
                "choose another with server.address and server.port"
            ) from error
        bound = runner.addresses[0]
        yield str(bound[0]), int(bound[1])
    finally:
        await runner.cleanup()
