"""What the keeper sees of the cluster: of each object as little as it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nicrails_faker.topologies.config_maps import KWOK_ANNOTATION, NODE_LABEL, UID_ANNOTATION, texts

SETTINGS_ANNOTATION = "nicrails.io/cluster-settings"
"""Fingerprint of the cluster's settings that a Node's document has."""

PROFILE_LABEL = "fake-gpu-operator/gpu-profile"
PROFILE_PREFIX = "gpu-profile-"
PROFILE_KEY = "profile.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenNode:
    """A Node."""

    name: str
    uid: str
    labels: Mapping[str, str]
    kwok: str

    @classmethod
    def of(cls, node: Mapping[str, Any]) -> SeenNode:
        """Of a Node object or its metadata."""
        metadata = node["metadata"]
        return cls(
            name=str(metadata["name"]),
            uid=str(metadata["uid"]),
            labels=texts(metadata.get("labels")),
            kwok=texts(metadata.get("annotations")).get(KWOK_ANNOTATION, ""),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenDocument:
    """The metadata of the ConfigMap of a Node's topology.

    Attributes:
        name: The ConfigMap's.
        uid: The ConfigMap's.
        node: The Node's name, by the label.
        node_uid: The UID of the Node that it was made for, "" where nothing is said.
        settings: The fingerprint of the cluster's settings that it has, "" where nothing is said.
        kwok: The copied annotation of KWOK.
    """

    name: str
    uid: str
    node: str
    node_uid: str
    settings: str
    kwok: str

    @classmethod
    def of(cls, config_map: Mapping[str, Any]) -> SeenDocument:
        """Of a ConfigMap or its metadata."""
        metadata = config_map["metadata"]
        annotations = texts(metadata.get("annotations"))
        return cls(
            name=str(metadata["name"]),
            uid=str(metadata["uid"]),
            node=texts(metadata.get("labels")).get(NODE_LABEL, ""),
            node_uid=annotations.get(UID_ANNOTATION, ""),
            settings=annotations.get(SETTINGS_ANNOTATION, ""),
            kwok=annotations.get(KWOK_ANNOTATION, ""),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenText:
    """A ConfigMap and the one text in it that counts; None if it has none."""

    name: str
    text: str | None

    @classmethod
    def of(cls, config_map: Mapping[str, Any], key: str) -> SeenText:
        """Of a ConfigMap."""
        return cls(name=str(config_map["metadata"]["name"]), text=texts(config_map.get("data")).get(key))
