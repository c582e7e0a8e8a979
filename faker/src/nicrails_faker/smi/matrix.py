"""The matrix of ``nvidia-smi topo -m``: made plain, or taken from the capture of a machine."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_AFFINITY = re.compile(r"\s+CPU Affinity\b.*")
_GPU = re.compile(r"GPU[0-9]+")

PLAIN_TAIL = "N/A\tN/A\tN/A"
PLAIN_HEADING = "CPU Affinity\tNUMA Affinity\tGPU NUMA ID"
LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """How far devices are from each other.

    Attributes:
        labels: GPUs, then NICs.
        cells: A row for each label, with a cell for each.
        heading: The names of the affinities.
        tails: What stands behind the cells of each row.
        legend: What stands below, with its blank line before and a line feed at its end; or "".
    """

    labels: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    heading: str
    tails: tuple[str, ...]
    legend: str

    @property
    def gpus(self) -> int:
        """How many GPUs it has."""
        return sum(_GPU.fullmatch(label) is not None for label in self.labels)

    def first(self, gpus: int) -> Matrix:
        """The matrix of the first GPUs and all NICs."""
        kept = [at for at, label in enumerate(self.labels) if _GPU.fullmatch(label) is None or at < gpus]
        return Matrix(
            labels=tuple(self.labels[at] for at in kept),
            cells=tuple(tuple(self.cells[row][at] for at in kept) for row in kept),
            heading=self.heading,
            tails=tuple(self.tails[at] for at in kept),
            legend=self.legend,
        )

    def text(self) -> str:
        """As drivers since 525 print it."""
        lines = ["\t".join(("", *self.labels, self.heading))]
        for label, cells, tail in zip(self.labels, self.cells, self.tails, strict=True):
            lines.append("\t".join((label, *(" X " if cell == "X" else cell for cell in cells), tail)))
        return "\n".join(lines) + "\n" + self.legend

    def numa_node(self, gpu: int) -> int | None:
        """The NUMA node that a GPU is at, None where it is not known or there are several."""
        words = self.tails[gpu].split()
        numa = words[1] if len(words) > 1 else ""
        return int(numa) if numa.isascii() and numa.isdigit() else None


def plain(gpus: int) -> Matrix:
    """GPUs of which nothing is known: each path may be the longest."""
    labels = tuple(f"GPU{index}" for index in range(gpus))
    return Matrix(
        labels=labels,
        cells=tuple(tuple("X" if row == column else "SYS" for column in range(gpus)) for row in range(gpus)),
        heading=PLAIN_HEADING,
        tails=(PLAIN_TAIL,) * gpus,
        legend=LEGEND,
    )


def read_matrix(text: str) -> Matrix:
    """The matrix of a capture.

    Raises:
        ValueError: There is none in it.
    """
    lines = [line.rstrip("\r") for line in text.split("\n")]
    header = _ESCAPE.sub("", lines[0])
    affinities = _AFFINITY.search(header)
    labels = tuple(header[: affinities.start()].split() if affinities else header.split())
    rows = [line.split(None, len(labels) + 1) for line in lines[1 : len(labels) + 1]]
    if not labels or [row[0] if row else "" for row in rows] != list(labels):
        raise ValueError("the capture does not begin with a matrix")
    if any(len(row) <= len(labels) for row in rows):
        raise ValueError("a row of the matrix has too few cells")
    rest = "\n".join(lines[len(labels) + 1 :]).strip("\n")
    return Matrix(
        labels=labels,
        cells=tuple(tuple(row[1 : len(labels) + 1]) for row in rows),
        heading=re.sub(r"\s{2,}", "\t", affinities[0].strip()) if affinities else "",
        tails=tuple("\t".join(row[len(labels) + 1 :]).strip() for row in rows),
        legend=f"\n{rest}\n" if rest else "",
    )
