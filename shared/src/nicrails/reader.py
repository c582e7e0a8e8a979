"""Reading all records of a cluster, as a scheduler or a device allocator does.

A consumer gets the ConfigMap with whatever client it has and gives its ``data`` to :func:`read_records`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nicrails.codec import RecordError, decode
from nicrails.record import Candidate, NodeRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecords(Mapping[str, NodeRecord]):
    """The records of a cluster by Node name.

    Attributes:
        records: Those that could be read.
        unreadable: Why each of the others could not; a newer broker may have written it.
    """

    records: Mapping[str, NodeRecord]
    unreadable: Mapping[str, RecordError]

    def __getitem__(self, node: str) -> NodeRecord:
        return self.records[node]

    def __iter__(self) -> Iterator[str]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def candidates(self, node: str, gpu: str, rail: str, *, node_uid: str) -> tuple[Candidate, ...]:
        """The NICs closest to a GPU of a Node on a rail: all that are tied, sorted by PCI address.

        Args:
            node: The Node's name.
            gpu: The GPU's UUID.
            rail: The rail ID.
            node_uid: ``metadata.uid`` of the Node as the caller sees it, so that a record of a former Node of the
                same name is not used.

        Raises:
            KeyError: There is no such record, GPU or rail; the message says which.
            RecordError: The Node's record can not be read, or is of a former Node.
        """
        if node in self.unreadable:
            raise self.unreadable[node]
        try:
            record = self.records[node]
        except KeyError:
            raise KeyError(f"no record of Node {node}") from None
        if record.node_uid != node_uid:
            raise RecordError("$.nodeUID", f"the record is of Node UID {record.node_uid}, the Node has {node_uid}")
        return record.candidates(gpu, rail)


def read_records(data: Mapping[str, str] | None) -> ClusterRecords:
    """Read the ``data`` of the shared ConfigMap; one unreadable record does not hide the others.

    Args:
        data: Node name to JSON document; None as a ConfigMap without data has it.
    """
    records: dict[str, NodeRecord] = {}
    unreadable: dict[str, RecordError] = {}
    for node, document in (data or {}).items():
        try:
            records[node] = decode(document)
        except RecordError as error:
            unreadable[node] = error
    return ClusterRecords(records=records, unreadable=unreadable)
