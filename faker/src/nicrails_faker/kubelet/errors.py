"""A failure of the kubelet's APIs, in one sentence."""

from __future__ import annotations

import grpc
from grpc import aio

from nicrails.text import excerpt


class KubeletError(Exception):
    """The kubelet could not be asked, or refused."""


def failure(error: aio.AioRpcError, what: str, socket: str) -> KubeletError:
    """What a failed call means.

    Args:
        error: How the call ended.
        what: Was asked for, such as ``register nvidia.com/gpu``.
        socket: The kubelet's.
    """
    code, details = error.code(), excerpt(error.details() or "")
    if code is grpc.StatusCode.UNAVAILABLE:
        return KubeletError(f"can not {what}: no kubelet listens on {socket} ({details}); it is tried again")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return KubeletError(f"can not {what}: the kubelet at {socket} has not answered in time; it is tried again")
    return KubeletError(f"can not {what}: the kubelet at {socket} refused it with {code.name}: {details}")
