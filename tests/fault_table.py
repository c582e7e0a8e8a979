"""The table of faults in ``docs/faults.md``, made from the tests: ``python -m tests.fault_table > docs/faults.md``.

A test that proves a row carries ``@pytest.mark.fault("<row>")``; its docstring is the promise. What it runs on is read
from where it stands and from its ``needs`` marks.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parent

ROWS: Mapping[str, str] = {
    "F1": "the API server is down, refuses connections, or its name does not resolve",
    "F2": "429 as plain text with Retry-After",
    "F3": "500, 502, 503, 504, HTML bodies",
    "F4": "401",
    "F5": "403",
    "F6": "the token is rotated, its file is briefly missing, a newline at its end",
    "F7": "the certificate authority is rotated",
    "F8": "a half-open TCP connection",
    "F9": "the clock is set by hours",
    "F10": "SIGTERM during back-off, exec or patch",
    "F11": "the event loop stalls",
    "F12": "proxy variables in the environment",
    "F13": "the port is taken",
    "F14": "a flood of equal errors",
    "B1": "the ConfigMap is absent",
    "B2": "its data is absent or null",
    "B3": "a permanent refusal: immutable, too large, an impossible key",
    "B4": "the ConfigMap is being deleted, or was deleted by hand",
    "B5": "exec: no pod, two pods, another Node's, pending, terminating, restarting, not ready",
    "B6": "exec: non-zero, no status, truncated, hanging, warnings, success with half the text",
    "B7": "the kubelet is down; a container's name is missing",
    "B8": "the GPU Operator is not installed yet, or its pod is being upgraded",
    "B9": "lldpd is down, its socket is stale, it shows 0, 1 or n interfaces",
    "B10": "an unknown path class; a rail without a NIC",
    "B11": "the Node is made anew while the pod lives",
    "B12": "two brokers for one Node",
    "B13": "thousands of brokers start together",
    "O1": "a ConfigMap of the same name that is somebody else's",
    "O2": "a ConfigMap of our Deployment's former UID",
    "O3": "409 on create",
    "O4": "the ConfigMap is deleted by hand",
    "O5": "the Deployment is being deleted",
    "O6": "the namespace is terminating",
    "O7": "a Node is deleted while no observer runs",
    "O8": "a Node is deleted and made anew at once",
    "O9": "an unreadable record, an unknown schemaVersion, no nodeUID",
    "O10": "the list of Nodes comes back empty or partial",
    "O11": "410 for a page of the list",
    "O12": "the watch is cut in an event, sends unknown types, errors, endless lines",
    "O13": "the API server restarts",
    "O14": "422 on a batch of removals",
    "O15": "two observers at once",
    "O16": "1,000 Nodes are gone at once",
    "O17": "the ConfigMap is nearly full",
}

_NEEDS = {"control-plane": "real control plane", "lldpd": "real lldpd", "garbage-collector": "real garbage collector"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A test that proves rows."""

    rows: tuple[str, ...]
    file: str
    name: str
    promise: str
    level: str


def proofs() -> Iterator[Proof]:
    """All of them, in the order of the files."""
    for path in sorted(TESTS.rglob("test_*.py")):
        module = ast.parse(path.read_text())
        shared = [
            needs for node in module.body if isinstance(node, ast.Assign) for needs in _marks(node.value, "needs")
        ]
        for node in ast.walk(module):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
                rows = [row for mark in node.decorator_list for row in _marks(mark, "fault")]
                needs = shared + [need for mark in node.decorator_list for need in _marks(mark, "needs")]
                if rows:
                    yield Proof(
                        rows=tuple(rows),
                        file=path.relative_to(TESTS).as_posix(),
                        name=node.name,
                        promise=_promise(ast.get_docstring(node) or ""),
                        level=_level(path, needs, module),
                    )


def table() -> str:
    """The document."""
    by_row: dict[str, list[Proof]] = {row: [] for row in ROWS}
    for proof in proofs():
        for row in proof.rows:
            by_row[row].append(proof)
    lines = [
        "# Faults and what is proven about them",
        "",
        "Made from the tests by `python -m tests.fault_table`. F: both services, B: the broker, O: the observer. *Real kubelet*: the chart's pods on two real",
        "Nodes, with real control plane and lldpd. At the other levels the exec of a pod is answered by the test harness, which plays the kubelet.",
        "",
        "| row | fault | proven on | promise (test) |",
        "|---|---|---|---|",
    ]
    for row, fault in ROWS.items():
        for number, proof in enumerate(by_row[row]):
            head = f"{row} | {fault}" if number == 0 else " | "
            lines.append(f"| {head} | {proof.level} | {proof.promise} (`{proof.file}::{proof.name}`) |")
    return "\n".join(lines) + "\n"


def _marks(node: ast.expr, name: str) -> Iterator[str]:
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == name:
            yield from (str(argument.value) for argument in call.args if isinstance(argument, ast.Constant))


def _promise(docstring: str) -> str:
    text = " ".join(docstring.split("\n\n", maxsplit=1)[0].split())
    return re.sub(r"^(?:[FBO]\d+(?:, )?)+: ", "", text).replace("|", "\\|").rstrip(".")


def _level(path: Path, needs: list[str], module: ast.Module) -> str:
    if path.is_relative_to(TESTS / "e2e"):
        return "real kubelet"
    real = [_NEEDS[need] for need in _NEEDS if need in needs]
    if real:
        return ", ".join(real)
    imports = {node.module for node in ast.walk(module) if isinstance(node, ast.ImportFrom)}
    return "embedded API" if "nicrails_faker.api" in imports else "parts"


if __name__ == "__main__":
    sys.stdout.write(table())
