"""The service: its parts wired together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nicrails.kube import MERGE_PATCH, METADATA, Reflector, core_path
from nicrails_faker.arguments import ArgumentsError
from nicrails_faker.deviceplugin.allocation import Given
from nicrails_faker.deviceplugin.devices import Offer
from nicrails_faker.deviceplugin.following import Follower
from nicrails_faker.deviceplugin.metrics import Metrics
from nicrails_faker.deviceplugin.plugins import Plugins
from nicrails_faker.running import ServiceApp
from nicrails_faker.topologies.config_maps import ADVERTISED_ANNOTATION, Stored, TopologyError
from nicrails_faker.topologies.documents import documents
from nicrails_faker.topologies.store import TopologyStore

CONFIG_MAP, TOPOLOGY, FILES, KUBELET = "config-map", "topology", "nvidia-smi", "kubelet"
DUTIES = (CONFIG_MAP, TOPOLOGY, FILES, KUBELET)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the plugin serves.

    Attributes:
        plugin_directory: The kubelet's folder of device plugins.
        host_directory: The folder of the host for the fake nvidia-smi, under the same path in this container.
        strict: Offer no GPUs where NVIDIA's plugin would not start.
        follow: Take over changes of the topology; else the first state until the end.
    """

    plugin_directory: Path
    host_directory: Path
    strict: bool = False
    follow: bool = True


def build(app: ServiceApp, *, node: str, namespace: str, name: str, options: Options) -> None:
    """Add the service's parts.

    Args:
        app: With the duties :data:`DUTIES`.
        node: The Node whose devices are offered.
        namespace: Where the topologies are.
        name: The cluster's ConfigMap.
        options: How the plugin serves.

    Raises:
        ArgumentsError: No ConfigMap can have the Node's name, or a folder is given by a relative path.
    """
    for argument, folder in (
        ("--plugin-directory", options.plugin_directory),
        ("--host-directory", options.host_directory),
    ):
        if not folder.is_absolute():
            raise ArgumentsError(f"{argument} {folder}: give the absolute path that it has on the host")
    metrics = Metrics(app.registry)

    def given() -> Given:
        return Given(node=node, host_folder=options.host_directory if follower.written else None)

    async def take(offered: Offer) -> None:
        await plugins.offer(offered.resources)

    async def say(document: Stored, offered: str) -> None:
        body = {"metadata": {"uid": document.uid, "annotations": {ADVERTISED_ANNOTATION: offered}}}
        query = {"fieldManager": "nicrails-faker-device-plugin"}
        path = core_path(namespace, "configmaps", document.name)
        await app.client.request("PATCH", path, query=query, content_type=MERGE_PATCH, body=body, accept=METADATA)

    plugins = Plugins(options.plugin_directory, given, app.report(KUBELET), metrics)
    follower = Follower(
        node,
        take,
        say,
        host_folder=options.host_directory,
        topology=app.report(TOPOLOGY),
        files=app.report(FILES),
        strict=options.strict,
        once=not options.follow,
    )
    try:
        collection = documents(TopologyStore(app.client, namespace, name), node)
    except TopologyError as error:
        raise ArgumentsError(str(error)) from error
    report = app.watch_report(CONFIG_MAP, app.report(CONFIG_MAP))
    app.tasks |= {
        CONFIG_MAP: Reflector(app.client, collection, follower.cache, report).run,
        TOPOLOGY: follower.run,
        KUBELET: plugins.run,
    }
