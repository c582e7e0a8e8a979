"""The service: its parts wired together."""

from __future__ import annotations

from nicrails.kube import ApiError, ConflictError, Reflector
from nicrails_faker.arguments import ArgumentsError
from nicrails_faker.migfaker.metrics import Metrics
from nicrails_faker.migfaker.nodes import NodeWriter
from nicrails_faker.migfaker.plugin import PluginRestart
from nicrails_faker.migfaker.reconciler import Reconciler
from nicrails_faker.migfaker.seen import node_cache, nodes
from nicrails_faker.migfaker.teller import Options, Teller
from nicrails_faker.reporting import explain
from nicrails_faker.running import ServiceApp
from nicrails_faker.topologies.config_maps import TopologyError
from nicrails_faker.topologies.documents import document_cache, documents
from nicrails_faker.topologies.store import TopologyStore
from nicrails_faker.working import Outcomes, Worklist

FIELD_MANAGER = "nicrails-faker-mig"
NODE, DOCUMENT, MIG = "node", "config-map", "mig"
DUTIES = (NODE, DOCUMENT, MIG)


def build(
    app: ServiceApp,
    *,
    node: str,
    namespace: str,
    name: str,
    options: Options,
    plugin_selector: str | None = None,
) -> None:
    """Add the service's parts.

    Args:
        app: With the duties :data:`DUTIES`.
        node: The Node whose requests are served.
        namespace: Where the topologies are.
        name: The cluster's ConfigMap.
        options: How requests are served.
        plugin_selector: Labels of the device plugin's pods, which are deleted after a change; None: the plugin follows.

    Raises:
        ArgumentsError: No ConfigMap can have the Node's name.
    """
    client = app.client
    store = TopologyStore(client, namespace, name, field_manager=FIELD_MANAGER)
    outcomes = Outcomes(app.report(MIG), "serve-request")

    async def work(which: str) -> bool:
        if not (seen.synced and known.synced):
            return True
        try:
            wrong = (
                await reconciler.reconcile(node) if node in seen.items else "there is no such Node; correct NODE_NAME"
            )
        except ConflictError:
            return False
        except ApiError as error:
            wrong = explain(error)
            outcomes.failed(which, wrong)
            return False
        except TopologyError as error:
            wrong = str(error)
        if wrong:
            # The next event of the Node or of its topology brings it back.
            outcomes.failed(which, wrong)
        else:
            outcomes.done(which)
        return True

    worklist = Worklist(work, workers=1)

    def changed(_: str) -> None:
        worklist.add(node)

    seen = node_cache(changed)
    known = document_cache(changed)
    metrics = Metrics(app.registry)
    reconciler = Reconciler(
        store,
        seen,
        known,
        Teller(NodeWriter(client, seen, field_manager=FIELD_MANAGER), options, metrics),
        options=options,
        metrics=metrics,
        wake=worklist.add_later,
        plugin=None if plugin_selector is None else PluginRestart(client, namespace, plugin_selector),
    )
    try:
        document = documents(store, node, known=known.items)
    except TopologyError as error:
        raise ArgumentsError(str(error)) from error
    app.tasks |= {
        NODE: Reflector(client, nodes(node), seen, app.watch_report(NODE, app.report(NODE))).run,
        DOCUMENT: Reflector(client, document, known, app.watch_report(DOCUMENT, app.report(DOCUMENT))).run,
        MIG: worklist.run,
    }
