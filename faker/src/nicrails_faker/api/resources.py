"""The table of resources that the embedded API serves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nicrails_faker.api import kinds
from nicrails_faker.api.schema import Struct
from nicrails_faker.api.status import Subject

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource in one version.

    Attributes:
        group: API group, empty for the core group.
        version: API version.
        plural: Its name in paths.
        kind: The kind of its objects.
        namespaced: Whether its objects live in namespaces.
        short_names: What kubectl calls it for short.
        status: Whether it has a ``status`` subresource.
        counts_generations: Whether a change of ``spec`` counts ``metadata.generation`` up.
        fields: What field selectors can ask for besides name and namespace: label → path in the object.
        shape: The fields of the object; a field that is not there is dropped with a warning. By default all are kept.
        verbs: What can be done with it.
    """

    group: str = ""
    version: str = "v1"
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    status: bool = False
    counts_generations: bool = False
    fields: Mapping[str, str] = field(default_factory=dict)
    shape: Struct = kinds.CUSTOM
    verbs: tuple[str, ...] = VERBS

    @property
    def api_version(self) -> str:
        """``v1`` or ``apps/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def identity(self) -> tuple[str, str]:
        """Group and plural: what tells resources apart."""
        return self.group, self.plural

    @property
    def subject(self) -> Subject:
        """What refusals about its objects name."""
        return Subject(group=self.group, resource=self.plural)

    @property
    def go_type(self) -> str:
        """The Go type of its objects inside the server, as a few messages show it."""
        package = self.group.partition(".")[0] if self.group else "core"
        return f"{package}.{self.kind}"


class Table:
    """Resources by the names that requests and objects give them."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self.resources = tuple(resources)
        self._by_plural = {(r.group, r.version, r.plural): r for r in self.resources}
        self._by_kind = {(r.api_version, r.kind): r for r in self.resources}

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource that a path names."""
        return self._by_plural.get((group, version, plural))

    def has_group(self, group: str) -> bool:
        """Whether there is anything in this API group."""
        return any(resource.group == group for resource in self.resources)

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource whose objects are of this kind."""
        return self._by_kind.get((api_version, kind))

    def named(self, api_version: str, plural: str) -> Resource:
        """The resource by ``apiVersion`` and plural.

        Raises:
            KeyError: There is none; the message lists those of the version.
        """
        group, _, version = api_version.rpartition("/")
        found = self.find(group, version, plural)
        if found is None:
            known = ", ".join(r.plural for r in self.resources if r.api_version == api_version)
            raise KeyError(f"no resource {plural!r} in {api_version!r}; it has {known or 'none'}")
        return found


def _same(*paths: str) -> dict[str, str]:
    return {path: path for path in paths}


_POD_FIELDS = _same(
    "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
    "status.phase", "status.podIP", "status.nominatedNodeName",
)  # fmt: skip
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_FIELDS = {
    **_same("reason", "type", "reportingComponent", *(f"involvedObject.{name}" for name in _INVOLVED)),
    "source": "source.component",
}

DEFAULT_RESOURCES = (
    Resource(
        plural="namespaces",
        kind="Namespace",
        namespaced=False,
        short_names=("ns",),
        status=True,
        fields={"status.phase": "status.phase", "name": "metadata.name"},
        shape=kinds.NAMESPACE,
        verbs=tuple(verb for verb in VERBS if verb != "deletecollection"),
    ),
    Resource(
        plural="nodes",
        kind="Node",
        namespaced=False,
        short_names=("no",),
        status=True,
        fields=_same("spec.unschedulable"),
        shape=kinds.NODE,
    ),
    Resource(
        plural="pods",
        kind="Pod",
        short_names=("po",),
        status=True,
        counts_generations=True,
        fields=_POD_FIELDS,
        shape=kinds.POD,
    ),
    Resource(plural="configmaps", kind="ConfigMap", short_names=("cm",), shape=kinds.CONFIG_MAP),
    Resource(plural="events", kind="Event", short_names=("ev",), fields=_EVENT_FIELDS, shape=kinds.EVENT),
    Resource(plural="serviceaccounts", kind="ServiceAccount", short_names=("sa",), shape=kinds.SERVICE_ACCOUNT),
    Resource(
        group="apps",
        plural="deployments",
        kind="Deployment",
        short_names=("deploy",),
        status=True,
        counts_generations=True,
        shape=kinds.DEPLOYMENT,
    ),
    Resource(
        group="apps",
        plural="daemonsets",
        kind="DaemonSet",
        short_names=("ds",),
        status=True,
        counts_generations=True,
        shape=kinds.DAEMON_SET,
    ),
)
"""What :class:`nicrails_faker.api.EmbeddedCluster` serves unless told otherwise."""
