"""Whose the ConfigMap is and what follows from it; decisions only, no I/O."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nicrails.kube import controller, is_observers
from nicrails.text import excerpt


class Action(enum.Enum):
    """What the observer does about the ConfigMap."""

    KEEP = "keep"
    """It is ours: use it."""
    CREATE = "create"
    """It is not there and should be."""
    WAIT = "wait"
    """Somebody else is about to remove it, or it may not be made now."""
    REFUSE = "refuse"
    """It is somebody else's: never touch it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The observer's own Deployment as it stands.

    Attributes:
        name: Its name.
        uid: Its UID; another one when it was created anew.
        terminating: Whether it is being deleted.
    """

    name: str
    uid: str
    terminating: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do, and why in one sentence for the operator; empty for KEEP and CREATE."""

    action: Action
    reason: str = ""


KEEP = Decision(action=Action.KEEP)
CREATE = Decision(action=Action.CREATE)


def decide(name: str, config_map: Mapping[str, Any] | None, deployment: str, owner: Owner | None) -> Decision:
    """What to do about the ConfigMap.

    The two must have been read in this order: an owner that was read first may be older than the ConfigMap.

    Args:
        name: The ConfigMap's name.
        config_map: Its ``metadata``, or None if it is not there.
        deployment: The name of the observer's Deployment.
        owner: That Deployment, or None if it is not there.
    """
    if config_map is not None:
        return _of_existing(name, config_map, deployment, owner)
    if owner is None:
        return _wait(
            f"Deployment {deployment} does not exist, so it can not own ConfigMap {name}; "
            "set DEPLOYMENT_NAME to the Deployment that runs this pod"
        )
    if owner.terminating:
        return _wait(f"Deployment {deployment} is being deleted, so ConfigMap {name} is not created")
    return CREATE


def _of_existing(name: str, metadata: Mapping[str, Any], deployment: str, owner: Owner | None) -> Decision:
    found = controller(metadata)
    if not is_observers(found, deployment):
        whose = f"is controlled by {found}" if found else "has no controller"
        return Decision(
            action=Action.REFUSE,
            reason=f"ConfigMap {name} {whose} and not by Deployment {deployment}, so it is left alone; "
            "move or delete it, or choose another name with nodeMetadata.plugins.gpuNicRailMapping.configMapName",
        )
    if metadata.get("deletionTimestamp"):
        finalizers = metadata.get("finalizers")
        held = f" (its finalizers: {excerpt(', '.join(map(str, finalizers)))})" if finalizers else ""
        return _wait(f"ConfigMap {name} is being deleted; it is created again when it is gone{held}")
    if owner is None:
        return _wait(
            f"ConfigMap {name} belongs to Deployment {deployment}, which does not exist any more; "
            "the garbage collector removes it"
        )
    if found is not None and found.uid != owner.uid:
        return _wait(
            f"ConfigMap {name} belongs to a former Deployment {deployment} (UID {excerpt(found.uid, 64)}, now "
            f"{owner.uid}); it is created again when the garbage collector has removed it"
        )
    return KEEP


def _wait(reason: str) -> Decision:
    return Decision(action=Action.WAIT, reason=reason)
