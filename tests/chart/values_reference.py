"""The reference of the chart's values in ``docs/values.md``, made from the chart: ``python -m tests.chart.values_reference``.

A key's meaning is the comment above it in ``values.yaml`` that begins with ``# --``, its default is what stands there, and
what is allowed comes from ``values.schema.json``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from tests.chart.helm import CHART

VALUES = CHART / "values.yaml"
SCHEMA = CHART / "values.schema.json"
DOCUMENT = CHART.parent.parent / "docs" / "values.md"

_HEAD = """# Values of the chart

Made from `helm/nicrails/values.yaml` and `values.schema.json` by `python -m tests.chart.values_reference > docs/values.md`. Unknown keys and values of another kind are refused before anything is installed.
`""` is *not set*. A duration is `5m`, `90s`, `1h30m`, `250ms` or a number of seconds. How to install: [installation](installation.md).
"""
_NAMED = {
    "duration": "duration, or 0",
    "positiveDuration": "duration",
    "dnsName": "DNS name",
    "dnsLabel": "DNS label",
    "labelOrNothing": "DNS label",
    "absolutePath": "absolute path",
    "strings": "strings by name",
    "regex": "RE2 expression",
    "railSourceName": "`host-lldp`",
    "resources": "resources of a container",
    "tolerations": "tolerations of a pod",
    "affinity": "affinity of a pod",
    "priorityClassName": "name",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One value.

    Attributes:
        key: Its dotted path.
        default: As in ``values.yaml``.
        allowed: What the schema allows, in words.
        meaning: The comment.
    """

    key: str
    default: Any
    allowed: str
    meaning: str


def rows() -> Iterator[Row]:
    """All documented values, in the file's order.

    Raises:
        ValueError: A value has no comment.
    """
    text = VALUES.read_text()
    schema = json.loads(SCHEMA.read_text())
    yield from _below(yaml.compose(text, Loader=yaml.SafeLoader), text.splitlines(), schema, schema, "")


def _below(node: Any, lines: Sequence[str], schema: Any, root: Any, prefix: str) -> Iterator[Row]:
    for key_node, value_node in node.value:
        key = prefix + key_node.value
        below = _resolved(schema["properties"][key_node.value], root)
        line = key_node.start_mark.line
        comment = lines[line - 1].strip() if line else ""
        if comment.startswith("# -- "):
            document = yaml.safe_load(yaml.serialize(value_node))
            allowed = _allowed(schema["properties"][key_node.value], root)
            yield Row(key=key, default=document, allowed=allowed, meaning=comment.removeprefix("# -- "))
        elif isinstance(value_node, yaml.MappingNode) and value_node.value:
            yield from _below(value_node, lines, below, root, f"{key}.")
        else:
            raise ValueError(f"{key} has no comment that begins with `# --` in {VALUES.name}, line {line + 1}")


def _resolved(schema: Any, root: Any) -> Any:
    reference = schema.get("$ref")
    return root["$defs"][reference.rpartition("/")[2]] if reference else schema


def _allowed(schema: Any, root: Any) -> str:
    """In a few words, what a value may be."""
    if name := schema.get("$ref", "").rpartition("/")[2]:
        return _NAMED[name] if name in _NAMED else _allowed(root["$defs"][name], root)
    if "enum" in schema:
        return ", ".join(f"`{choice}`" for choice in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_allowed(choice, root) for choice in schema["anyOf"])
    kind = schema["type"]
    if isinstance(kind, list):
        kind = next(name for name in kind if name != "null")
    if kind == "array":
        items = schema["items"]
        return "list" if "$ref" in items or items.get("type") == "object" else f"list of {_allowed(items, root)}"
    word = {
        "integer": "integer",
        "number": "number",
        "boolean": "`true`, `false`",
        "string": "string",
        "object": "mapping",
    }[kind]
    if word == "string" and "%" in schema.get("pattern", ""):
        word = "percentage"
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None and high < 2**31 - 1:
        return f"{word}, {low} to {high}"
    return f"{word}, {low} or more" if low is not None else word


def document() -> str:
    """The whole page."""
    lines = [_HEAD]
    section = None
    for row in rows():
        top = row.key.partition(".")[0] if "." in row.key else "general"
        if top != section:
            section = top
            lines += [f"## {section}\n" if section == "general" else f"## `{section}`\n"]
            lines += ["| key | default | allowed | meaning |", "|---|---|---|---|"]
        elif lines[-1] == "":
            lines.pop()
        default = json.dumps(row.default, separators=(", ", ": "))
        lines += [f"| `{row.key}` | `{default}` | {_cell(row.allowed)} | {_cell(row.meaning)} |", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(document())
