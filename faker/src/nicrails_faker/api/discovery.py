"""The documents that say what an API server is and has."""

from __future__ import annotations

from typing import Any

from nicrails_faker.api.resources import Resource, Table

Json = dict[str, Any]

VERSION: Json = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.3+nicrails-embedded",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
"""What ``/version`` says; the build says that it is not a real one."""


def document(table: Table, path: str, address: str) -> Json | None:
    """The document at a path, or None if there is none.

    Args:
        table: The resources.
        path: The path, without a slash at the end.
        address: ``host:port`` of this server.
    """
    if path == "/version":
        return VERSION
    if path == "/api":
        addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}
    groups = {resource.group: resource.version for resource in table.resources if resource.group}
    if path == "/apis":
        listed = [_group(name, version) for name, version in groups.items()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
    match path.split("/")[1:]:
        case ["apis", group] if group in groups:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, groups[group])}
        case ["api", version]:
            return _resources(table, version)
        case ["apis", group, version]:
            return _resources(table, f"{group}/{version}")
        case _:
            return None


def _group(name: str, version: str) -> Json:
    entry = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [entry], "preferredVersion": entry}


def _resources(table: Table, api_version: str) -> Json | None:
    found = [resource for resource in table.resources if resource.api_version == api_version]
    if not found:
        return None
    entries = [entry for resource in found for entry in _entries(resource)]
    head = {"kind": "APIResourceList", "groupVersion": api_version}
    if "/" in api_version:
        head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version}
    return {**head, "resources": entries}


def _entries(resource: Resource) -> list[Json]:
    base = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
    }
    entries: list[Json] = [{**base, "verbs": list(resource.verbs), "shortNames": list(resource.short_names)}]
    if resource.status:
        verbs = ["get", "patch", "update"]
        entries.append({**base, "name": f"{resource.plural}/status", "singularName": "", "verbs": verbs})
    if resource.kind == "Pod":
        entries.append(
            {
                "name": "pods/exec",
                "singularName": "",
                "namespaced": True,
                "kind": "PodExecOptions",
                "verbs": ["create", "get"],
            }
        )
    return entries
