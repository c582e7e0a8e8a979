"""What the two JSON formats of lldpctl have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from nicrails_broker.parsers import json_text
from nicrails_broker.parsers.errors import ParseError

_MAX_INTERFACE_BYTES = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbor:
    """One neighbour of one interface; an interface may have several.

    Attributes:
        interface: The host's interface.
        chassis_id_subtype: What the neighbour's chassis ID is, such as ``mac``; None if it is not given as text.
        chassis_id: The neighbour's chassis ID; None if it is not given as text.
        via: The protocol, such as ``LLDP`` or ``CDPv2``; None if it is not given as text.
    """

    interface: str
    chassis_id_subtype: str | None
    chassis_id: str | None
    via: str | None


def is_interface_name(name: str) -> bool:
    """Whether Linux lets an interface have that name, and every byte of it was UTF-8.

    Source: ``dev_valid_name`` in ``net/core/dev.c`` of the kernel; ``lldpctl`` prints no others.
    """
    return (
        name.isprintable()
        and 0 < len(name.encode()) <= _MAX_INTERFACE_BYTES
        and name not in {".", ".."}
        and not any(char in "/:\ufffd" or char.isspace() for char in name)
    )


@dataclass(frozen=True, slots=True)
class Document:
    """A document whose errors name the place in its text.

    Attributes:
        text: The document.
        source: The command that prints such documents.
    """

    text: str

    source: ClassVar[str]

    def error(self, at: json_text.Path, problem: str, *, excerpt: str | None = None) -> ParseError:
        """The refusal of what stands at a place; the excerpt is the text there unless another is given."""
        line, column = json_text.locate(self.text, at)
        if excerpt is None:
            excerpt = self.text.split("\n")[line - 1][column - 1 :]
        return ParseError(self.source, problem, line=line, column=column, excerpt=excerpt)

    def root(self, value: object) -> Mapping[str, object]:
        """The outermost object, which has the key ``lldp`` only."""
        fields = self.mapping((), value, "the output")
        if fields.keys() != {"lldp"}:
            raise self.error((), "expected an object with nothing but lldp")
        return fields

    def mapping(self, at: json_text.Path, value: object, what: str) -> Mapping[str, object]:
        """The value, which must be an object."""
        if not isinstance(value, dict):
            raise self.error(at, f"{what} is not an object")
        return value

    def only(self, at: json_text.Path, value: object, what: str) -> Mapping[str, object]:
        """The object in a list of one."""
        if not isinstance(value, list) or len(value) != 1:
            raise self.error(at, f"{what} is not a list of one object")
        return self.mapping((*at, 0), value[0], what)

    def field(self, at: json_text.Path, fields: Mapping[str, object], name: str, what: str) -> object:
        """A member that must be there."""
        if name not in fields:
            raise self.error(at, f"{what} has no {name}")
        return fields[name]

    def interface_list(self, at: json_text.Path, fields: Mapping[str, object]) -> object:
        """What stands below ``interface``; an empty list where that is missing altogether."""
        if not fields:
            return []
        if fields.keys() != {"interface"}:
            raise self.error(at, "expected an object with nothing but interface", excerpt=", ".join(fields))
        return fields["interface"]

    def check_interface(self, at: json_text.Path, name: object) -> str:
        """The name of an interface."""
        if isinstance(name, bool):
            raise self.error(
                at, "an interface named on, off, yes or no cannot be told apart in this format, rename it on the host"
            )
        if not isinstance(name, str) or not is_interface_name(name):
            raise self.error(at, "not the name of a network interface")
        return name

    def check_rid(self, at: json_text.Path, entry: Mapping[str, object]) -> None:
        """Refuse an interface that is listed for itself and not for a neighbour."""
        if not isinstance(entry.get("rid"), str):
            raise self.error(
                at,
                "an interface without the rid of a neighbour, so this is not the output of lldpctl without a command",
            )

    def neighbor(self, interface: str, entry: Mapping[str, object], chassis_id: Mapping[str, object]) -> Neighbor:
        """The record of a checked entry."""
        return Neighbor(
            interface=interface,
            chassis_id_subtype=_text(chassis_id.get("type")),
            chassis_id=_text(chassis_id.get("value")),
            via=_text(entry.get("via")),
        )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
