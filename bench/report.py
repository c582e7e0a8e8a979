"""What a benchmark says."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured figure.

    Attributes:
        name: What was measured.
        value: In ``unit``.
        unit: Such as ``ms``, ``MiB``, ``bytes``.
        floor: The least that could be expected, measured in the same run, in the same unit; None if there is none.
        floor_name: What the floor is.
        limit: What the value must not exceed, or None.
        note: How it was measured, in a few words.
    """

    name: str
    value: float
    unit: str
    floor: float | None = None
    floor_name: str = ""
    limit: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Value over floor."""
        return self.value / self.floor if self.floor else None

    @property
    def within(self) -> bool:
        """Whether the limit holds."""
        return self.limit is None or self.value <= self.limit

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"ratio": self.ratio, "within": self.within}


def percentile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that at least a share of all do not exceed."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, max(0, -(-int(share * len(ordered) * 1000) // 1000) - 1))]


def median(samples: Iterable[float]) -> float:
    """The median."""
    return statistics.median(samples)


def table(figures: Sequence[Figure]) -> str:
    """The figures for people."""
    header = ("figure", "value", "limit", "floor", "ratio", "what the floor is; how it was measured")
    rows = [header]
    for figure in figures:
        notes = "; ".join(filter(None, [figure.floor_name, figure.note]))
        rows.append(
            (
                figure.name,
                f"{figure.value:.4g} {figure.unit}",
                "" if figure.limit is None else f"{figure.limit:g}{'' if figure.within else ' EXCEEDED'}",
                "" if figure.floor is None else f"{figure.floor:.4g}",
                "" if figure.ratio is None else f"{figure.ratio:.2f}",
                notes,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
