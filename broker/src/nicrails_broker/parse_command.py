"""The subcommands ``parse topo``, ``parse inventory`` and ``parse lldp``: captured output in, JSON out."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from nicrails_broker.parsers import interfaces, parse_any, parse_inventory, parse_topology


def run(kind: str, data: bytes) -> bytes:
    """Read one captured output and show what was read.

    Args:
        kind: ``topo``, ``inventory`` or ``lldp``.
        data: The captured output.

    Returns:
        One JSON document without a final newline. ``topo``: ``{"gpus": <count>, "nics": {<column>: <device>}, "closest":
        {<GPU>: {"class": <path class>, "nics": [<column>]}}}``; ``inventory``: ``[{"index", "uuid", "pciAddress"}]``;
        ``lldp``: the sorted interfaces that have a neighbour.

    Raises:
        ParseError: The output is refused.
        ValueError: There is no such kind.
    """
    if kind not in KINDS:
        raise ValueError(f"nothing to parse of kind {kind[:40]!r}; known are {', '.join(KINDS)}")
    return orjson.dumps(KINDS[kind](data))


def _topo(data: bytes) -> object:
    topology = parse_topology(_text(data))
    closest = {}
    for gpu in range(topology.gpu_count):
        best = topology.closest(gpu)
        if best is not None:
            closest[str(gpu)] = {"class": best[0].value, "nics": best[1]}
    return {"gpus": topology.gpu_count, "nics": topology.nics, "closest": closest}


def _inventory(data: bytes) -> object:
    return [
        {"index": gpu.index, "uuid": gpu.uuid, "pciAddress": gpu.pci_address} for gpu in parse_inventory(_text(data))
    ]


def _lldp(data: bytes) -> object:
    return interfaces(parse_any(data))


def _text(data: bytes) -> str:
    # The replacement character is none that nvidia-smi prints, so the parsers refuse it with its place.
    return data.decode("utf-8", "replace")


KINDS: dict[str, Callable[[bytes], object]] = {"topo": _topo, "inventory": _inventory, "lldp": _lldp}
"""The kinds that ``run`` knows, with their readers."""
