"""The tables of ``docs/permissions.md``, read as the truth that the chart and the API server are compared with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.chart.helm import Json

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "permissions.md"

GPU_SOURCE, RECORDS, ANNOTATIONS = "GPU source", "records", "annotations"
FAKER, MIG, RESTART, METRICS, FAKE_NODES = "faker", "MIG", "MIG by restart", "metrics", "fake Nodes"
GPU_OPERATOR, RELEASE, CLUSTER, DEFAULT = "GPU Operator", "release", "cluster", "default"

PROGRAMS = ("broker", "observer")
FAKERS = ("topology", "device-plugin", "mig", "metrics", "nodes")
"""The faker's services."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """One row of a table, with one of its verbs.

    Attributes:
        program: One of :data:`PROGRAMS` or :data:`FAKERS`.
        when: Features; one of them is enough.
        where: ``release``, ``GPU Operator``, ``cluster`` or ``default``.
        group: The API group; "" is the core group.
        resource: With its subresource.
        name: Of the only object, or None for all.
        verb: What may be done.
    """

    program: str
    when: frozenset[str]
    where: str
    group: str
    resource: str
    name: str | None
    verb: str

    def __str__(self) -> str:
        return f"{self.program}-{self.resource.replace('/', '-')}-{self.name or 'any'}-{self.verb}"

    def granted_by(self, rule: Json) -> bool:
        """Whether a rule of a role is the one that grants this."""
        return (
            rule["apiGroups"] == [self.group]
            and rule["resources"] == [self.resource]
            and rule.get("resourceNames", [None]) == [self.name]
            and self.verb in rule["verbs"]
        )


def _rows() -> Iterator[list[str]]:
    lines = iter(DOCUMENT.read_text().splitlines())
    for line in lines:
        if not line.startswith("| program |"):
            continue
        next(lines)
        for row in lines:
            if not row.startswith("|"):
                break
            yield [cell.strip().strip("`") for cell in row.strip("|").split("|")]


def _table() -> Iterator[Permission]:
    for program, when, where, resource, name, verbs, _ in _rows():
        group, slash, rest = resource.partition("/")
        grouped = slash and group == "apps"
        for verb in verbs.split(", "):
            yield Permission(
                program=program,
                when=frozenset(when.split(" or ")),
                where=where,
                group=group if grouped else "",
                resource=rest if grouped else resource,
                name=None if name == "any" else name,
                verb=verb,
            )


TABLE: tuple[Permission, ...] = tuple(_table())
"""Every verb of every row of both tables."""

FEATURES: Mapping[str, frozenset[str]] = {
    "records-and-gpus-and-annotations": frozenset({RECORDS, GPU_SOURCE, ANNOTATIONS}),
    "records-and-gpus": frozenset({RECORDS, GPU_SOURCE}),
    "records-and-annotations": frozenset({RECORDS, ANNOTATIONS}),
    "records": frozenset({RECORDS}),
    "annotations": frozenset({ANNOTATIONS}),
    "faker": frozenset({FAKER, MIG, METRICS}),
    "faker-restart-mode": frozenset({FAKER, MIG, RESTART, METRICS}),
    "faker-with-fake-nodes": frozenset({FAKER, MIG, METRICS, FAKE_NODES}),
    "faker-minimal": frozenset({FAKER}),
    "everything": frozenset({RECORDS, GPU_SOURCE, ANNOTATIONS, FAKER, MIG, RESTART, METRICS, FAKE_NODES}),
}
"""Every combination of features that there can be without the faker; those of the faker's, and all at once."""


def granted(program: str, features: frozenset[str]) -> list[Permission]:
    """What the tables grant a program with these features."""
    return [item for item in TABLE if item.program == program and item.when & features]
