"""Field selectors, pure: text in, predicate out.

Source: k8s.io/apimachinery, pkg/fields/selector.go; the sentences are theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nicrails_faker.api.label_selectors import Predicate, SelectorError, everything
from nicrails_faker.api.resources import Resource

Json = dict[str, Any]

_SWITCHES = frozenset({"spec.unschedulable", "spec.hostNetwork"})


def parse(text: str, resource: Resource) -> Predicate:
    """A predicate on fields of an object; ``everything`` if the selector is empty.

    Raises:
        SelectorError: ``text`` is not a field selector, or asks for a field that the resource does not offer.
    """
    known = {"metadata.name": "metadata.name", **resource.fields}
    if resource.namespaced:
        known["metadata.namespace"] = "metadata.namespace"
    terms = [_term(term) for term in _split(text) if term]
    for label, _, _ in terms:
        if label not in known:
            listed = ", ".join(f'"{name}"' for name in known)
            specific = f"field label not supported: {label}"
            raise SelectorError(
                specific if resource.fields else f'"{label}" is not a known field selector: only {listed}'
            )
    if not terms:
        return everything

    def matches(document: Json) -> bool:
        return all((_field(document, known[label]) == value) is equal for label, equal, value in terms)

    return matches


def pinned_name(text: str) -> str:
    """The one name that a selector allows, as authorisation sees it; empty if it allows more."""
    try:
        terms = [_term(term) for term in _split(text) if term]
    except SelectorError:
        return ""
    return next((value for label, equal, value in terms if label == "metadata.name" and equal), "")


def _split(text: str) -> Iterator[str]:
    """The terms between commas that no backslash escapes."""
    for match in re.finditer(r"(?:\\.|[^,\\]|\\$)+", text, re.DOTALL):
        yield match.group()


def _term(term: str) -> tuple[str, bool, str]:
    match = re.match(r"((?:\\.|[^=!\\])*?)(!=|==|=)(.*)", term, re.DOTALL)
    if match is None:
        raise SelectorError(f"invalid selector: '{term}'; can't understand '{term}'")
    label, operator, value = match.groups()
    return label, operator != "!=", _unescaped(value)


def _unescaped(value: str) -> str:
    wrong = re.search(r"\\(?![\\,=]).?", re.sub(r"\\[\\,=]", "", value), re.DOTALL)
    if wrong:
        raise SelectorError(f"invalid field selector: invalid escape sequence: {wrong.group()}")
    return re.sub(r"\\([\\,=])", r"\1", value)


def _field(document: Json, path: str) -> str:
    value: Any = document
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if path in _SWITCHES:
        return "true" if value else "false"
    return "" if value is None else str(value)
