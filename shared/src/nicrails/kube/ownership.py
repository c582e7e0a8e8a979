"""Whose the shared ConfigMap is: only the one that the observer's Deployment controls is read, written or removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nicrails.text import excerpt


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerReference:
    """An entry of ``metadata.ownerReferences``."""

    api_version: str
    kind: str
    name: str
    uid: str

    def __str__(self) -> str:
        return excerpt(f"{self.kind} {self.name} ({self.api_version}, UID {self.uid})")


def controller(metadata: Mapping[str, Any]) -> OwnerReference | None:
    """The one owner with ``controller: true``, or None.

    Args:
        metadata: The ``metadata`` of an object.
    """
    references = metadata.get("ownerReferences")
    for reference in references if isinstance(references, list) else ():
        if isinstance(reference, dict) and reference.get("controller") is True:
            return OwnerReference(
                api_version=str(reference.get("apiVersion", "")),
                kind=str(reference.get("kind", "")),
                name=str(reference.get("name", "")),
                uid=str(reference.get("uid", "")),
            )
    return None


def is_observers(owner: OwnerReference | None, deployment: str) -> bool:
    """Whether an owner is the observer's Deployment, by its name; its UID changes when it is created anew.

    Args:
        owner: The controller of an object.
        deployment: The name of the observer's Deployment, in the object's own namespace.
    """
    return owner is not None and (owner.api_version, owner.kind, owner.name) == ("apps/v1", "Deployment", deployment)


def controller_reference(deployment: str, uid: str) -> dict[str, Any]:
    """The owner reference that the observer puts on the ConfigMap.

    Without ``blockOwnerDeletion``: that would need permission on the Deployment's finalizers where
    OwnerReferencesPermissionEnforcement is on.
    """
    return {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment, "uid": uid, "controller": True}
