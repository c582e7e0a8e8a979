"""Which representation of an object an answer has: the whole object, or its metadata alone.

Source: k8s.io/apiserver, pkg/endpoints/handlers/negotiation and pkg/endpoints/handlers/response.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nicrails_faker.api import status
from nicrails_faker.api.resources import Resource
from nicrails_faker.api.store import Stored

Json = dict[str, Any]

_TYPES = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_STREAMS = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
_JSON = frozenset({"application/json", "*/*"})
_META_VERSIONS = ("v1", "v1beta1")
PARTIAL, PARTIAL_LIST = "PartialObjectMetadata", "PartialObjectMetadataList"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How objects are shown.

    Attributes:
        kind: Empty for whole objects, else :data:`PARTIAL` or :data:`PARTIAL_LIST`.
        version: The version of ``meta.k8s.io``.
    """

    kind: str = ""
    version: str = "v1"

    def encode(self, stored: Stored) -> bytes:
        """One object as JSON."""
        return stored.form(self.version, self._metadata) if self.kind else stored.encoded()

    def item(self, stored: Stored, resource: Resource) -> bytes:
        """One object as an item of a list, where whole objects do not repeat their kind."""
        data = self.encode(stored)
        if self.kind:
            return data
        head = f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'.encode()
        return b"{" + data.removeprefix(head)

    def list_head(self, resource: Resource) -> Json:
        """``kind`` and ``apiVersion`` of a list."""
        if self.kind:
            return {"kind": PARTIAL_LIST, "apiVersion": f"meta.k8s.io/{self.version}"}
        return {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}

    def object_head(self, resource: Resource) -> Json:
        """``kind`` and ``apiVersion`` of an object."""
        if self.kind:
            return {"kind": PARTIAL, "apiVersion": f"meta.k8s.io/{self.version}"}
        return {"kind": resource.kind, "apiVersion": resource.api_version}

    def _metadata(self, document: Json) -> Json:
        return {"kind": PARTIAL, "apiVersion": f"meta.k8s.io/{self.version}", "metadata": document["metadata"]}


WHOLE = Form()


def of_object(accept: str, resource: Resource) -> Form:
    """The form of an answer with one object.

    Raises:
        StatusError: 406; nothing that the client would take can be made.
    """
    form = _negotiate(accept, _TYPES)
    if form.kind == PARTIAL_LIST:
        problem = f"you requested {PARTIAL_LIST}, but the requested object is not a list (*{resource.go_type})"
        raise status.not_acceptable(problem)
    return form


def of_list(accept: str, resource: Resource) -> Form:
    """The form of an answer with a list.

    Raises:
        StatusError: 406.
    """
    form = _negotiate(accept, _TYPES)
    if form.kind == PARTIAL:
        problem = f"you requested {PARTIAL}, but the requested object is a list (*{resource.go_type}List)"
        raise status.not_acceptable(problem)
    return form


def of_watch(accept: str) -> Form:
    """The form of the objects of a watch.

    Raises:
        StatusError: 406.
    """
    return _negotiate(accept, f"{_TYPES}, {_STREAMS}")


def _negotiate(accept: str, types: str) -> Form:
    acceptable = [parameters for media, parameters in _clauses(accept or "*/*") if media in _JSON]
    if not acceptable:
        raise status.not_acceptable(f"406: Not Acceptable\n\nAvailable representations: {types}", {})
    for parameters in acceptable:
        kind, version = parameters.get("as", ""), parameters.get("v", "")
        if not kind:
            return WHOLE
        if kind in {PARTIAL, PARTIAL_LIST} and parameters.get("g") == "meta.k8s.io" and version in _META_VERSIONS:
            return Form(kind=kind, version=version)
    raise status.not_acceptable(f"only the following media types are accepted: {_TYPES}")


def _clauses(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Media types with their parameters, the most wanted first."""
    weighed: list[tuple[float, str, dict[str, str]]] = []
    for clause in accept.split(","):
        media, *given = (part.strip() for part in clause.split(";"))
        parameters = {name: value for name, _, value in (part.partition("=") for part in given)}
        try:
            weight = float(parameters.pop("q", "1"))
        except ValueError:
            weight = 1.0
        weighed.append((weight, media.lower(), parameters))
    for weight, media, parameters in sorted(weighed, key=lambda clause: -clause[0]):
        if weight > 0:
            yield media, parameters
