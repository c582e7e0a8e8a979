"""The reference of the values is made from the chart, and the chart's values, schema and reference agree."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import yaml

from tests.chart.combinations import MAPPING
from tests.chart.values_reference import DOCUMENT, SCHEMA, VALUES, document, rows


def test_the_page_is_up_to_date() -> None:
    """``docs/values.md`` is what the chart says now; ``python -m tests.chart.values_reference > docs/values.md`` renews it."""
    assert DOCUMENT.read_text() == document()


def leaves(schema: Any, root: Any, prefix: str = "") -> Iterator[str]:
    """The keys of a schema that have no keys of their own."""
    for name, found in schema["properties"].items():
        below = root["$defs"][found["$ref"].rpartition("/")[2]] if "$ref" in found else found
        key = f"{prefix}{name}"
        if "properties" in below:
            yield from leaves(below, root, f"{key}.")
        else:
            yield key


def test_every_key_of_the_schema_is_in_the_values() -> None:
    """No key exists that a reader of ``values.yaml`` does not see; below resources and the like it is Kubernetes' own."""
    schema = json.loads(SCHEMA.read_text())
    documented = {row.key for row in rows()}
    hidden = {
        key for key in leaves(schema, schema) if not any(f"{key}.".startswith(f"{known}.") for known in documented)
    }
    assert hidden == {"global"}


def test_the_schema_is_a_schema_and_takes_the_defaults() -> None:
    """The schema is good by its own standard, whatever tool reads it, and accepts the chart's defaults."""
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(yaml.safe_load(VALUES.read_text()))


def test_the_keys_of_the_contract_are_where_they_belong() -> None:
    """The documented settings stand at the top level of the values, with their defaults."""
    defaults = {row.key: row.default for row in rows()}
    assert defaults[f"{MAPPING}.configMapName"] == "topograph-nic-rails"
    assert defaults[f"{MAPPING}.gpuSource.gpuOperatorNamespace"] == "gpu-operator"
    assert defaults[f"{MAPPING}.gpuSource.daemonSet"] == "nvidia-device-plugin-daemonset"
    assert defaults["nodeMetadata.provider.name"] == "none"
