"""A scripted HTTP server and a client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from kubernetes_asyncio.client.configuration import Configuration

from nicrails.kube import KubeClient

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class ScriptedAccess:
    """Access to a local server with a token that can be renewed."""

    url: str
    tokens: list[str] = field(default_factory=lambda: ["first"])
    trust: bool = False
    configurations: int = 0

    async def configuration(self) -> Configuration:
        """See nicrails.kube.Access."""
        self.configurations += 1
        self.trust = False
        configuration = Configuration(host=self.url)
        configuration.refresh_api_key_hook = self._show
        self._show(configuration)
        return configuration

    def reload(self) -> None:
        """Take the next token, if there is one."""
        if len(self.tokens) > 1:
            self.tokens.pop(0)

    def trust_changed(self) -> bool:
        """See nicrails.kube.Access."""
        return self.trust

    def _show(self, configuration: Configuration) -> None:
        configuration.api_key["BearerToken"] = f"Bearer {self.tokens[0]}"


@asynccontextmanager
async def scripted(handler: Handler, **options: object) -> AsyncIterator[tuple[KubeClient, ScriptedAccess]]:
    """A client whose server answers every request by the handler."""
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    access = ScriptedAccess(f"http://127.0.0.1:{runner.addresses[0][1]}")
    try:
        async with KubeClient(access, user_agent="nicrails-test/1", **options) as client:  # type: ignore[arg-type]
            yield client, access
    finally:
        await runner.cleanup()
