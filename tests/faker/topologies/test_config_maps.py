from __future__ import annotations

from typing import Any

import pytest

from nicrails_faker.mig import NodeTopology, write_topology
from nicrails_faker.topologies.config_maps import TopologyError, cluster_topology, config_map_name, stored

_TEXT = write_topology(NodeTopology.create("n", gpu_product="NVIDIA-A100-SXM4-40GB", gpu_count=2))


def _config_map(**changes: Any) -> dict[str, Any]:
    metadata = {
        "name": "topology-n",
        "uid": "u",
        "resourceVersion": "7",
        "labels": {"node-topology": "true", "node-name": "n"},
        "annotations": {"nicrails.io/node-uid": "of-the-node"},
    }
    return {"metadata": metadata, "data": {"topology.yml": _TEXT}} | changes


def test_reads_the_topology_with_what_a_write_needs() -> None:
    """Of a ConfigMap the topology, its version and UID, and the Node it was made for are read."""
    found = stored(_config_map())
    assert (found.node, found.node_uid, found.uid, found.resource_version) == ("n", "of-the-node", "u", "7")
    assert len(found.topology.gpus) == 2


@pytest.mark.parametrize(
    "labels",
    [None, {}, {"node-topology": "true"}, {"node-name": "n"}, {"node-topology": "yes", "node-name": "n"}],
)
def test_without_both_labels_it_is_another_ones(labels: dict[str, str] | None) -> None:
    """A ConfigMap that has not both labels is no topology, whatever its name and content are."""
    config_map = _config_map()
    config_map["metadata"]["labels"] = labels
    with pytest.raises(TopologyError, match="left alone"):
        stored(config_map)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (None, "has no topology.yml"),
        ({}, "has no topology.yml"),
        ({"topology.yml": "gpus: 3"}, "gpus"),
        ({"topology.yml": "a: &b 1"}, "anchors"),
    ],
)
def test_an_unreadable_document_is_told_with_the_name_of_its_configmap(data: object, says: str) -> None:
    """What is wrong with a document is told in a sentence that begins with the ConfigMap."""
    with pytest.raises(TopologyError, match=f"ConfigMap topology-n.*{says}"):
        stored(_config_map(data=data))
    if data != {"topology.yml": "gpus: 3"}:
        with pytest.raises(TopologyError, match=f"ConfigMap topology-n.*{says}"):
            cluster_topology(_config_map(data=data))


def test_the_name_is_the_peers() -> None:
    """The ConfigMap of a Node is called ``<topology>-<node>``."""
    assert config_map_name("topology", "ip-10-0-0-1.ec2.internal") == "topology-ip-10-0-0-1.ec2.internal"


@pytest.mark.parametrize(
    ("topology", "node", "says"),
    [
        ("topology", "Worker", "lower case"),
        ("topology", "worker_1", "lower case"),
        ("topology", "", "lower case"),
        ("topology", "a/../b", "lower case"),
        ("topology", "a\nb", "lower case"),
        ("topology", "worker-", "lower case"),
        ("topology", "n" * 64, "the label node-name takes 63"),
        ("t" * 200, "n" * 60, "name of 261 characters"),
    ],
)
def test_a_name_that_no_configmap_can_have_is_refused(topology: str, node: str, says: str) -> None:
    """A Node whose name makes no ConfigMap's name, or no label, is refused in a sentence that says why."""
    with pytest.raises(TopologyError, match=says):
        config_map_name(topology, node)
