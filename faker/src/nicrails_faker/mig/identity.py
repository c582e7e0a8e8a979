"""UUIDs that are the same on every run: nothing changes when a component restarts or a request is applied again."""

from __future__ import annotations

from uuid import UUID, uuid5

_NIL = UUID(int=0)


def gpu_uuid(node: str, index: int) -> str:
    """The UUID of a Node's GPU: ``GPU-`` and the version 5 UUID of ``<node>-<index>`` in the nil namespace.

    This is the rule of fake-gpu-operator, whose topologies have these IDs.
    """
    return f"GPU-{uuid5(_NIL, f'{node}-{index}')}"


def mig_uuid(gpu: str, profile: str, start: int) -> str:
    """The UUID of a slice: ``MIG-`` and the version 5 UUID of ``<GPU UUID>/<profile>/<start>`` in the nil namespace.

    Real MIG UUIDs are of version 5 too. The same slice at the same place is the same device, whatever lay there between.
    """
    return f"MIG-{uuid5(_NIL, f'{gpu}/{profile}/{start}')}"


def other_device_id(resource: str, index: int) -> str:
    """The ID of a device that stands for nothing but its number, of a resource such as ``rdma/hca``."""
    return str(uuid5(_NIL, f"{resource}-{index}"))
