"""A real control plane on loopback: etcd, kube-apiserver and the few controllers whose work the tests rely on.

It is ready in about five seconds. There are no kubelets: a Node is any object that a test makes, and ``kubelet.py``
plays the part that answers ``exec``.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import http.client
import json
import secrets
import shutil
import ssl
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml

from tests.cluster import flags
from tests.cluster.pki import Authority, signing_key
from tests.cluster.process import Daemon
from tests.support.endpoint import ApiEndpoint
from tests.support.ports import release_port, reserve_port
from tests.support.reaper import reaper
from tests.support.waiting import NotInTimeError, eventually_sync

CONTROLLERS = (
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
)
"""What the controller manager runs; no controller makes pods, so none fights the pods that tests make."""

_ROOM = 2 << 30
"""Bytes that a run may need: every write of a large object is kept by etcd as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a control plane runs.

    Attributes:
        address: Where this process reaches the API server.
        port: Its port; None: a free one.
        inside: The command that enters its network namespace; empty: it runs beside this process.
    """

    address: str = "127.0.0.1"
    port: int | None = None
    inside: Sequence[str] = ()


LOOPBACK = Place()


class ControlPlaneError(RuntimeError):
    """A part of the control plane did not come up; the sentence ends with its log."""


class ControlPlane:
    """One running control plane, with methods to disturb it.

    Everything here blocks; in an asynchronous test call what takes time by ``asyncio.to_thread``, or the services under
    test stand still with it.

    Attributes:
        endpoint: Its address, with the credentials of an administrator (group ``system:masters``).
        authority: The authority of its certificates.
        kubelet: The serving certificate for a kubelet on 127.0.0.1; the API server accepts only this authority's.
        folder: Where its files and logs are.
    """

    def __init__(
        self,
        programs: Mapping[str, Path],
        folder: Path,
        *,
        api_server_args: Sequence[str] = (),
        etcd_args: Sequence[str] = (),
        controllers: Sequence[str] = CONTROLLERS,
        controller_args: Sequence[str] = (),
        place: Place = LOOPBACK,
    ) -> None:
        self.folder = folder
        self._place = place
        self.authority = Authority(folder)
        self.kubelet = self.authority.issue("kubelet", common_name="kubelet", addresses=["127.0.0.1"])
        self._etcd_port = reserve_port()
        self._port = place.port or reserve_port()
        token = secrets.token_urlsafe(24)
        self.endpoint = ApiEndpoint(
            url=f"https://{place.address}:{self._port}", ca_file=self.authority.file, token=token, real=True
        )
        tokens = folder / "tokens.csv"
        tokens.write_text(f'{token},admin,admin,"system:masters"\n')
        service_accounts = signing_key(folder, "service-accounts")
        self._etcd = self._daemon("etcd", programs, [*flags.etcd(folder, self._etcd_port), *etcd_args])
        options = flags.kube_apiserver(
            folder,
            self._port,
            self._etcd_port,
            authority=self.authority,
            tokens=tokens,
            service_accounts=service_accounts,
            address=place.address,
        )
        self._api_server = self._daemon("kube-apiserver", programs, [*options, *api_server_args])
        self._daemons = [self._etcd, self._api_server]
        if controllers and "kube-controller-manager" in programs:
            options = flags.kube_controller_manager(
                self.kubeconfig(folder / "controllers.kubeconfig"),
                authority=self.authority,
                service_accounts=service_accounts,
                controllers=controllers,
            )
            self._daemons.append(self._daemon("kube-controller-manager", programs, [*options, *controller_args]))

    @classmethod
    @contextlib.contextmanager
    def running(
        cls,
        programs: Mapping[str, Path],
        *,
        api_server_args: Sequence[str] = (),
        etcd_args: Sequence[str] = (),
        controllers: Sequence[str] = CONTROLLERS,
        place: Place = LOOPBACK,
    ) -> Iterator[Self]:
        """A control plane in a temporary folder, ended and removed afterwards.

        Args:
            programs: ``programs.find()``; without a kube-controller-manager nothing collects garbage.
            api_server_args: Further options of kube-apiserver; of an option given twice the last counts.
            etcd_args: Further options of etcd.
            controllers: What the controller manager runs; empty: there is none.
            place: Where all that runs.

        Raises:
            ControlPlaneError: It did not come up.
        """
        with tempfile.TemporaryDirectory(prefix="nicrails-control-plane-", dir=_fast_folder()) as name:
            undo = reaper().folder(Path(name))
            plane = cls(
                programs,
                Path(name),
                api_server_args=api_server_args,
                etcd_args=etcd_args,
                controllers=controllers,
                place=place,
            )
            try:
                plane.start()
                yield plane
            finally:
                plane.stop()
        reaper().forget(undo)

    def start(self) -> None:
        """Start all parts and wait until the API server is ready."""
        self._etcd.start()
        self.start_api_server()
        for daemon in self._daemons[2:]:  # controllers give up when they find no API server
            daemon.start()

    def stop(self) -> None:
        """End all parts and give their ports back; the data is not needed any more, so nothing is asked to be tidy."""
        for daemon in reversed(self._daemons):
            daemon.kill()
        for port in (self._etcd_port, *(() if self._place.port else (self._port,))):
            release_port(port)

    def start_api_server(self, *, within: float = 50) -> None:
        """Start the API server on its port with its data, and wait until it is ready.

        Raises:
            ControlPlaneError: It ended at once or was not ready in time.
        """
        if not self._api_server.running:
            self._api_server.start()
        try:
            eventually_sync(self._ready, within=within, what="the API server is ready", interval=0.1)
        except NotInTimeError as error:
            raise ControlPlaneError(f"{error}; the logs end with\n{self.log_tail()}") from error

    def stop_api_server(self, *, graceful: bool = False) -> None:
        """Take the API server away: at once, or as a rolling restart does it."""
        if graceful:
            self._api_server.stop()
        else:
            self._api_server.kill()

    def pause(self) -> None:
        """Freeze the API server: connections stay open and nothing answers."""
        self._api_server.pause()

    def resume(self) -> None:
        """Let a frozen API server go on."""
        self._api_server.resume()

    @contextlib.contextmanager
    def outage(self) -> Iterator[None]:
        """No API server within the block; it is back and ready afterwards."""
        self.stop_api_server()
        try:
            yield
        finally:
            self.start_api_server()

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """A frozen API server within the block."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def restore(self) -> None:
        """Undo what a failed test may have left: resume and start what is not running."""
        self.resume()
        if not self._api_server.running:
            self.start_api_server()

    @property
    def pids(self) -> list[int]:
        """The process ids of what runs."""
        return [daemon.pid for daemon in self._daemons if daemon.running]

    def complete(self) -> bool:
        """Whether every part runs."""
        return all(daemon.running for daemon in self._daemons)

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of every part's log."""
        return "\n".join(f"--- {daemon.log}\n{daemon.tail(lines)}" for daemon in self._daemons)

    def kubeconfig(self, path: Path, *, token: str | None = None) -> Path:
        """Write a kubeconfig for the administrator or for whoever holds ``token``; returns ``path``."""
        authority = base64.b64encode(self.authority.file.read_bytes()).decode()
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "nicrails", "cluster": {"server": self.endpoint.url, "certificate-authority-data": authority}}
            ],
            "users": [{"name": "user", "user": {"token": token or self.endpoint.token}}],
            "contexts": [{"name": "nicrails", "context": {"cluster": "nicrails", "user": "user"}}],
            "current-context": "nicrails",
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(document))
        return path

    def service_account_token(
        self,
        namespace: str,
        name: str,
        *,
        audiences: Sequence[str] = (),
        seconds: int = 3600,
        pod: str | None = None,
    ) -> str:
        """A token for a ServiceAccount that exists, by TokenRequest.

        Args:
            namespace: The account's namespace.
            name: The account's name.
            audiences: Whom the token is for; the API server itself if empty.
            seconds: Its lifetime, at least 600.
            pod: A pod of this account that the token is bound to; the token then names the pod's Node, as a mounted
                one does.

        Raises:
            ControlPlaneError: The API server refused.
        """
        spec: dict[str, Any] = {"audiences": list(audiences), "expirationSeconds": seconds}
        if pod is not None:
            found = self.request("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}")
            spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": found["metadata"]["uid"]}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = self.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", body)
        return str(answer["status"]["token"])

    def request(self, method: str, path: str, body: object = None, *, timeout: float = 10) -> Any:
        """One request as administrator; the answer, decoded if it is JSON.

        Raises:
            ControlPlaneError: The answer is not a success.
            OSError: Nothing answers.
        """
        connection = http.client.HTTPSConnection(self._place.address, self._port, timeout=timeout, context=self._tls)
        try:
            headers = {**self.endpoint.headers, "Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            data = response.read()
        finally:
            connection.close()
        if response.status >= http.HTTPStatus.BAD_REQUEST:
            raise ControlPlaneError(f"{method} {path}: {response.status} {data[:256].decode(errors='replace')}")
        return json.loads(data) if response.getheader("Content-Type") == "application/json" else data.decode()

    def _daemon(self, name: str, programs: Mapping[str, Path], options: Sequence[str]) -> Daemon:
        return Daemon(name, [*self._place.inside, str(programs[name]), *options], self.folder)

    @functools.cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority.file))

    def _ready(self) -> bool:
        for daemon in (self._etcd, self._api_server):
            if not daemon.running:
                raise ControlPlaneError(f"{daemon.name} ended while it started; the logs end with\n{self.log_tail()}")
        try:
            # /readyz is ready before the namespace that every client expects is made.
            self.request("GET", "/api/v1/namespaces/default")
            self.request("GET", "/readyz")
        except (OSError, http.client.HTTPException, ControlPlaneError) as error:
            raise AssertionError(str(error)) from error
        return True


def _fast_folder() -> Path | None:
    """Memory, if there is enough of it for a storm of writes; a container's default is 64 MB."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > _ROOM else None
