"""What a Node's annotation makes of its topology; pure."""

from __future__ import annotations

import functools
from dataclasses import replace

from nicrails_faker.mig import Gpu, MigError, MigRequest, NodeTopology, parse_request, plan


def goal(topology: NodeTopology, config: str | None) -> NodeTopology:
    """The topology with the request met; the same object where nothing changes.

    Args:
        topology: As it is.
        config: The annotation's text; None turns MIG off.

    Raises:
        MigError: The request cannot be read or met.
    """
    return plan(topology, None if config is None else _parsed(config))


def restored(now: NodeTopology, *, before: NodeTopology, written: NodeTopology) -> NodeTopology:
    """The topology with what was written taken back; the same object where there is nothing to take back.

    Only GPUs that are still as they were written go back, and not those of which somebody has something by now. What others
    have changed besides stays.

    Args:
        now: As it is.
        before: As it was before the write.
        written: As it was written.
    """
    if len(now.gpus) != len(before.gpus) or len(now.gpus) != len(written.gpus):
        return now
    gpus = tuple(
        one if _layout(one) != _layout(new) or _layout(one) == _layout(old) or _is_held(one) else old
        for one, old, new in zip(now.gpus, before.gpus, written.gpus, strict=True)
    )
    return now if gpus == now.gpus else replace(now, gpus=gpus)


def same_layout(one: NodeTopology, other: NodeTopology) -> bool:
    """Whether all GPUs are cut alike, whoever holds what."""
    return [_layout(gpu) for gpu in one.gpus] == [_layout(gpu) for gpu in other.gpus]


def _layout(gpu: Gpu) -> object:
    return gpu.id, gpu.mig_enabled, tuple((one.profile, one.index, one.uuid) for one in gpu.mig_instances)


def _is_held(gpu: Gpu) -> bool:
    return gpu.status.in_use or any(one.status.in_use for one in gpu.mig_instances)


def _parsed(config: str) -> MigRequest:
    found = _remembered(config)
    if isinstance(found, MigError):
        raise found
    return found


@functools.lru_cache(maxsize=16)
def _remembered(config: str) -> MigRequest | MigError:
    """Nodes come back with the same text again and again, and a large one takes its time."""
    try:
        return parse_request(config)
    except MigError as error:
        return error
