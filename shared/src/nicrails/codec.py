"""The JSON form of a record: canonical bytes out, strict reading in.

Two equal records always encode to the same bytes, so a publisher can tell "nothing changed" by comparing them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import orjson

from nicrails.pci import PciAddress
from nicrails.record import SCHEMA_VERSION, Candidate, Gpu, GpuUuid, NodeRecord, NodeUid, PathClass, RailId

_T = TypeVar("_T")


class RecordError(ValueError):
    """A document is not a record this package can vouch for.

    Attributes:
        path: Where in the document, as a JSON path (``$.gpus["GPU-…"].rails``).
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path


class UnknownSchemaVersionError(RecordError):
    """The document declares a ``schemaVersion`` that this package does not know; a newer writer may have made it."""

    def __init__(self, version: object) -> None:
        super().__init__(
            "$.schemaVersion", f"unknown version {str(version)[:40]!r}; this reader knows {SCHEMA_VERSION!r}"
        )
        self.version = version


def encode(record: NodeRecord) -> bytes:
    """The canonical JSON of a record: compact UTF-8 with sorted keys.

    Raises:
        RecordError: The record breaks a rule between its values, so no reader would take it.
    """
    # orjson takes subclasses of str as values, but not as keys.
    document = {
        "schemaVersion": SCHEMA_VERSION,
        "nodeUID": record.node_uid,
        "railSource": record.rail_source,
        "nics": {str(nic): list(rails) for nic, rails in record.nics.items()},
        "gpus": {
            str(uuid): {
                "pciAddress": gpu.pci_address,
                "rails": {
                    str(rail): [{"nic": c.nic, "path": c.path.value} for c in candidates]
                    for rail, candidates in gpu.rails.items()
                },
            }
            for uuid, gpu in record.gpus.items()
        },
    }
    try:
        data = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as error:
        raise RecordError("$", f"not to be written as JSON: {error}") from error
    decode(data)
    return data


def decode(document: bytes | str) -> NodeRecord:
    """Read one record; unknown fields are ignored, everything else is checked.

    Raises:
        UnknownSchemaVersionError: The record is of another version.
        RecordError: It is not a record; the message names the path.
    """
    try:
        root = orjson.loads(document)
    except orjson.JSONDecodeError as error:
        raise RecordError("$", f"not JSON: {error}") from error
    fields = _object("$", root)
    if "schemaVersion" not in fields:
        raise RecordError("$.schemaVersion", "missing")
    if fields["schemaVersion"] != SCHEMA_VERSION:
        raise UnknownSchemaVersionError(fields["schemaVersion"])
    nics = {
        _key(_canonical_pci, "$.nics", nic): _rails(f'$.nics["{nic}"]', rails)
        for nic, rails in _object("$.nics", _field("$", fields, "nics")).items()
    }
    record = NodeRecord(
        node_uid=_value(NodeUid.parse, "$.nodeUID", _field("$", fields, "nodeUID")),
        rail_source=_value(_source, "$.railSource", _field("$", fields, "railSource")),
        nics=nics,
        gpus={
            _key(GpuUuid.parse, "$.gpus", uuid): _gpu(f'$.gpus["{uuid}"]', gpu)
            for uuid, gpu in _object("$.gpus", _field("$", fields, "gpus")).items()
        },
    )
    _check(record)
    return record


def _check(record: NodeRecord) -> None:
    """The rules between values: every candidate is on its rail, every GPU has every rail, addresses are told apart."""
    seen: dict[PciAddress, str] = {}
    for uuid, gpu in record.gpus.items():
        at = f'$.gpus["{uuid}"]'
        if gpu.pci_address in seen:
            raise RecordError(f"{at}.pciAddress", f"{gpu.pci_address} is also that of {seen[gpu.pci_address]}")
        if gpu.pci_address in record.nics:
            raise RecordError(f"{at}.pciAddress", f"{gpu.pci_address} is a NIC in $.nics")
        seen[gpu.pci_address] = uuid
        for rail, candidates in gpu.rails.items():
            for index, candidate in enumerate(candidates):
                if rail not in record.nics.get(candidate.nic, ()):
                    raise RecordError(
                        f'{at}.rails["{rail}"][{index}].nic', f"{candidate.nic} is not on {rail} in $.nics"
                    )
        missing = set(record.rails) - set(gpu.rails)
        if missing:
            raise RecordError(f"{at}.rails", f"no candidate on {', '.join(sorted(missing))}")


def _gpu(at: str, value: object) -> Gpu:
    fields = _object(at, value)
    return Gpu(
        pci_address=_value(_canonical_pci, f"{at}.pciAddress", _field(at, fields, "pciAddress")),
        rails={
            _key(RailId.parse, f"{at}.rails", rail): _candidates(f'{at}.rails["{rail}"]', candidates)
            for rail, candidates in _object(f"{at}.rails", _field(at, fields, "rails")).items()
        },
    )


def _candidates(at: str, value: object) -> tuple[Candidate, ...]:
    candidates = tuple(_candidate(f"{at}[{index}]", item) for index, item in enumerate(_list(at, value)))
    _ascending(at, [candidate.nic for candidate in candidates])
    if len({candidate.path for candidate in candidates}) > 1:
        raise RecordError(at, "candidates of different path classes; only ties belong here")
    return candidates


def _candidate(at: str, value: object) -> Candidate:
    fields = _object(at, value)
    return Candidate(
        nic=_value(_canonical_pci, f"{at}.nic", _field(at, fields, "nic")),
        path=_value(_path_class, f"{at}.path", _field(at, fields, "path")),
    )


def _rails(at: str, value: object) -> tuple[RailId, ...]:
    rails = tuple(_value(RailId.parse, f"{at}[{index}]", item) for index, item in enumerate(_list(at, value)))
    _ascending(at, rails)
    return rails


def _ascending(at: str, items: Sequence[str]) -> None:
    if not items:
        raise RecordError(at, "empty")
    for before, after in itertools.pairwise(items):
        if before >= after:
            raise RecordError(at, f"not sorted without duplicates: {after!r} after {before!r}")


def _source(text: str) -> str:
    if not 0 < len(text) <= 253 or not text.isprintable():
        raise ValueError(f"not the name of a rail source: {text[:60]!r}")
    return text


def _canonical_pci(text: str) -> PciAddress:
    address = PciAddress.parse(text)
    if address != text:
        raise ValueError(f"not in canonical form: {text!r} is {address!r}")
    return address


def _path_class(text: str) -> PathClass:
    try:
        return PathClass(text)
    except ValueError:
        raise ValueError(f"unknown path class {text[:40]!r}; known are {', '.join(PathClass)}") from None


def _object(at: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise RecordError(at, f"expected an object, found {_kind(value)}")
    return value


def _list(at: str, value: object) -> list[object]:
    if not isinstance(value, list):
        raise RecordError(at, f"expected a list, found {_kind(value)}")
    return value


def _field(at: str, fields: Mapping[str, Any], name: str) -> object:
    if name not in fields:
        raise RecordError(f"{at}.{name}", "missing")
    return fields[name]


def _value(parse: Callable[[str], _T], at: str, value: object) -> _T:
    if not isinstance(value, str):
        raise RecordError(at, f"expected a string, found {_kind(value)}")
    try:
        return parse(value)
    except ValueError as error:
        raise RecordError(at, str(error)) from error


def _key(parse: Callable[[str], _T], at: str, key: str) -> _T:
    return _value(parse, f"{at}[{key[:60]!r}]", key)


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    return names.get(type(value)) or ("a list" if isinstance(value, list) else "an object")
