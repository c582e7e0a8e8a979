from __future__ import annotations

import pytest

from nicrails.kube import (
    ApiError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    ServerFaultError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
)
from nicrails_observer.reasons import explain, namespace_terminating, permission


@pytest.mark.parametrize(
    ("request_line", "expected"),
    [
        ("GET /api/v1/nodes", "list nodes"),
        ("GET /api/v1/nodes?watch", "watch nodes"),
        ("GET /api/v1/nodes/a%2Fb", "get nodes a/b"),
        ("GET /api/v1/namespaces/x/configmaps/y", "get configmaps y in namespace x"),
        ("PATCH /api/v1/namespaces/x/configmaps/y", "patch configmaps y in namespace x"),
        ("POST /api/v1/namespaces/x/configmaps", "create configmaps in namespace x"),
        ("GET /apis/apps/v1/namespaces/x/deployments/d", "get deployments.apps d in namespace x"),
        ("GET /api/v1/namespaces/x", "get namespaces x"),
    ],
)
@pytest.mark.fault("F5")
def test_names_the_missing_permission(request_line: str, expected: str) -> None:
    """F5: a refusal names verb, resource, name and namespace as RBAC does, so that it can be granted."""
    assert permission(request_line) == expected
    assert expected in explain(ForbiddenError(request_line, "no", status=403))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (UnauthorizedError("GET /x", "no", status=401), "service account token"),
        (TooManyRequestsError("GET /x", "no", status=429), "asks to wait"),
        (UnreachableError("GET /x", "connection refused"), "can be reached from this pod: GET /x: connection refused"),
        (NotFoundError("POST /x", 'namespaces "x" not found', status=404), "POD_NAMESPACE"),
        (InvalidError("PATCH /x", "no", status=422, causes=("data: immutable (Forbidden)",)), "data: immutable"),
        (ServerFaultError("GET /x", "etcd", status=500), "tried again by itself"),
    ],
)
def test_says_what_to_do(error: ApiError, words: str) -> None:
    """Each kind of error has a sentence of its own that carries the request and the server's words."""
    sentence = explain(error)
    assert words in sentence
    assert error.request in sentence
    assert error.message in sentence


@pytest.mark.fault("O6")
def test_knows_a_terminating_namespace() -> None:
    """O6: the cause that the API server gives tells a terminating namespace from a missing permission."""
    cause = "metadata.namespace: namespace x is being terminated (NamespaceTerminating)"
    assert namespace_terminating(ForbiddenError("POST /x", "no", status=403, causes=(cause,)))
    assert not namespace_terminating(ForbiddenError("POST /x", "no", status=403))
