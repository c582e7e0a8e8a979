"""The command lines of a control plane on loopback."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.cluster.pki import Authority, KeyPair

ISSUER = "https://kubernetes.default.svc"
"""Issuer and default audience of service account tokens."""


def etcd(folder: Path, port: int) -> list[str]:
    """Options of etcd: its clients' port, its data below ``folder``."""
    url = f"http://127.0.0.1:{port}"
    return [
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        "--listen-peer-urls=http://127.0.0.1:0",
        "--unsafe-no-fsync",
        f"--quota-backend-bytes={8 << 30}",
        "--log-level=warn",
    ]


def kube_apiserver(
    folder: Path,
    port: int,
    etcd_port: int,
    *,
    authority: Authority,
    tokens: Path,
    service_accounts: KeyPair,
    address: str,
) -> list[str]:
    """Options of the API server: everything on ``address``, certificates of ``authority``, static ``tokens``."""
    serving = authority.issue(
        "kube-apiserver",
        common_name="kube-apiserver",
        addresses=sorted({"127.0.0.1", address, "10.96.0.1"}),
        hosts=["localhost", "kubernetes.default.svc"],
    )
    client = authority.issue("kubelet-client", common_name="kube-apiserver", groups=["system:masters"])
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        f"--bind-address={address}",
        f"--advertise-address={address}",
        # An endpoint on loopback would be refused, and nothing here asks for one.
        "--endpoint-reconciler-type=none",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        f"--client-ca-file={authority.file}",
        f"--token-auth-file={tokens}",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={service_accounts.certificate}",
        f"--service-account-signing-key-file={service_accounts.key}",
        "--service-cluster-ip-range=10.96.0.0/24",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--profiling=false",
        f"--kubelet-client-certificate={client.certificate}",
        f"--kubelet-client-key={client.key}",
        f"--kubelet-certificate-authority={authority.file}",
        "--kubelet-preferred-address-types=InternalIP",
    ]


def kube_controller_manager(
    kubeconfig: Path, *, authority: Authority, service_accounts: KeyPair, controllers: Sequence[str]
) -> list[str]:
    """Options of the controller manager: these controllers, no port of its own."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--controllers={','.join(controllers)}",
        "--leader-elect=false",
        "--secure-port=0",
        f"--service-account-private-key-file={service_accounts.key}",
        f"--root-ca-file={authority.file}",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        "--concurrent-gc-syncs=5",
        "--concurrent-namespace-syncs=2",
    ]
