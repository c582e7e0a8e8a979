"""What happens in the broker, as records; metrics and the log are two sinks of them."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from nicrails_broker.failures import Step


class Found(enum.StrEnum):
    """The result of looking at a source."""

    FOUND = "found"
    NOTHING = "nothing"
    """It could look, and there is nothing: a Node without rails, or without GPUs."""
    FAILED = "failed"
    DISABLED = "disabled"
    """The settings say not to look."""


class Publication(enum.StrEnum):
    """The result of bringing the record to its place."""

    WRITTEN = "written"
    REPEATED = "repeated"
    """The same record was sent again, since the object was written by others and may have lost it."""
    REMOVED = "removed"
    UNCHANGED = "unchanged"
    """Nothing was sent."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLooked:
    """A source was looked at.

    Attributes:
        kind: ``rails``, ``gpus`` or ``chassis``.
        source: Its name, such as ``host-lldp``.
        found: With what result.
        seconds: How long it took.
    """

    kind: str
    source: str
    found: Found
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutNeighbor:
    """The interfaces that the settings select and that have no LLDP neighbour: a cable or lldpd fault."""

    interfaces: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandWarned:
    """A command succeeded and complained on standard error."""

    command: str
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandHung:
    """A command in a container did not end in time; its process may still be there."""

    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The record was brought to its place, or is still there.

    Attributes:
        result: What was done.
        size: Bytes of the record, 0 for none.
        rails: Number of rails.
        nics: Number of NICs.
        gpus: Number of GPUs.
    """

    result: Publication
    size: int
    rails: int
    nics: int
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotated:
    """The Node has the annotation; ``changed`` if it had another or none before."""

    value: str
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A step failed; it is tried again after a pause of that many seconds."""

    duty: str
    step: Step
    reason: str
    pause: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A duty is done; ``recovered`` if it was not before."""

    duty: str
    recovered: bool


Event = SourceLooked | WithoutNeighbor | CommandWarned | CommandHung | Published | Annotated | Failed | Done
Emit = Callable[[Event], None]
