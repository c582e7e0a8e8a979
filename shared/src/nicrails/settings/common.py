"""Settings that both services have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nicrails.settings.loader import setting


def _port(value: int) -> int:
    if not 0 <= value <= 65535:
        raise ValueError(f"expected a port between 0 and 65535, found {value}")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where health and metrics are served."""

    address: str = "0.0.0.0"  # noqa: S104  (probes come from outside the pod)
    """The address to listen on."""
    port: int = setting(8080, check=_port)
    """The TCP port; 0 takes a free one, which the log tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingSettings:
    """What is logged."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe events to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """How the API server is reached."""

    kubeconfig: str | None = None
    """A kubeconfig file; by default the pod's service account is used."""
