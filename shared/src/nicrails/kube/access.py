"""Where the API server is and which credentials a service shows it, re-read when they rotate."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import yaml

from nicrails.kube import _light
from nicrails.text import excerpt

_light.register()

from kubernetes_asyncio.client.configuration import Configuration  # noqa: E402  (after the packages are registered)

SERVICE_ACCOUNT_DIRECTORY = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_PERIOD = 60.0
"""Seconds after which a token file is read again; the kubelet renews a token minutes before it expires."""


class AccessError(Exception):
    """The process does not know how to reach an API server."""


class Access(Protocol):
    """An API server and credentials."""

    async def configuration(self) -> Configuration:
        """A configuration of the library with the present credentials.

        Raises:
            AccessError: There are none.
        """

    def reload(self) -> None:
        """Read the credentials again now, since the server has just refused them."""

    def trust_changed(self) -> bool:
        """Whether the certificate authority is another one than at the last :meth:`configuration`."""


class InClusterAccess:
    """The service account that a pod gets.

    The library's own loader re-reads the token by wall clock, keeps a trailing newline and never re-reads after a 401;
    this one goes by the monotonic clock, strips, keeps the last good token while the file is missing or empty, and
    re-reads when told to.
    """

    def __init__(
        self,
        *,
        environ: Mapping[str, str] = os.environ,
        directory: Path = SERVICE_ACCOUNT_DIRECTORY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environ = environ
        self._token_file = directory / "token"
        self._ca_file = directory / "ca.crt"
        self._clock = clock
        self._token = ""
        self._read_at = -TOKEN_PERIOD
        self._ca: bytes | None = None

    async def configuration(self) -> Configuration:
        """See :class:`Access`."""
        host = self._environ.get("KUBERNETES_SERVICE_HOST", "")
        port = self._environ.get("KUBERNETES_SERVICE_PORT", "")
        if not host or not port:
            raise AccessError(
                "not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; "
                "run as a pod or give --kubeconfig FILE"
            )
        self.reload()
        if not self._token:
            raise AccessError(
                f"no service account token in {self._token_file}; the pod needs automountServiceAccountToken"
            )
        ca = _read(self._ca_file)
        if not ca:
            raise AccessError(f"no certificate authority in {self._ca_file}")
        self._ca = ca
        configuration = Configuration(host=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}")
        configuration.ssl_ca_cert = str(self._ca_file)
        configuration.refresh_api_key_hook = self._show_token
        self._show_token(configuration)
        return configuration

    def reload(self) -> None:
        """See :class:`Access`."""
        self._read_at = self._clock()
        self._token = _read(self._token_file).decode("ascii", "ignore").strip() or self._token

    def trust_changed(self) -> bool:
        """See :class:`Access`."""
        ca = _read(self._ca_file)
        return bool(ca) and ca != self._ca

    def _show_token(self, configuration: Any) -> None:  # noqa: ANN401  (the library's class has no types)
        if self._clock() - self._read_at >= TOKEN_PERIOD:
            self.reload()
        configuration.api_key["BearerToken"] = f"Bearer {self._token}"


class KubeconfigAccess:
    """A kubeconfig file, read by the library, for use outside a cluster."""

    def __init__(self, path: Path, context: str | None = None) -> None:
        # The loader brings OIDC and cloud helpers along, which a pod never needs; imported here, before the event loop
        # turns, it holds nobody up.
        from kubernetes_asyncio.config import config_exception, kube_config  # noqa: PLC0415

        self._path = path
        self._context = context
        self._load = kube_config.load_kube_config
        self._broken: type[Exception] = config_exception.ConfigException

    async def configuration(self) -> Configuration:
        """See :class:`Access`."""
        configuration = Configuration()
        try:
            await self._load(config_file=str(self._path), context=self._context, client_configuration=configuration)
        except (self._broken, yaml.YAMLError, OSError, ValueError, KeyError, TypeError) as error:
            raise AccessError(f"kubeconfig {self._path}: {excerpt(str(error))}") from error
        return configuration

    def reload(self) -> None:
        """The library's hook renews what can be renewed."""

    def trust_changed(self) -> bool:
        """A kubeconfig is read once."""
        return False


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
