"""The GPU-to-NIC rail record of a Kubernetes Node.

For every GPU of a Node the record names the host-visible NICs that are closest on each network rail. Consumers use
:func:`read_records`; :mod:`nicrails.kube`, :mod:`nicrails.service` and :mod:`nicrails.settings` are plumbing for the
project's own services and need the extra ``nicrails[service]``.
"""

from nicrails.codec import RecordError, UnknownSchemaVersionError, decode, encode
from nicrails.pci import PciAddress
from nicrails.reader import ClusterRecords, read_records
from nicrails.record import SCHEMA_VERSION, Candidate, Gpu, GpuUuid, NodeRecord, NodeUid, PathClass, RailId

__all__ = [
    "SCHEMA_VERSION",
    "Candidate",
    "ClusterRecords",
    "Gpu",
    "GpuUuid",
    "NodeRecord",
    "NodeUid",
    "PathClass",
    "PciAddress",
    "RailId",
    "RecordError",
    "UnknownSchemaVersionError",
    "decode",
    "encode",
    "read_records",
]
