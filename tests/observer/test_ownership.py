from __future__ import annotations

from typing import Any

import pytest

from nicrails.kube import controller_reference
from nicrails_observer.ownership import Action, Owner, decide

OURS = {"uid": "c", "ownerReferences": [controller_reference("observer", "new")]}
OWNER = Owner(name="observer", uid="new", terminating=False)
TERMINATING = Owner(name="observer", uid="new", terminating=True)


def _owned(**changes: object) -> dict[str, Any]:
    return {"uid": "c", "ownerReferences": [controller_reference("observer", "new") | changes]}


@pytest.mark.parametrize(
    ("metadata", "owner", "action", "words"),
    [
        (None, OWNER, Action.CREATE, ""),
        (None, TERMINATING, Action.WAIT, "Deployment observer is being deleted"),
        (None, None, Action.WAIT, "set DEPLOYMENT_NAME"),
        (OURS, OWNER, Action.KEEP, ""),
        (OURS, TERMINATING, Action.KEEP, ""),
        (OURS, None, Action.WAIT, "does not exist any more"),
        (_owned(uid="old"), OWNER, Action.WAIT, "a former Deployment observer (UID old, now new)"),
        (OURS | {"deletionTimestamp": "now"}, OWNER, Action.WAIT, "is being deleted"),
        (OURS | {"deletionTimestamp": "now", "finalizers": ["a/b"]}, OWNER, Action.WAIT, "a/b"),
        ({"uid": "c"}, OWNER, Action.REFUSE, "has no controller"),
        ({"uid": "c"}, None, Action.REFUSE, "has no controller"),
        ({"uid": "c", "ownerReferences": None}, OWNER, Action.REFUSE, "has no controller"),
        (_owned(controller=False), OWNER, Action.REFUSE, "has no controller"),
        (_owned(name="other"), OWNER, Action.REFUSE, "controlled by Deployment other"),
        (_owned(kind="StatefulSet"), OWNER, Action.REFUSE, "StatefulSet"),
        (_owned(apiVersion="example.com/v1"), OWNER, Action.REFUSE, "example.com/v1"),
        (_owned(name="other") | {"deletionTimestamp": "now"}, OWNER, Action.REFUSE, "other"),
    ],
)
def test_decides_by_the_controller(
    metadata: dict[str, Any] | None, owner: Owner | None, action: Action, words: str
) -> None:
    """Only an object that this very Deployment controls is used, nothing foreign is touched, and the reason says what to do."""
    decision = decide("cm", metadata, "observer", owner)
    assert decision.action is action
    assert words in decision.reason
    assert bool(decision.reason) == (action in (Action.WAIT, Action.REFUSE))
