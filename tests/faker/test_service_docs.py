"""What ``docs/mig.md`` and ``docs/from-fake-gpu-operator.md`` say of the services is so."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from prometheus_client import CollectorRegistry

from nicrails_faker import reporting
from nicrails_faker.fakenodes import app as nodes_app
from nicrails_faker.fakenodes import command as nodes_command
from nicrails_faker.fakenodes import metrics as nodes_metrics
from nicrails_faker.mig import read_cluster_topology
from nicrails_faker.mig.labels import is_feature_label
from nicrails_faker.migfaker import app as mig_app
from nicrails_faker.migfaker import command as mig_command
from nicrails_faker.migfaker import metrics as mig_metrics
from nicrails_faker.topologies import app as topology_app
from nicrails_faker.topologies import command as topology_command
from nicrails_faker.topologies import metrics as topology_metrics
from tests.cluster import test_faker_mig, test_faker_nodes
from tests.cluster.world import Json

_DOCS = Path(__file__).parents[2] / "docs"
PAGE = (_DOCS / "mig.md").read_text()
PEER = (_DOCS / "from-fake-gpu-operator.md").read_text()
CLUSTER = PAGE.partition("\n## On a cluster\n")[2].partition("\n## What is not faked\n")[0]
COMMANDS = {"topology": topology_command, "mig": mig_command, "nodes": nodes_command}


def _parser(command: ModuleType) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser


def _rows(heading: str) -> list[list[str]]:
    """The cells of the first table after a text."""
    lines = CLUSTER.partition(heading)[2].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|---"))
    rows = []
    for line in lines[start + 1 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def test_the_table_of_arguments_is_complete() -> None:
    """Each argument of the services is in the table with the services that have it, and no other is."""
    told: dict[str, set[str]] = {}
    for arguments, services, *_ in _rows("writes nothing where nothing differs."):
        for argument in re.findall(r"`(--[a-z-]+)`", arguments):
            told[argument] = set(COMMANDS) if services == "all" else set(re.findall(r"`([a-z]+)`", services))
    there: dict[str, set[str]] = {}
    for name, command in COMMANDS.items():
        for action in _parser(command)._actions:
            for option in action.option_strings:
                if option.startswith("--") and option != "--help":
                    there.setdefault(option, set()).add(name)
    assert told == there


@pytest.mark.parametrize(("name", "port"), [("topology", 8080), ("mig", 8081), ("nodes", 8082)])
def test_the_ports_are_those_of_the_page(name: str, port: int) -> None:
    """Each service listens by default where the page says."""
    assert _parser(COMMANDS[name]).get_default("port") == port
    assert f"`{name}` {port}" in CLUSTER


def test_defaults_are_those_of_the_page() -> None:
    """The defaults of the table are those of the arguments."""
    mig, nodes = _parser(mig_command), _parser(nodes_command)
    for value in (
        f"`{mig.get_default('plugin_selector')}`",
        f"`{nodes.get_default('fake_node_label')}`",
        f"`{mig.get_default('taken_within'):g}`",
    ):
        assert value in CLUSTER


def test_the_example_is_a_topology() -> None:
    """The ConfigMap of the page is one that the service reads."""
    (block,) = [block for block in re.findall(r"```yaml\n(.*?)```", CLUSTER, re.DOTALL) if "kind: ConfigMap" in block]
    document = yaml.safe_load(block)
    assert list(read_cluster_topology(document["data"]["topology.yml"]).pools) == ["default"]


@pytest.mark.parametrize(
    ("name", "duties"),
    [("topology", topology_app.DUTIES), ("mig", mig_app.DUTIES), ("nodes", nodes_app.DUTIES)],
)
def test_the_duties_are_those_of_the_page(name: str, duties: tuple[str, ...]) -> None:
    """Each duty of a service is in its row of the table, and no other."""
    row = next(row for row in _rows("it is told on the Node.") if row[0] == f"`{name}`")
    assert set(re.findall(r"`([a-z-]+)`", row[1])) == set(duties)


def test_the_metrics_are_those_of_the_page() -> None:
    """Each metric of the services is in the table, and no other."""
    registry = CollectorRegistry()
    reporting.Metrics(registry)
    for module in (topology_metrics, mig_metrics, nodes_metrics):
        module.Metrics(registry)
    there = {f"{family.name}_total" if family.type == "counter" else family.name for family in registry.collect()}
    assert set(re.findall(r"`(nicrails_faker_[a-z_]+)", CLUSTER)) == there


def test_the_permissions_are_those_that_the_tests_have() -> None:
    """The permissions of the table are those with which the services are tested on the real API server."""
    rows = {row[0].strip("`"): row[1:] for row in _rows("### Permissions")}
    for name, module in (("mig", test_faker_mig), ("nodes", test_faker_nodes)):
        here, everywhere = rows[name]
        assert _verbs(here.partition(";")[0]) == _granted(module.RULES)
        assert _verbs(everywhere) == _granted(module.CLUSTER_RULES)


def _verbs(cell: str) -> dict[str, set[str]]:
    parts = [part.partition(":") for part in cell.split(";")]
    return {resource.strip(): {verb.strip() for verb in verbs.split(",")} for resource, _, verbs in parts}


def _granted(rules: list[Json]) -> dict[str, set[str]]:
    return {resource: set(rule["verbs"]) for rule in rules for resource in rule["resources"]}


def test_labels_of_the_page_are_labels() -> None:
    """The labels of the table are recognized as those of GPU Feature Discovery."""
    found = []
    for labels, _ in _rows("all others are left alone."):
        names = re.findall(r"`([^`…]+)`", labels)
        prefix = ""
        for name in names:
            key = name.replace("<profile>", "1g.5gb")
            if key.startswith(".engines"):
                key, prefix = f"{prefix}{key}", f"{prefix}.engines"
            elif key.startswith("."):
                key = f"{prefix}{key}"
            else:
                prefix = key.rsplit(".", 1)[0]
            found.append(key)
            assert is_feature_label(key), key
    assert len(found) > 20


@pytest.mark.parametrize(
    "name",
    [
        "NODE_NAME", "TOPOLOGY_CM_NAME", "TOPOLOGY_CM_NAMESPACE", "FAKE_NODE", "FAKE_GPU_OPERATOR_NAMESPACE",
        "RESOURCE_RESERVATION_NAMESPACE", "PROMETHEUS_URL", "DISABLE_NODE_LABELING", "NVML_MOCK_IMAGE",
        "NODE_RESOURCE_TOPOLOGY_ENABLED", "POD_RESOURCES_ENABLED", "TOPOLOGY_MAX_EXPORT_INTERVAL",
    ],
)  # fmt: skip
def test_every_variable_of_the_peer_is_mapped(name: str) -> None:
    """Each environment variable of fake-gpu-operator has its row."""
    assert f"`{name}`" in PEER
