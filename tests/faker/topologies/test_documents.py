from __future__ import annotations

from typing import Any

import pytest

from nicrails_faker.mig import NodeTopology, write_topology
from nicrails_faker.topologies.config_maps import Stored
from nicrails_faker.topologies.documents import Unreadable, read_document

_TEXT = write_topology(NodeTopology.create("n", gpu_product="NVIDIA-A100-SXM4-40GB", gpu_count=2))


def _config_map(text: str = _TEXT, *, node: str = "n", version: str = "7") -> dict[str, Any]:
    labels = {"node-topology": "true", "node-name": node}
    metadata = {"name": "topology-n", "uid": "u", "resourceVersion": version, "labels": labels}
    return {"metadata": metadata, "data": {"topology.yml": text}}


def test_a_document_is_known_by_the_name_of_its_configmap() -> None:
    """The document of a Node is read, with the Node's name that its ConfigMap's name ends with."""
    found = read_document("topology", _config_map())
    assert isinstance(found, Stored)
    assert (found.node, len(found.topology.gpus)) == ("n", 2)


@pytest.mark.parametrize(
    ("config_map", "says"),
    [
        (_config_map("gpus: 1"), "gpus"),
        (_config_map(node="m"), "has the label node-name=m"),
        (_config_map("{"), "not YAML"),
    ],
)
def test_what_can_not_be_read_is_kept_with_the_reason(config_map: dict[str, Any], says: str) -> None:
    """A ConfigMap that is no Node's topology is not an error of the watch: it is known with the reason."""
    found = read_document("topology", config_map)
    assert isinstance(found, Unreadable)
    assert (found.node, found.resource_version) == ("n", "7")
    assert found.reason.startswith("ConfigMap topology-n")
    assert says in found.reason


def test_a_known_text_is_not_read_again() -> None:
    """A new version with the same text has the same topology object; another text is read."""
    first = read_document("topology", _config_map())
    again = read_document("topology", _config_map(version="8"), {"n": first})
    assert isinstance(first, Stored)
    assert isinstance(again, Stored)
    assert again.topology is first.topology
    assert again.resource_version == "8"
    other = read_document("topology", _config_map("gpus: []\n", version="9"), {"n": again})
    assert isinstance(other, Stored)
    assert other.topology.gpus == ()
