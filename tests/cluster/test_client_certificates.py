"""Certificates of clusters that were not made by Kubernetes' own tools."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from nicrails.kube import KubeClient, KubeconfigAccess
from tests.cluster.controlplane import ControlPlane

pytestmark = pytest.mark.needs("control-plane")


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python verifies as it does by default since 3.13."""
    usual = ssl.create_default_context

    def create(*arguments: object, **options: object) -> ssl.SSLContext:
        context = usual(*arguments, **options)  # type: ignore[arg-type]
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", create)


async def test_certificates_without_key_identifiers_are_accepted(
    strict: None, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """The client speaks to an API server whose certificate lacks the authority's key identifier, as kubectl does."""
    access = KubeconfigAccess(control_plane.kubeconfig(tmp_path / "kubeconfig"))
    async with KubeClient(access, user_agent="test") as client:
        answer = await client.request("GET", "/api/v1/namespaces/default")
    assert answer.object()["metadata"]["name"] == "default"
