"""A Kubernetes API in this process: real HTTP on loopback, true to kube-apiserver where this project's users look.

Example:
    ::

        async with EmbeddedCluster() as cluster:
            cluster.create("v1", "nodes", {"metadata": {"name": "node-1"}})
            cluster.kubeconfig(Path("kubeconfig"))

How true it is, and where it is not, stands in ``docs/embedded-cluster.md``.
"""

from nicrails_faker.api.actions import (
    Cut,
    CutEvent,
    EndWatch,
    Hang,
    LoseAnswer,
    NoBookmarks,
    Respond,
    Stall,
    error_event,
)
from nicrails_faker.api.cluster import EmbeddedCluster, serve
from nicrails_faker.api.execs import ExecHandler, ExecIO, ExecRequest, exit_status
from nicrails_faker.api.faults import ActiveFault, Fault, Faults
from nicrails_faker.api.label_selectors import SelectorError
from nicrails_faker.api.requests import LoggedRequest, RequestInfo, RequestLog
from nicrails_faker.api.resources import DEFAULT_RESOURCES, Resource
from nicrails_faker.api.status import StatusError

__all__ = [
    "DEFAULT_RESOURCES",
    "ActiveFault",
    "Cut",
    "CutEvent",
    "EmbeddedCluster",
    "EndWatch",
    "ExecHandler",
    "ExecIO",
    "ExecRequest",
    "Fault",
    "Faults",
    "Hang",
    "LoggedRequest",
    "LoseAnswer",
    "NoBookmarks",
    "RequestInfo",
    "RequestLog",
    "Resource",
    "Respond",
    "SelectorError",
    "Stall",
    "StatusError",
    "error_event",
    "exit_status",
    "serve",
]
