"""Where an API server under test is and how to speak to it; the real one and the embedded one look the same from here."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiEndpoint:
    """An API server and an administrator's credentials for it.

    Attributes:
        url: ``http://127.0.0.1:port`` or ``https://…``, without a trailing slash.
        ca_file: The certificate authority of an ``https`` server.
        token: A bearer token with all permissions, or none if the server wants none.
        real: Whether this is a real kube-apiserver.
    """

    url: str
    ca_file: Path | None = None
    token: str | None = None
    real: bool = False
    headers: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "headers", {"Authorization": f"Bearer {self.token}"} if self.token else {})

    def ssl_context(self) -> ssl.SSLContext | None:
        """A context that trusts this server, or None for plain HTTP."""
        return ssl.create_default_context(cafile=str(self.ca_file)) if self.ca_file else None
