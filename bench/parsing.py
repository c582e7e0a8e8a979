"""Parsing and joining one machine of 8 GPUs and 18 NICs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from bench.report import Figure, median
from nicrails import NodeUid, PciAddress, RailId, encode
from nicrails_broker.join import GpuView, join
from nicrails_broker.parsers.inventory import parse_inventory
from nicrails_broker.parsers.topo import parse_topology

GPUS, NICS = 8, 18
LIMIT_MS = 5.0


def topology_text() -> str:
    """What ``nvidia-smi topo -m`` prints for 8 GPUs that each have two near NICs of 18."""
    columns = [f"GPU{i}" for i in range(GPUS)] + [f"NIC{i}" for i in range(NICS)]
    lines = ["\t\x1b[4m" + "\t".join(columns) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m"]

    def place(index: int) -> int:
        return index if index < GPUS else (index - GPUS) // 2

    for row, name in enumerate(columns):
        cells = []
        for column in range(len(columns)):
            if row == column:
                cells.append(" X ")
            elif row < GPUS and column < GPUS:
                cells.append("NV18")
            elif place(row) == place(column):
                cells.append("PIX")
            else:
                cells.append("NODE" if place(row) // 4 == place(column) // 4 else "SYS")
        tail = "\t0-47,96-143\t0\t\tN/A" if row < GPUS else "\t\t\t\t"
        lines.append(name + "\t" + "\t".join(cells) + tail)
    legend = [f"  NIC{i}: mlx5_{i}" for i in range(NICS)]
    words = ["X    = Self", "SYS  = across NUMA nodes", "NODE = within a NUMA node", "PHB  = host bridge"]
    return "\n".join([*lines, "", "Legend:", "", *(f"  {w}" for w in words), "", "NIC Legend:", "", *legend, ""]) + "\n"


def inventory_text() -> str:
    """What the query command prints for the same machine."""
    return "".join(
        f"{i}, GPU-00000000-0000-0000-0000-00000000000{i}, 00000000:{16 + i:02X}:00.0\n" for i in range(GPUS)
    )


def run() -> Iterator[Figure]:
    """Measure."""
    topology, inventory = topology_text(), inventory_text()
    addresses: dict[str, PciAddress | None] = {
        f"mlx5_{i}": PciAddress(f"0000:{48 + i // 2:02x}:00.{i % 2}") for i in range(NICS)
    }
    rails = {
        address: (RailId(f"rail{index // 2 % 8}"),)
        for index, address in enumerate(addresses.values())
        if address is not None and index < 16
    }

    def work() -> bytes:
        view = GpuView(inventory=parse_inventory(inventory), topology=parse_topology(topology), nic_addresses=addresses)
        return encode(join(node_uid=NodeUid("u"), rail_source="host-lldp", rails=rails, gpus=view))

    def floor() -> None:
        for line in (topology + inventory).splitlines():
            line.split("\t")

    record = work()
    ours, least = [], []
    for _ in range(7):
        ours.append(_time(work, 20))
        least.append(_time(floor, 200))
    yield Figure(
        name="parse + join, 8 GPUs x 18 NICs",
        value=median(ours),
        unit="ms",
        floor=median(least),
        floor_name="splitting the same text into lines and cells",
        limit=LIMIT_MS,
        note=f"median of 7 rounds; record of {len(record)} bytes",
    )


def _time(what: Callable[[], object], rounds: int) -> float:
    started = time.perf_counter()
    for _ in range(rounds):
        what()
    return (time.perf_counter() - started) / rounds * 1000
