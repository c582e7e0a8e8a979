"""Documents of Nodes as a watch shows them: read once, and kept also where they can not be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from nicrails.kube import Collection
from nicrails.text import excerpt
from nicrails_faker.topologies.config_maps import TOPOLOGY_SELECTOR, Stored, TopologyError, config_map_name, stored
from nicrails_faker.topologies.store import TopologyStore
from nicrails_faker.working import Cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A ConfigMap that can not be read as the topology of a Node.

    Attributes:
        node: The Node's name, by that of the ConfigMap.
        resource_version: The version that can not be read.
        reason: Why, in one sentence.
    """

    node: str
    resource_version: str
    reason: str


Document: TypeAlias = Stored | Unreadable


def document_cache(changed: Callable[[str], None]) -> Cache[Document]:
    """A cache of documents by the Node's name."""
    return Cache(lambda item: item.node, changed, version=lambda item: item.resource_version)


def documents(
    store: TopologyStore, node: str | None = None, *, known: Mapping[str, Document] = MappingProxyType({})
) -> Collection[Document]:
    """The documents to follow.

    Args:
        store: Where they are.
        node: The Node whose document alone is followed; None follows all.
        known: Those that are known, by the Node's name; a text that is known is not read again.

    Raises:
        TopologyError: No ConfigMap can have the Node's name.
    """

    def extract(config_map: Mapping[str, Any]) -> Document:
        return read_document(store.name, config_map, known)

    if node is None:
        return Collection(path=store.path(), extract=extract, label_selector=TOPOLOGY_SELECTOR, metadata_only=False)
    selector = f"metadata.name={config_map_name(store.name, node)}"
    return Collection(path=store.path(), extract=extract, field_selector=selector, metadata_only=False)


def read_document(
    topology: str, config_map: Mapping[str, Any], known: Mapping[str, Document] = MappingProxyType({})
) -> Document:
    """The document in a ConfigMap.

    Args:
        topology: The name of the cluster's ConfigMap.
        config_map: As the API server gives it.
        known: Documents that are known, by the Node's name.
    """
    name = str(config_map["metadata"]["name"])
    node = name.removeprefix(f"{topology}-")
    before = known.get(node)
    try:
        found = stored(config_map, before if isinstance(before, Stored) else None)
    except TopologyError as error:
        reason = str(error)
    else:
        if found.node == node:
            return found
        reason = (
            f"ConfigMap {name} has the label node-name={excerpt(found.node, 80)}; correct it, or remove the ConfigMap"
        )
    return Unreadable(node=node, resource_version=str(config_map["metadata"]["resourceVersion"]), reason=reason)
