"""The service: built from its settings, run until it is told to stop."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from importlib.metadata import version
from pathlib import Path
from typing import Any

import structlog

from nicrails.kube import Access, InClusterAccess, KubeClient, KubeconfigAccess
from nicrails.service import Health, LoopMonitor, application, registry, run_until, serving
from nicrails.settings import KubernetesSettings
from nicrails_broker.annotations import ChassisAnnotation
from nicrails_broker.discovery import Discovery
from nicrails_broker.events import Event
from nicrails_broker.failures import Pace
from nicrails_broker.host import Sysfs
from nicrails_broker.logsink import log
from nicrails_broker.loop import DutyLoop
from nicrails_broker.metrics import Metrics
from nicrails_broker.naming import RailNaming
from nicrails_broker.node import ApiNode
from nicrails_broker.publisher import ConfigMapStore, Target
from nicrails_broker.reconciler import Reconciler
from nicrails_broker.settings import BrokerSettings, Identity, RailMappingSettings
from nicrails_broker.sources import Surroundings, gpu_source, lldpd, rail_source

DISTRIBUTION = "nicrails-broker"
RAILS_RECORD = "rails-record"
PROVIDER_ANNOTATIONS = "provider-annotations"

Started = Callable[[str, int], None]
"""Is told the address and the port of the endpoints."""


def access(settings: KubernetesSettings) -> Access:
    """How the API server is reached: by a kubeconfig file, or else as a pod."""
    return KubeconfigAccess(Path(settings.kubeconfig)) if settings.kubeconfig is not None else InClusterAccess()


def user_agent() -> str:
    """What the API server's audit log shows."""
    return f"{DISTRIBUTION}/{version(DISTRIBUTION)}"


class Broker:
    """The service of one Node.

    Args:
        settings: What to do.
        identity: On which Node, in which namespace.
        access: How the API server is reached; by default as the settings say.
        pace: The waits that are no settings.
        rng: For jitter.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        identity: Identity,
        *,
        access: Access | None = None,
        pace: Pace | None = None,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._access = access
        self._pace = pace or Pace()
        self._rng = rng or random.Random()  # noqa: S311  (jitter)
        self._clock = clock
        mapping, provider = settings.node_metadata.plugins.gpu_nic_rail_mapping, settings.node_metadata.provider
        duties = [RAILS_RECORD] if mapping.enabled else []
        duties += [PROVIDER_ANNOTATIONS] if provider.name == "lldp" else []
        self.health = Health(duties, clock=clock)
        self.registry = registry(DISTRIBUTION)
        self._metrics = Metrics(self.registry, duties)

    async def run(self, stop: asyncio.Event, started: Started | None = None) -> None:
        """Serve until the event is set.

        Nothing is begun after that: what is under way is given up at once, a patch in flight may or may not be done.

        Args:
            stop: For example of :func:`nicrails.service.stop_on_signals`.
            started: Called when the endpoints answer.

        Raises:
            ServiceError: The endpoints can not be bound, or a part of the service ended by itself.
        """
        server = self._settings.server
        endpoints = application(self.health, self.registry)
        async with (
            KubeClient(
                self._access or access(self._settings.kubernetes), user_agent=user_agent(), clock=self._clock
            ) as client,
            serving(endpoints, address=server.address, port=server.port) as (address, port),
        ):
            structlog.get_logger().info(
                "started", version=version(DISTRIBUTION), node=self._identity.node, address=address, port=port
            )
            if started is not None:
                started(address, port)
            await run_until(stop, self._tasks(client), on_stop=self.health.stopping)

    def _tasks(self, client: KubeClient) -> dict[str, Callable[[], Coroutine[Any, Any, None]]]:
        around = Surroundings(
            host=self._settings.host,
            sysfs=Sysfs(Path(self._settings.host.sysfs_root)),
            client=client,
            node=self._identity.node,
            emit=self._emit,
        )
        node = ApiNode(client, self._identity.node)
        tasks: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {"loop-monitor": LoopMonitor(self.registry).run}
        mapping, provider = (
            self._settings.node_metadata.plugins.gpu_nic_rail_mapping,
            self._settings.node_metadata.provider,
        )
        if mapping.enabled:
            reconciler = self._reconciler(mapping, around, client, node)
            tasks[RAILS_RECORD] = self._loop(RAILS_RECORD, reconciler.once, mapping.start_jitter).run
        if provider.name == "lldp":
            annotation = ChassisAnnotation(
                ask=lldpd(around, provider.lldp.timeout),
                selects=_selector(provider.lldp.interface_regex),
                node=node,
                refresh=provider.lldp.refresh_interval,
                emit=self._emit,
                rng=self._rng,
                clock=self._clock,
            )
            tasks[PROVIDER_ANNOTATIONS] = self._loop(PROVIDER_ANNOTATIONS, annotation.once, mapping.start_jitter).run
        return tasks

    def _reconciler(
        self, mapping: RailMappingSettings, around: Surroundings, client: KubeClient, node: ApiNode
    ) -> Reconciler:
        if mapping.rail_source is None:
            raise ValueError("settings with an enabled mapping have a rail source; load_settings checks it")
        return Reconciler(
            discovery=Discovery(
                rails=rail_source(mapping.rail_source, around),
                gpus=gpu_source(mapping.gpu_source, around),
                node=node,
                emit=self._emit,
                clock=self._clock,
            ),
            store=ConfigMapStore(
                client=client,
                target=Target(
                    namespace=self._identity.namespace,
                    config_map=mapping.config_map_name,
                    key=self._identity.node,
                    observer=mapping.observer_deployment,
                ),
            ),
            refresh=mapping.refresh_interval,
            verify=mapping.verify_interval,
            settle=self._pace.settle,
            emit=self._emit,
            rng=self._rng,
            clock=self._clock,
        )

    def _loop(self, duty: str, once: Callable[[], Coroutine[Any, Any, float]], start_jitter: float) -> DutyLoop:
        return DutyLoop(
            duty=self.health[duty],
            once=once,
            pace=self._pace,
            rng=self._rng,
            emit=self._emit,
            start_jitter=start_jitter,
        )

    def _emit(self, event: Event) -> None:
        self._metrics(event)
        log(event)


def _selector(interface_regex: str) -> Callable[[str], bool]:
    naming = RailNaming(interface_regex, "selected")
    return lambda interface: naming.match(interface) is not None
