"""A client whose API server is a list of prepared answers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aioresponses import aioresponses
from kubernetes_asyncio.client.configuration import Configuration

from nicrails.kube import KubeClient, controller_reference
from tests.support.aioresponses import mocked_api

HOST = "http://api.test"
CONFIG_MAPS = f"{HOST}/api/v1/namespaces/ns/configmaps"
CONFIG_MAP = f"{CONFIG_MAPS}/topograph-nic-rails"
DEPLOYMENT = f"{HOST}/apis/apps/v1/namespaces/ns/deployments/nicrails-observer"


class FixedAccess:
    """Where the prepared answers are."""

    async def configuration(self) -> Configuration:
        """See :class:`nicrails.kube.Access`."""
        return Configuration(host=HOST)

    def reload(self) -> None:
        """There are no credentials."""

    def trust_changed(self) -> bool:
        """There is no certificate authority."""
        return False


@contextlib.asynccontextmanager
async def prepared() -> AsyncIterator[tuple[KubeClient, aioresponses]]:
    """A client, and where to register answers for it: each answers one request."""
    with mocked_api() as api:
        async with KubeClient(FixedAccess(), user_agent="nicrails-observer/test") as client:
            yield client, api


def status(code: int, reason: str, **more: Any) -> dict[str, Any]:
    """Arguments of an answer with a ``Status`` object."""
    return {
        "status": code,
        "payload": {"kind": "Status", "status": "Failure", "reason": reason, "message": "no", "code": code} | more,
    }


MISSING = status(404, "NotFound")
REFUSED = status(422, "Invalid", details={})
"""What the API server says of a refused JSON Patch."""


def config_map(data: dict[str, str] | None = None, *, uid: str = "cm-1", owner: str = "d-1", version: str = "1") -> Any:
    """A ConfigMap of the observer's, or what is left of it as metadata."""
    document: dict[str, Any] = {
        "metadata": {
            "name": "topograph-nic-rails",
            "uid": uid,
            "resourceVersion": version,
            "ownerReferences": [controller_reference("nicrails-observer", owner)],
        }
    }
    return document if data is None else document | {"data": data}


def deployment(uid: str = "d-1", **metadata: str) -> Any:
    """The observer's Deployment."""
    return {"metadata": {"name": "nicrails-observer", "uid": uid} | metadata}


def settings_file(folder: Path, text: str = "{}") -> Path:
    """A settings file with this text."""
    file = folder / "settings.yaml"
    file.write_text(text)
    return file
