"""What a request asks for, read from its line, and the log of requests.

Source: k8s.io/apiserver, pkg/endpoints/request/requestinfo.go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from nicrails_faker.api import field_selectors, options

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInfo:
    """One request, as authorisation and faults see it.

    Attributes:
        method: HTTP method.
        path: Path without the query, decoded.
        verb: ``get``, ``list``, ``watch``, ``create``, ``update``, ``patch``, ``delete`` or ``deletecollection``; for
            what is no resource, the method in lower case.
        group: API group, empty for the core group.
        version: API version; empty for what is no resource.
        namespace: Empty for what has none, and for all namespaces.
        resource: Its plural; empty for what is no resource.
        name: The object's name; of a list or watch, the one name that its field selector allows.
        subresource: ``status``, ``exec``, or empty.
        query: Query parameters; of one given twice the first.
        user: The user's name, once the token was looked at.
    """

    method: str
    path: str
    verb: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    user: str = ""

    def denial(self) -> str:
        """The sentence of the server's own authorisation about this request."""
        if not self.resource:
            return f'User "{self.user}" cannot {self.verb} path "{self.path}"'
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        scope = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        return f'User "{self.user}" cannot {self.verb} resource "{resource}" in API group "{self.group}" {scope}'


def parse(method: str, raw_path: str, query: Mapping[str, str]) -> RequestInfo:
    """Read a request line.

    Args:
        method: HTTP method.
        raw_path: The path as it was sent, percent-encoded.
        query: Query parameters.
    """
    path = unquote(raw_path)
    parts = [unquote(part) for part in raw_path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo(method=method, path=path, verb=method.lower(), query=query)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    resource, name, *more = (*rest, "", "")[: max(2, len(rest))]
    verb = _VERBS.get(method, "")
    if not name:
        verb = {"get": "list", "delete": "deletecollection"}.get(verb, verb)
        if verb == "list" and options.flag(query, "watch"):
            verb = "watch"
        if verb in {"list", "watch", "deletecollection"}:
            name = field_selectors.pinned_name(query.get("fieldSelector", ""))
    return RequestInfo(
        method=method,
        path=path,
        verb=verb,
        group=group,
        version=version,
        namespace=namespace,
        resource=resource,
        name=name,
        # What is deeper than a subresource is one that nothing has.
        subresource="/".join(more),
        query=query,
    )


@dataclass(slots=True, kw_only=True)
class LoggedRequest:
    """One request, for assertions; filled in while it is served.

    Attributes:
        info: What was asked for.
        headers: The request's headers.
        status: The answer's status; None until there is one.
        request_bytes: Length of the request's body.
        response_bytes: Length of the answer's body so far, without headers; of an exec, of all messages.
        finished: Whether the answer is complete, or the connection gone.
    """

    info: RequestInfo
    headers: Mapping[str, str]
    status: int | None = None
    request_bytes: int = 0
    response_bytes: int = 0
    finished: bool = False

    @property
    def method(self) -> str:
        """HTTP method."""
        return self.info.method

    @property
    def path(self) -> str:
        """Path without the query."""
        return self.info.path

    @property
    def verb(self) -> str:
        """As :attr:`RequestInfo.verb`."""
        return self.info.verb

    @property
    def query(self) -> Mapping[str, str]:
        """Query parameters."""
        return self.info.query


class RequestLog:
    """The latest requests, oldest first.

    Args:
        size: How many are kept.

    Attributes:
        total: How many there were.
    """

    def __init__(self, size: int) -> None:
        self.total = 0
        self._kept: deque[LoggedRequest] = deque(maxlen=size)

    def __iter__(self) -> Iterator[LoggedRequest]:
        return iter(tuple(self._kept))

    def __len__(self) -> int:
        return len(self._kept)

    def append(self, request: LoggedRequest) -> None:
        """Note a request."""
        self.total += 1
        self._kept.append(request)

    def clear(self) -> None:
        """Forget all requests, but not how many there were."""
        self._kept.clear()

    def select(self, *, method: str | None = None, verb: str | None = None, path: str = "/") -> list[LoggedRequest]:
        """The requests of this method and verb whose path begins with ``path``."""
        return [
            request
            for request in self._kept
            if method in {None, request.method} and verb in {None, request.verb} and request.path.startswith(path)
        ]
