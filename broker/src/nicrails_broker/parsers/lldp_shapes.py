"""The shapes of the two JSON formats of lldpctl.

Source: ``src/client/json_writer.c`` and ``src/client/display.c`` of lldpd.
"""

from __future__ import annotations

from collections.abc import Mapping

from nicrails_broker.parsers import json_text
from nicrails_broker.parsers.errors import ParseError
from nicrails_broker.parsers.lldp_document import Document, Neighbor

_OWN_LAYOUT = '{\n  "lldp": {\n'


class Json0(Document):
    """``{"lldp": [{"interface": [{"name": …, "rid": …, "chassis": [{"id": [{…}]}], "port": [{"id": [{…}]}]}]}]}``."""

    source = "lldpctl -f json0"

    def neighbors(self, root: object) -> tuple[Neighbor, ...]:
        """All neighbours, in the order of the text.

        Raises:
            ParseError: The document has another shape.
        """
        fields = self.root(root)
        if isinstance(fields["lldp"], dict):
            raise self.error(
                ("lldp",), "this is the output of lldpctl -f json, in which neighbours can forge interfaces"
            )
        entries = self.interface_list(("lldp", 0), self.only(("lldp",), fields["lldp"], "lldp"))
        if not isinstance(entries, list):
            raise self.error(("lldp", 0, "interface"), "interface is not a list")
        return tuple(self._entry(("lldp", 0, "interface", index), entry) for index, entry in enumerate(entries))

    def _entry(self, at: json_text.Path, value: object) -> Neighbor:
        entry = self.mapping(at, value, "an interface")
        interface = self.check_interface((*at, "name"), self.field(at, entry, "name", "an interface"))
        self.check_rid(at, entry)
        self._id(at, entry, "port")
        return self.neighbor(interface, entry, self._id(at, entry, "chassis"))

    def _id(self, at: json_text.Path, entry: Mapping[str, object], part: str) -> Mapping[str, object]:
        inner = self.only((*at, part), self.field(at, entry, part, "an interface"), part)
        found = self.only((*at, part, 0, "id"), self.field((*at, part, 0), inner, "id", part), f"the id of a {part}")
        if not found.keys() >= {"type", "value"}:
            raise self.error((*at, part, 0, "id"), f"the id of a {part} has no type or no value")
        return found


class Json(Document):
    """``{"lldp": {"interface": …}}`` with one object ``{<name>: {…}}`` per neighbour, in a list if there are several."""

    source = "lldpctl -f json"

    def neighbors(self, root: object) -> tuple[Neighbor, ...]:
        """All neighbours, in the order of the text.

        Raises:
            ParseError: The document has another shape, or another layout than lldpd gives it.
        """
        fields = self.root(root)
        entries = self.interface_list(("lldp",), self.mapping(("lldp",), fields["lldp"], "lldp"))
        at: json_text.Path = ("lldp", "interface")
        if isinstance(entries, list):
            found = tuple(self._entry((*at, index), entry) for index, entry in enumerate(entries))
        else:
            found = (self._entry(at, entries),)
        stray = json_text.first_stray_line(self.text) if self.text.startswith(_OWN_LAYOUT) else None
        if stray is not None:
            raise ParseError(
                self.source,
                "not laid out as lldpd does it, so a neighbour may have written a part of it",
                line=stray,
                column=1,
                excerpt=self.text.split("\n")[stray - 1],
                remedy="use lldpctl -f json0",
            )
        return found

    def _entry(self, at: json_text.Path, value: object) -> Neighbor:
        item = self.mapping(at, value, "an interface")
        if len(item) != 1:
            raise self.error(at, "expected one interface per object", excerpt=", ".join(item))
        (name,) = item
        interface = self.check_interface(at, name)
        entry = self.mapping((*at, name), item[name], "an interface")
        self.check_rid((*at, name), entry)
        chassis = self._chassis((*at, name, "chassis"), self.field((*at, name), entry, "chassis", "an interface"))
        port = self.mapping((*at, name, "port"), self.field((*at, name), entry, "port", "an interface"), "port")
        if not _is_id(port.get("id")):
            raise self.error((*at, name, "port"), "a port without an id")
        return self.neighbor(interface, entry, chassis)

    def _chassis(self, at: json_text.Path, value: object) -> Mapping[str, object]:
        """The chassis ID: directly in a chassis without a name, else one level down, below the name."""
        chassis = self.mapping(at, value, "chassis")
        if not _is_id(chassis.get("id")):
            if len(chassis) != 1:
                raise self.error(at, "a chassis without an id, or several of them", excerpt=", ".join(chassis))
            (name,) = chassis
            at = (*at, name)
            chassis = self.mapping(at, chassis[name], "chassis")
        found = chassis.get("id")
        if not isinstance(found, dict) or not _is_id(found):
            raise self.error(at, "a chassis without an id")
        return found


def _is_id(value: object) -> bool:
    """Whether this is ``{"type": …, "value": …}`` rather than a chassis that is named ``id``."""
    return isinstance(value, dict) and value.keys() == {"type", "value"}
