from __future__ import annotations

import importlib.resources
from typing import Any

import jsonschema
import orjson
import pytest

from nicrails.schema import json_schema
from tests.shared.records import EXAMPLE_JSON, GPU0, NIC0


def test_the_shipped_schema_is_that_of_the_types() -> None:
    """The schema file in the package is what the types say."""
    shipped = importlib.resources.files("nicrails").joinpath("record.schema.json").read_bytes()
    assert orjson.loads(shipped) == json_schema(), (
        "run: python -m nicrails.schema > shared/src/nicrails/record.schema.json"
    )


def test_records_are_valid() -> None:
    """What the encoder writes is valid, also with fields that are not known yet."""
    jsonschema.Draft202012Validator.check_schema(json_schema())
    document = orjson.loads(EXAMPLE_JSON)
    jsonschema.validate(document, json_schema())
    jsonschema.validate(document | {"new": 1}, json_schema())


def _broken(**changes: Any) -> dict[str, Any]:
    return orjson.loads(EXAMPLE_JSON) | changes  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "document",
    [
        _broken(schemaVersion="v2"),
        _broken(nics={"1a:00.0": ["rail0"]}),
        _broken(nics={NIC0: []}),
        _broken(nics={NIC0: [1]}),
        _broken(gpus={"MIG-x": {"pciAddress": "0000:1b:00.0", "rails": {}}}),
        _broken(gpus={GPU0: {"pciAddress": "0000:1b:00.0", "rails": {"rail0": [{"nic": NIC0, "path": "SOC"}]}}}),
        _broken(gpus={GPU0: {"rails": {}}}),
        {},
    ],
)
def test_broken_documents_are_invalid(document: dict[str, Any]) -> None:
    """The schema refuses what it can express: versions, names, addresses, path classes, missing fields."""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, json_schema())
