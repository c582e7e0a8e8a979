"""What the server refuses about objects of a kind besides their metadata, pure: objects in, causes out.

ConfigMaps are checked as the server checks them. Of the other kinds only those rules are here that a client of this
project meets; see docs/embedded-cluster.md.

Source: pkg/apis/core/validation and pkg/apis/apps/validation of kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nicrails_faker.api import names
from nicrails_faker.api.status import Cause
from nicrails_faker.api.validation import forbidden, required, too_long, wrong

Json = dict[str, Any]

MAX_DATA = 1024 * 1024
"""Bytes of all values of a ConfigMap together; keys do not count."""

_IMMUTABLE = "field is immutable when `immutable` is set"
_POD_UPDATE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def create(kind: str, document: Json) -> Iterator[Cause]:
    """What is wrong with an object of this kind."""
    match kind:
        case "ConfigMap":
            yield from _config_map(document)
        case "Pod":
            yield from _containers(document.get("spec", {}), "spec")
        case "Deployment" | "DaemonSet":
            yield from _workload(document.get("spec", {}))
        case "Event":
            involved = document.get("involvedObject", {}).get("namespace", "")
            namespace = document["metadata"].get("namespace")
            # Events about what has no namespace, such as a Node, are in this one.
            if involved != namespace and (involved or namespace != "default"):
                yield wrong("involvedObject.namespace", involved, "does not match event.namespace")


def update(kind: str, before: Json, after: Json) -> Iterator[Cause]:
    """What an update of an object of this kind must not do but does."""
    yield from create(kind, after)
    match kind:
        case "ConfigMap" if before.get("immutable"):
            if not after.get("immutable"):
                yield forbidden("immutable", _IMMUTABLE)
            for name in ("data", "binaryData"):
                if before.get(name, {}) != after.get(name, {}):
                    yield forbidden(name, _IMMUTABLE)
        case "Pod":
            if _fixed(before.get("spec", {})) != _fixed(after.get("spec", {})):
                # The server goes on with a comparison of its internal structures.
                yield forbidden("spec", _POD_UPDATE)
        case "Deployment" | "DaemonSet":
            selector = after.get("spec", {}).get("selector")
            if before.get("spec", {}).get("selector") != selector:
                yield wrong("spec.selector", selector, "field is immutable")


def _config_map(document: Json) -> Iterator[Cause]:
    data, binary = document.get("data", {}), document.get("binaryData", {})
    size = 0
    for key, value in data.items():
        for problem in names.config_key(key):
            yield wrong(f"data[{key}]", key, problem)
        if key in binary:
            yield wrong(f"data[{key}]", key, "duplicate of key present in binaryData")
        size += len(value) if value.isascii() else len(value.encode())
    for key, value in binary.items():
        for problem in names.config_key(key):
            yield wrong(f"binaryData[{key}]", key, problem)
        size += len(value) // 4 * 3 - value.count("=")
    if size > MAX_DATA:
        # The server gives the field this name, for the object as a whole is too large.
        yield too_long("[]", MAX_DATA)


def _containers(spec: Json, path: str) -> Iterator[Cause]:
    containers = spec.get("containers", [])
    if not containers:
        yield required(f"{path}.containers")
    seen: set[str] = set()
    for index, container in enumerate(containers):
        at, name = f"{path}.containers[{index}]", container.get("name", "")
        if not name:
            yield required(f"{at}.name")
        for problem in names.dns_label(name) if name else ():
            yield wrong(f"{at}.name", name, problem)
        if name in seen:
            yield Cause(reason="FieldValueDuplicate", message=f'Duplicate value: "{name}"', field=f"{at}.name")
        seen.add(name)
        if not container.get("image"):
            yield required(f"{at}.image")


def _workload(spec: Json) -> Iterator[Cause]:
    selector, template = spec.get("selector"), spec.get("template", {})
    labels = template.get("metadata", {}).get("labels")
    if selector is None:
        yield required("spec.selector")
    wanted = (selector or {}).get("matchLabels", {})
    if selector is None or any((labels or {}).get(key) != value for key, value in wanted.items()):
        yield wrong("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    yield from _containers(template.get("spec", {}), "spec.template.spec")


def _fixed(spec: Json) -> Json:
    """The part of a pod's spec that never changes."""
    changeable = {"activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations"}
    fixed = {name: value for name, value in spec.items() if name not in changeable}
    for name in ("containers", "initContainers"):
        fixed[name] = [{key: value for key, value in item.items() if key != "image"} for item in spec.get(name, ())]
    return fixed
