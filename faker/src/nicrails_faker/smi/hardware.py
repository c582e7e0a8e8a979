"""The machine that a Node's fake GPUs are in: PCI addresses and the matrix of paths."""

from __future__ import annotations

from dataclasses import dataclass

from nicrails.pci import PciAddress
from nicrails.text import excerpt
from nicrails_faker.machines import MachineError, names, shipped
from nicrails_faker.mig import NodeTopology
from nicrails_faker.mig.document import YamlScalar
from nicrails_faker.smi.matrix import Matrix, plain, read_matrix

MACHINE = "machine"
"""The key of a Node's document that names a shipped machine."""

_BUSES = 254


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """What a Node's GPUs are in.

    Attributes:
        addresses: The PCI address of each GPU.
        topo: What ``nvidia-smi topo -m`` prints where all GPUs are seen.
        matrix: The same, part by part.
        numa_nodes: Of each GPU, None where it is not known.
        problem: Why the machine that the document names is not used, or "".
    """

    addresses: tuple[PciAddress, ...]
    topo: str
    matrix: Matrix
    numa_nodes: tuple[int | None, ...]
    problem: str = ""


def hardware_of(topology: NodeTopology) -> Hardware:
    """The machine of a Node: the shipped one that the document names, else addresses in a row and the longest paths."""
    count = len(topology.gpus)
    name = next((value for key, value in topology.extra.entries if key.text == MACHINE), None)
    if name is None:
        return _made_up(count)
    wanted = name.text if isinstance(name, YamlScalar) else ""
    try:
        machine = shipped(wanted)
        matrix = None if machine.captures.topo is None else read_matrix(machine.captures.topo.decode())
    except (KeyError, MachineError, ValueError):
        known = ", ".join(names())
        return _made_up(count, f'{MACHINE}: no machine "{excerpt(wanted, 60)}" is shipped; there are {known}')
    if matrix is None or len(machine.gpus) < count:
        return _made_up(
            count, f"{MACHINE}: {wanted} has {len(machine.gpus)} GPUs, the Node {count}; name one with as many"
        )
    if len(machine.gpus) == count and machine.captures.topo is not None:
        topo = machine.captures.topo.decode()
    else:
        matrix = matrix.first(count)
        topo = matrix.text()
    return Hardware(
        addresses=machine.gpus[:count],
        topo=topo,
        matrix=matrix,
        numa_nodes=tuple(matrix.numa_node(gpu) for gpu in range(count)),
    )


def _made_up(count: int, problem: str = "") -> Hardware:
    matrix = plain(count)
    return Hardware(
        addresses=tuple(
            PciAddress.parse(f"{index // _BUSES:04x}:{1 + index % _BUSES:02x}:00.0") for index in range(count)
        ),
        topo=matrix.text(),
        matrix=matrix,
        numa_nodes=(None,) * count,
        problem=problem,
    )
