from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from nicrails import Candidate, PathClass, RecordError, UnknownSchemaVersionError, decode, encode
from tests.shared.records import EXAMPLE_JSON, GPU0, NIC0, NIC1, RAIL0, example


def test_canonical_bytes() -> None:
    """A record encodes to compact JSON with sorted keys, whatever the order of its mappings."""
    record = example()
    turned = dataclasses.replace(
        record, nics=dict(reversed(list(record.nics.items()))), gpus=dict(reversed(list(record.gpus.items())))
    )
    assert encode(record) == encode(turned) == EXAMPLE_JSON


def test_round_trip() -> None:
    """What was encoded decodes to an equal record and encodes to the same bytes again."""
    assert decode(EXAMPLE_JSON) == example()
    assert encode(decode(EXAMPLE_JSON)) == EXAMPLE_JSON


def test_node_without_gpus() -> None:
    """A Node without GPUs has an empty object of GPUs."""
    record = dataclasses.replace(example(), gpus={})
    assert b'"gpus":{}' in encode(record)
    assert decode(encode(record)) == record


def _set(*path_and_value: Any) -> Callable[[dict[str, Any]], None]:
    *path, last, value = path_and_value

    def change(document: dict[str, Any]) -> None:
        target = document
        for key in path:
            target = target[key]
        target[last] = value

    return change


def _drop(*path: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        target = document
        for key in path[:-1]:
            target = target[key]
        del target[path[-1]]

    return change


def test_unknown_fields_are_ignored() -> None:
    """Fields that a newer writer adds, at any depth, do not disturb a reader."""
    document = orjson.loads(EXAMPLE_JSON)
    document["matchKeys"] = {"a": 1}
    document["gpus"][GPU0]["numa"] = 0
    document["gpus"][GPU0]["rails"]["rail0"][0]["speed"] = 400
    assert decode(orjson.dumps(document)) == example()


@pytest.mark.parametrize("version", ["v1", "v1alpha2", "", None, 1])
def test_unknown_version(version: object) -> None:
    """Another schemaVersion is told apart from a broken record, since a newer writer may be right."""
    document = orjson.loads(EXAMPLE_JSON)
    document["schemaVersion"] = version
    with pytest.raises(UnknownSchemaVersionError, match=r"\$\.schemaVersion: unknown version"):
        decode(orjson.dumps(document))


@pytest.mark.parametrize(
    ("change", "path", "problem"),
    [
        (_drop("schemaVersion"), "$.schemaVersion", "missing"),
        (_drop("nodeUID"), "$.nodeUID", "missing"),
        (_set("nodeUID", ""), "$.nodeUID", "not a Node UID"),
        (_set("nodeUID", 5), "$.nodeUID", "expected a string, found a number"),
        (_set("railSource", ""), "$.railSource", "not the name of a rail source"),
        (_set("nics", []), "$.nics", "expected an object, found a list"),
        (_set("nics", "0000:1A:00.0", ["rail0"]), "$.nics['0000:1A:00.0']", "not in canonical form"),
        (_set("nics", NIC0, []), f'$.nics["{NIC0}"]', "empty"),
        (_set("nics", NIC0, ["rail0", "rail0"]), f'$.nics["{NIC0}"]', "not sorted without duplicates"),
        (_set("nics", NIC1, ["rail1", "rail0"]), f'$.nics["{NIC1}"]', "not sorted without duplicates"),
        (_set("nics", NIC0, ["rail\x1b0"]), f'$.nics["{NIC0}"][0]', "not a rail ID"),
        (_set("nics", NIC0, ["rail9"]), f'$.gpus["{GPU0}"].rails["rail0"][0].nic', "is not on rail0"),
        (_set("gpus", None), "$.gpus", "expected an object, found null"),
        (_set("gpus", "MIG-x", {}), "$.gpus['MIG-x']", "expected"),
        (_set("gpus", GPU0, "pciAddress", "1b:00.0"), f'$.gpus["{GPU0}"].pciAddress', "not a PCI address"),
        (_set("gpus", GPU0, "pciAddress", NIC0), f'$.gpus["{GPU0}"].pciAddress', "is a NIC"),
        (_set("gpus", GPU0, "pciAddress", "0000:2b:00.0"), ".pciAddress", "is also that of"),
        (_drop("gpus", GPU0, "rails", "rail1"), f'$.gpus["{GPU0}"].rails', "no candidate on rail1"),
        (_set("gpus", GPU0, "rails", "rail0", []), f'$.gpus["{GPU0}"].rails["rail0"]', "empty"),
        (_set("gpus", GPU0, "rails", "rail0", 0, "path", "PHX"), '["rail0"][0].path', "unknown path class"),
        (
            _set("gpus", GPU0, "rails", "rail0", 0, "nic", True),
            '["rail0"][0].nic',
            "expected a string, found a boolean",
        ),
    ],
)
def test_refusals_name_the_path(change: Callable[[dict[str, Any]], None], path: str, problem: str) -> None:
    """Every rule that a document breaks is told with the JSON path where it is broken."""
    document = copy.deepcopy(orjson.loads(EXAMPLE_JSON))
    change(document)
    with pytest.raises(RecordError) as error:
        decode(orjson.dumps(document))
    if problem == "expected":
        assert "MIG-x" in str(error.value)
    else:
        assert path in error.value.path
        assert problem in str(error.value)


@pytest.mark.parametrize("document", [b"", b"{", b"[]", b"null", b"\xff", b"1" * 100])
def test_other_documents(document: bytes) -> None:
    """What is no JSON object at all is refused with the root path."""
    with pytest.raises(RecordError, match=r"^\$"):
        decode(document)


def test_mixed_classes_are_no_tie() -> None:
    """Candidates of different path classes are refused: only ties belong in one list."""
    record = example()
    gpu = record.gpus[GPU0]
    mixed = (Candidate(nic=NIC0, path=PathClass.PIX), Candidate(nic=NIC1, path=PathClass.SYS))
    gpus = dict(record.gpus) | {GPU0: dataclasses.replace(gpu, rails=dict(gpu.rails) | {RAIL0: mixed})}
    with pytest.raises(RecordError, match="only ties belong here"):
        encode(dataclasses.replace(record, gpus=gpus))
