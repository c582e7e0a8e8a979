"""Scripted faults: which requests are hit, how often, and by what."""

from __future__ import annotations

from dataclasses import dataclass

from nicrails_faker.api.actions import Action, WatchAction
from nicrails_faker.api.requests import RequestInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Which requests are hit, and by what.

    Attributes:
        action: What happens to them.
        method: Only requests of this HTTP method.
        verb: Only requests of this verb: ``get``, ``list``, ``watch``, ``patch``, ….
        path: Only requests whose path begins so.
        times: How many requests are hit; None: all, until the fault is removed.
        skip: How many matching requests are let through first.
    """

    action: Action
    method: str | None = None
    verb: str | None = None
    path: str = "/"
    times: int | None = 1
    skip: int = 0

    def matches(self, request: RequestInfo) -> bool:
        """Whether the fault is for such requests."""
        return (
            self.method in {None, request.method}
            and self.verb in {None, request.verb}
            and request.path.startswith(self.path)
            and (request.verb == "watch" or not isinstance(self.action, WatchAction))
        )


class ActiveFault:
    """A fault that was added.

    Attributes:
        fault: What it is.
        hits: How many requests it has hit.
    """

    def __init__(self, fault: Fault, owner: Faults) -> None:
        self.fault = fault
        self.hits = 0
        self._skipped = 0
        self._owner = owner

    @property
    def spent(self) -> bool:
        """Whether it has hit as many requests as it should."""
        return self.fault.times is not None and self.hits >= self.fault.times

    def remove(self) -> None:
        """Let it strike no more; harmless if it is spent."""
        self._owner.discard(self)

    def strikes(self, request: RequestInfo) -> bool:
        """Whether it strikes this request, which is then counted."""
        if self.spent or not self.fault.matches(request):
            return False
        if self._skipped < self.fault.skip:
            self._skipped += 1
            return False
        self.hits += 1
        return True


class Faults:
    """The faults in force; of several for one request the one that was added first strikes."""

    def __init__(self) -> None:
        self._active: list[ActiveFault] = []

    def __len__(self) -> int:
        return len(self._active)

    def add(self, fault: Fault) -> ActiveFault:
        """Put a fault in force; what is returned counts and can remove it."""
        active = ActiveFault(fault, self)
        self._active.append(active)
        return active

    def discard(self, active: ActiveFault) -> None:
        """Take a fault out of force."""
        if active in self._active:
            self._active.remove(active)

    def clear(self) -> None:
        """Take all faults out of force."""
        self._active.clear()

    def strike(self, request: RequestInfo) -> Action | None:
        """What is to happen to this request, or None."""
        for active in tuple(self._active):
            if active.strikes(request):
                if active.spent:
                    self.discard(active)
                return active.fault.action
        return None
