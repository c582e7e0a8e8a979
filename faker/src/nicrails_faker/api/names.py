"""The forms of names, labels and keys, pure: text in, problems out.

Source: k8s.io/apimachinery, pkg/api/validate/content and pkg/util/validation; the sentences are theirs.
"""

from __future__ import annotations

import functools
import re

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_QUALIFIED})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"

_SUBDOMAIN_PROBLEM = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    f" end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_LABEL_PROBLEM = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    f" an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_QUALIFIED_PROBLEM = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    f" (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)
_LABEL_VALUE_PROBLEM = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    f" '{_LABEL_VALUE}')"
)
_CONFIG_KEY_PROBLEM = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or"
    f" 'key-name', regex used for validation is '{_CONFIG_KEY}')"
)


def subdomain(text: str) -> list[str]:
    """Problems of a DNS subdomain, the form of most names."""
    return _problems(text, 253, _SUBDOMAIN, _SUBDOMAIN_PROBLEM)


def dns_label(text: str) -> list[str]:
    """Problems of a DNS label, the form of a container's name."""
    return _problems(text, 63, _LABEL, _LABEL_PROBLEM)


def namespace(text: str) -> list[str]:
    """Problems of a namespace's name, a DNS label."""
    return ["must not contain dots"] if "." in text else dns_label(text)


def qualified_name(text: str) -> list[str]:
    """Problems of a label's or annotation's key."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        form = f"a valid label key {_QUALIFIED_PROBLEM} with an optional DNS subdomain prefix and '/'"
        return [f"{form} (e.g. 'example.com/MyName')"]
    problems = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        problems += [
            f"prefix part {problem}" for problem in _problems(prefix, 253, _SUBDOMAIN, _SUBDOMAIN_PROBLEM, "bytes")
        ]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > 63:
        problems.append("name part must be no more than 63 bytes")
    if re.fullmatch(_QUALIFIED, name, re.ASCII) is None:
        problems.append(f"name part {_QUALIFIED_PROBLEM}")
    return problems


def label_value(text: str) -> list[str]:
    """Problems of a label's value."""
    return _problems(text, 63, _LABEL_VALUE, _LABEL_VALUE_PROBLEM, "bytes")


@functools.lru_cache(maxsize=65_536)
def config_key(text: str) -> tuple[str, ...]:
    """Problems of a ConfigMap's key; remembered, for a large ConfigMap is checked at every change."""
    problems = []
    if len(text) > 253:
        problems.append("must be no more than 253 characters")
    if re.fullmatch(_CONFIG_KEY, text, re.ASCII) is None:
        problems.append(_CONFIG_KEY_PROBLEM)
    elif text in {".", ".."}:
        problems.append(f"must not be '{text}'")
    elif text.startswith(".."):
        problems.append("must not start with '..'")
    return tuple(problems)


def _problems(text: str, limit: int, form: str, problem: str, unit: str = "characters") -> list[str]:
    problems = []
    if len(text) > limit:
        problems.append(f"must be no more than {limit} {unit}")
    if re.fullmatch(form, text, re.ASCII) is None:
        problems.append(problem)
    return problems
