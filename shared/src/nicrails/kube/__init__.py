"""The Kubernetes API as the services use it: a thin client, exec, a reflector, and whose an object is."""

from nicrails.kube.access import Access, AccessError, InClusterAccess, KubeconfigAccess
from nicrails.kube.backoff import Backoff
from nicrails.kube.client import (
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    METADATA,
    METADATA_LIST,
    Answer,
    KubeClient,
    core_path,
    path,
)
from nicrails.kube.errors import (
    ApiError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    ServerFaultError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
)
from nicrails.kube.exec import ExecError, ExecExitError, ExecOutput, ExecTimeoutError, exec_in_pod
from nicrails.kube.ownership import OwnerReference, controller, controller_reference, is_observers
from nicrails.kube.reflector import Collection, Reflector

__all__ = [
    "JSON",
    "JSON_PATCH",
    "MERGE_PATCH",
    "METADATA",
    "METADATA_LIST",
    "Access",
    "AccessError",
    "Answer",
    "ApiError",
    "Backoff",
    "Collection",
    "ConflictError",
    "ExecError",
    "ExecExitError",
    "ExecOutput",
    "ExecTimeoutError",
    "ForbiddenError",
    "GoneError",
    "InClusterAccess",
    "InvalidError",
    "KubeClient",
    "KubeconfigAccess",
    "NotFoundError",
    "OwnerReference",
    "Reflector",
    "ServerFaultError",
    "TooManyRequestsError",
    "UnauthorizedError",
    "UnreachableError",
    "controller",
    "controller_reference",
    "core_path",
    "exec_in_pod",
    "is_observers",
    "path",
]
