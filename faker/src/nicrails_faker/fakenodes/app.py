"""The service: its parts wired together."""

from __future__ import annotations

from dataclasses import replace

from nicrails.kube import Reflector
from nicrails_faker.fakenodes.controller import Controller, FakeNodes
from nicrails_faker.fakenodes.metrics import Metrics
from nicrails_faker.migfaker.metrics import Metrics as MigMetrics
from nicrails_faker.migfaker.nodes import NodeWriter
from nicrails_faker.migfaker.reconciler import Reconciler
from nicrails_faker.migfaker.seen import node_cache, nodes
from nicrails_faker.migfaker.teller import Options, Teller
from nicrails_faker.running import ServiceApp
from nicrails_faker.topologies.documents import document_cache, documents
from nicrails_faker.topologies.store import TopologyStore
from nicrails_faker.working import Outcomes, Worklist

FIELD_MANAGER = "nicrails-faker-nodes"
NODES, DOCUMENTS, FAKE_NODES = "nodes", "config-maps", "fake-nodes"
DUTIES = (NODES, DOCUMENTS, FAKE_NODES)
WORKERS = 16
"""Nodes that are worked on at once; more would only queue at the API server."""
NOBODY = ""


def build(app: ServiceApp, *, namespace: str, name: str, fake: FakeNodes, options: Options) -> None:
    """Add the service's parts.

    Args:
        app: With the duties :data:`DUTIES`.
        namespace: Where the topologies are.
        name: The cluster's ConfigMap.
        fake: Which Nodes have no kubelet.
        options: How MIG requests are served.
    """
    # What a device plugin once said of a Node that has none any more does not count.
    options = replace(options, plugin=False)
    client = app.client
    store = TopologyStore(client, namespace, name, field_manager=FIELD_MANAGER)
    outcomes = Outcomes(app.report(FAKE_NODES), "advertise-resources")
    begun = False

    async def work(which: str) -> bool:
        return await controller.work(which)

    worklist = Worklist(work, workers=WORKERS)

    def changed(which: str) -> None:
        # Nothing is judged before both lists were read once: a topology that was not read yet is none that is gone.
        nonlocal begun
        if begun:
            worklist.add(which)
        elif seen.synced and known.synced:
            begun = True
            for every in seen.items.keys() | {NOBODY}:
                worklist.add(every)

    seen = node_cache(changed)
    known = document_cache(changed)
    mig = MigMetrics(app.registry)
    writer = NodeWriter(client, seen, field_manager=FIELD_MANAGER)
    reconciler = Reconciler(
        store, seen, known, Teller(writer, options, mig), options=options, metrics=mig, wake=worklist.add_later
    )
    controller = Controller(
        fake,
        seen,
        known,
        writer,
        reconciler,
        outcomes=outcomes,
        metrics=Metrics(app.registry),
        strict=options.strict,
    )
    app.tasks |= {
        NODES: Reflector(client, nodes(), seen, app.watch_report(NODES, app.report(NODES))).run,
        DOCUMENTS: Reflector(
            client, documents(store, known=known.items), known, app.watch_report(DOCUMENTS, app.report(DOCUMENTS))
        ).run,
        FAKE_NODES: worklist.run,
    }
