"""Keeping a plugin registered, whatever the kubelet does."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from nicrails.kube import Backoff
from nicrails_faker.deviceplugin.metrics import Metrics
from nicrails_faker.deviceplugin.plugin import Plugin, PluginError, SocketIdentity
from nicrails_faker.kubelet import KubeletError, register
from nicrails_faker.kubelet.api import KUBELET_SOCKET

LOOK = 0.5
"""Seconds between two looks at the sockets."""
ALONE = 1.0
"""Seconds after the end of the stream of devices after which the registration counts as lost."""
NOT_FOLLOWED = 5.0
"""The same where the kubelet has taken the registration but never begun a stream."""


class Keeper:
    """Serves and registers one plugin, again whenever that is needed, until it is cancelled.

    That is when the kubelet is another one (its socket is new), when the plugin's socket is gone (a starting kubelet
    removes all), and when the kubelet has ended the stream of devices.

    Args:
        plugin: What is kept.
        directory: Has the kubelet's socket.
        metrics: The service's.
        told: Told the present trouble in one sentence, "" when it is registered.
        wake: Set when there is reason to look at once.
        rng: For jitter.
    """

    def __init__(
        self,
        plugin: Plugin,
        directory: Path,
        metrics: Metrics,
        *,
        told: Callable[[str], None],
        wake: asyncio.Event,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.plugin = plugin
        self._directory = directory
        self._metrics = metrics
        self._told = told
        self._wake = wake
        self._clock = clock
        self._backoff = Backoff(initial=0.2, cap=5.0, rng=rng or random.Random())  # noqa: S311  (jitter)
        self._kubelet: SocketIdentity | None = None
        self._begun = 0
        self._registered = 0.0

    async def run(self) -> None:
        """Keep it for ever."""
        try:
            while True:
                self._wake.clear()
                pause = LOOK
                try:
                    await self._look()
                except (KubeletError, PluginError) as error:
                    self._kubelet = None
                    self._told(str(error))
                    pause = max(LOOK / 2, self._backoff.next())
                else:
                    self._backoff.reset()
                try:
                    async with asyncio.timeout(pause):
                        await self._wake.wait()
                except TimeoutError:
                    pass
        finally:
            await self.plugin.stop()

    async def _look(self) -> None:
        plugin, socket = self.plugin, self._directory / KUBELET_SOCKET
        kubelet = SocketIdentity.of(socket)
        if kubelet is None:
            raise KubeletError(
                f"can not register {plugin.resource}: there is no {socket}; it is registered as soon as a kubelet serves"
            )
        another = self._kubelet is not None and kubelet != self._kubelet
        if plugin.intact and self._kubelet is not None and not another and not self._lost():
            return
        if another or not plugin.intact:
            # The old server has ended before the new one begins: its end removes the socket of its path.
            await plugin.stop()
            await plugin.start()
        self._kubelet = None
        self._begun = plugin.begun
        await register(
            self._directory, endpoint=plugin.socket.name, resource=plugin.resource, preferred_allocation=True
        )
        self._registered = self._clock()
        self._kubelet = kubelet
        self._metrics.registrations.labels(plugin.resource).inc()
        structlog.get_logger().info("registered", resource=plugin.resource, socket=plugin.socket.name)
        self._told("")

    def _lost(self) -> bool:
        """Whether the kubelet has let the registration go: nobody follows the devices any more."""
        plugin = self.plugin
        if plugin.alone_since is None:
            return False
        if plugin.begun > self._begun:
            return self._clock() - plugin.alone_since > ALONE
        return self._clock() - self._registered > NOT_FOLLOWED
