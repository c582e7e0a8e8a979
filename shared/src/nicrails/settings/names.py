"""Forms that Kubernetes requires of names.

Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
"""

from __future__ import annotations

import re

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII)
_LABEL_ONLY = re.compile(_LABEL, re.ASCII)


def dns_name(value: str) -> str:
    """Check the name of a ConfigMap, DaemonSet or Node: a DNS subdomain of at most 253 characters.

    Raises:
        ValueError: It is none.
    """
    if len(value) > 253 or _SUBDOMAIN.fullmatch(value) is None:
        raise ValueError(
            f"expected a DNS subdomain name (lower case letters, digits, '-' and '.'), found {value[:80]!r}"
        )
    return value


def dns_label(value: str) -> str:
    """Check the name of a namespace: a DNS label of at most 63 characters.

    Raises:
        ValueError: It is none.
    """
    if len(value) > 63 or _LABEL_ONLY.fullmatch(value) is None:
        raise ValueError(f"expected a DNS label (at most 63 lower case letters, digits and '-'), found {value[:80]!r}")
    return value
