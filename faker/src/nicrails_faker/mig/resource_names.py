"""Which names resources of a Node may have."""

from __future__ import annotations

import re

_NAME = re.compile(
    r"(?=[^/]{1,244}/)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
    r"/[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?",
    re.ASCII,
)
_OF_KUBERNETES = "kubernetes.io/"


def is_extended_resource(name: str) -> bool:
    """Whether it is the name of an extended resource; ``cpu`` and the names of Kubernetes itself are none."""
    return _NAME.fullmatch(name) is not None and _OF_KUBERNETES not in name
