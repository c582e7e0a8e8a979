"""From an interface's name to the rail it is on: the settings ``interfaceRegex`` and ``railID``."""

from __future__ import annotations

import re
import unicodedata

import re2

from nicrails.record import RailId
from nicrails.text import excerpt

_MAX_LENGTH = 1024
_MAX_MEMORY_BYTES = 1 << 20
# Go takes these for the number of a group, never for its name.
_GROUP_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
_GROUP_NAME = re.compile(r"\(\?P?<([^>=!]*)>")
# \C matches a piece of a character; Go has no such thing.
_SINGLE_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")


class RailNameError(ValueError):
    """An interface that ``interfaceRegex`` selects does not get a usable rail ID from ``railID``.

    Attributes:
        interface: The interface.
    """

    def __init__(self, interface: str, rail_id: str, problem: str) -> None:
        super().__init__(f"railID {excerpt(rail_id, 80)!r} gives interface {excerpt(interface, 40)!r} {problem}")
        self.interface = interface


class RailNaming:
    """The rule that names the rail of an interface.

    The expression is RE2, as Go's ``regexp`` reads it: time and memory are bounded, and there is neither look-around nor
    a back-reference. It is searched, so it must be anchored to match whole names.
    """

    def __init__(self, interface_regex: str, rail_id: str) -> None:
        """Compile the rule.

        Args:
            interface_regex: RE2 expression that selects interfaces.
            rail_id: Template of the rail ID, expanded as Go's ``Regexp.Expand`` does it.

        Raises:
            ValueError: The expression is no RE2 expression, or the template is empty; one sentence.
        """
        if len(interface_regex) > _MAX_LENGTH:
            raise ValueError(f"interfaceRegex has more than {_MAX_LENGTH} characters")
        if not rail_id or len(rail_id) > _MAX_LENGTH:
            raise ValueError(f"railID must have 1 to {_MAX_LENGTH} characters")
        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MAX_MEMORY_BYTES
        if _SINGLE_BYTE.search(interface_regex):
            raise ValueError(r"interfaceRegex has \C, which Go's expressions do not know")
        try:
            self._pattern = re2.compile(interface_regex, options=options)
        except (re2.error, UnicodeEncodeError) as error:
            reason = error.args[0] if error.args else ""
            detail = excerpt(reason if isinstance(reason, (bytes, str)) else str(reason), 120)
            raise ValueError(
                f"interfaceRegex {excerpt(interface_regex, 80)!r} is no RE2 expression ({detail}); "
                "look-around and back-references do not exist there"
            ) from error
        names = _GROUP_NAME.findall(interface_regex)
        for name in names:
            # Go refuses the one, and which of two groups the other means depends on the version of RE2.
            if not name.isascii() or names.count(name) > 1:
                raise ValueError(f"interfaceRegex: the group name {excerpt(name, 40)!r} is not ASCII or stands twice")
        self._template = rail_id

    def match(self, interface: str) -> RailId | None:
        """The rail of an interface, or None if the expression does not match it, or its name is not UTF-8.

        Raises:
            RailNameError: It matches, but the template expands to nothing or to something that is no rail ID.
        """
        try:
            found = self._pattern.search(interface)
        except UnicodeEncodeError:
            return None
        if found is None:
            return None
        groups: dict[str, str] = {
            name: found.group(number) or ""
            for name, number in self._pattern.groupindex.items()
            if _GROUP_NUMBER.fullmatch(name) is None
        }
        groups.update((str(number), found.group(number) or "") for number in range(self._pattern.groups + 1))
        expanded = expand(self._template, groups)
        if not expanded:
            raise RailNameError(
                interface, self._template, "an empty rail ID; name a group that takes part in the match"
            )
        try:
            return RailId.parse(expanded)
        except ValueError as error:
            raise RailNameError(interface, self._template, f"a rail ID that is {error}") from error


def expand(template: str, groups: dict[str, str]) -> str:
    """Expand a template as Go's ``Regexp.Expand`` does it.

    ``$name`` takes the longest run of letters, digits and underscores; ``${name}`` ends itself; ``$$`` is a dollar sign;
    a ``$`` that begins none of these is copied. A name that no group has is empty, numbers with leading zeros included.
    Source: ``expand`` and ``extract`` in ``src/regexp/regexp.go`` of Go 1.26.

    Args:
        template: The template.
        groups: What each group matched, by name and by decimal number; empty if it took no part in the match.
    """
    out: list[str] = []
    while True:
        before, dollar, template = template.partition("$")
        out.append(before)
        if not dollar:
            return "".join(out)
        if template.startswith("$"):
            out.append("$")
            template = template[1:]
            continue
        start = 1 if template.startswith("{") else 0
        end = start
        while end < len(template) and _is_word(template[end]):
            end += 1
        if end == start or (start == 1 and template[end : end + 1] != "}"):
            out.append("$")
            continue
        out.append(groups.get(template[start:end], ""))
        template = template[end + start :]


def _is_word(char: str) -> bool:
    """Go's ``unicode.IsLetter``, ``unicode.IsDigit`` or an underscore."""
    return char == "_" or unicodedata.category(char) in {"Lu", "Ll", "Lt", "Lm", "Lo", "Nd"}
