"""The service: its parts wired together."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

from nicrails.kube import ApiError, Backoff, Collection, KubeClient, Reflector
from nicrails.kube.reflector import SILENCE
from nicrails.service import Health, LoopMonitor, application, registry, run_until, serving
from nicrails_observer.coalescing import Coalescer
from nicrails_observer.collector import Collector
from nicrails_observer.confirming import Confirmer
from nicrails_observer.duties import CONFIG_MAP, DUTIES, GARBAGE_COLLECTION, NODES, Report
from nicrails_observer.inspector import Inspector
from nicrails_observer.keeper import Keeper
from nicrails_observer.metrics import Metrics
from nicrails_observer.nodes import NODES as NODES_PATH
from nicrails_observer.nodes import LiveNodes, NodeCache, NodeFollower, NodeIdentity, identity
from nicrails_observer.settings import Identity, Settings
from nicrails_observer.store import RecordStore


class ObserverApp:
    """The observer as one object.

    Args:
        settings: The settings file.
        me: The Deployment that it runs from.
        client: The API server; closed when :meth:`run` ends.
        rng: For jitter and samples.
        clock: Monotonic seconds.
        silence: Seconds of silence after which the watch counts as dead.

    Attributes:
        health: What ``/healthz`` says.
        registry: What ``/metrics`` says.
        bound: Address and port of the endpoints once they are served.
        serving: Set when they are.
    """

    def __init__(
        self,
        settings: Settings,
        me: Identity,
        client: KubeClient,
        *,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
        silence: float = SILENCE,
    ) -> None:
        self._settings = settings
        self._client = client
        self.registry: CollectorRegistry = registry("nicrails-observer")
        self.bound: tuple[str, int] | None = None
        self.serving = asyncio.Event()
        enabled = settings.mapping.enabled
        self.health = Health(DUTIES if enabled else (), clock=clock)
        self._monitor = LoopMonitor(self.registry)
        self._tasks: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {"loop-monitor": self._monitor.run}
        if not enabled:
            return
        rng = rng or random.Random()  # noqa: S311  (jitter)
        metrics = Metrics(self.registry, duties=DUTIES)
        coalescer = Coalescer(interval=settings.observer.full_interval, rng=rng, clock=clock)
        cache = NodeCache(coalescer)
        metrics.nodes.set_function(lambda: len(cache.uids))
        keeper = Keeper(
            client,
            me,
            settings.mapping.config_map_name,
            report=Report(self.health[CONFIG_MAP], metrics),
            metrics=metrics,
            changed=coalescer.all_changed,
            interval=settings.observer.check_interval,
            rng=rng,
        )
        reflector: Reflector[NodeIdentity] = Reflector(
            client,
            Collection(path=NODES_PATH, extract=identity),
            cache,
            _Watching(Report(self.health[NODES], metrics), metrics),
            rng=rng,
            clock=clock,
            silence=silence,
        )
        follower = NodeFollower(reflector, cache)
        collector = Collector(
            keeper=keeper,
            store=RecordStore(
                client,
                keeper.path,
                is_ours=keeper.is_ours,
                batch_size=settings.observer.batch_size,
                metrics=metrics,
            ),
            nodes=follower,
            confirmer=Confirmer(LiveNodes(client, reflector.read_all), settings.observer.brake, metrics, rng),
            inspector=Inspector(metrics),
            coalescer=coalescer,
            report=Report(self.health[GARBAGE_COLLECTION], metrics),
            metrics=metrics,
            backoff=Backoff(rng=rng),
        )
        self._tasks |= {"configmap": keeper.run, "nodes": follower.run, "garbage-collection": collector.run}

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until the event is set.

        Raises:
            ServiceError: The address can not be bound, or a part ended by itself.
        """
        server = self._settings.server
        async with (
            self._client,
            serving(application(self.health, self.registry), address=server.address, port=server.port) as self.bound,
        ):
            structlog.get_logger().info(
                "serving", address=self.bound[0], port=self.bound[1], enabled=self._settings.mapping.enabled
            )
            self.serving.set()
            await run_until(stop, self._tasks, on_stop=self.health.stopping)


class _Watching:
    """What the reflector tells, as health, metrics and log."""

    def __init__(self, report: Report, metrics: Metrics) -> None:
        self._report = report
        self._metrics = metrics

    def listed(self, count: int, seconds: float) -> None:
        structlog.get_logger().info("nodes-listed", count=count, seconds=round(seconds, 3))
        self._metrics.lists.inc()
        self._metrics.list_time.observe(seconds)
        self._report.succeeded()

    def restarted(self, reason: str) -> None:
        self._metrics.watch_restarts.labels(reason).inc()
        structlog.get_logger().info("watch-ended", reason=reason)

    def failed(self, error: ApiError) -> None:
        self._report.api_failed("follow-nodes", error)
