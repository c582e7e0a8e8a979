"""JSON as Go reads it: what it forgives, and what it says about the rest.

Go takes text that is not UTF-8 and lone surrogates (both become U+FFFD) and integers of any length, which a strict
parser refuses; and the server passes its decoder's sentence about malformed text on to the client.

Source: encoding/json, scanner.go and decode.go.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import orjson

_ESCAPES = frozenset('"\\/bfnrtu')
_SPACE = frozenset(" \t\r\n")
_GO_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip
_TYPE_META = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
_LITERALS = {"t": "true", "f": "false", "n": "null"}
_SURROGATES = re.compile("[\ud800-\udfff]")


class JsonError(ValueError):
    """The text is not JSON; the message is the sentence of Go's decoder."""


def loads(body: bytes) -> Any:  # noqa: ANN401 - JSON
    """Read JSON.

    Raises:
        JsonError: It is malformed.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return _lenient(body)


def type_name(value: object) -> str:
    """What Go's decoder calls a value that has another type than its field."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
        case None:
            return "null"
        case _:
            return "object"


def type_problem(value: object) -> str:
    """Why a value can not be an object with kind and version; empty if it can."""
    if value is None:
        return ""
    if not isinstance(value, dict):
        return f"json: cannot unmarshal {type_name(value)} into Go value of type {_TYPE_META}"
    for name in ("apiVersion", "kind"):
        if not isinstance(value.get(name, ""), (str, type(None))):
            return f"json: cannot unmarshal {type_name(value[name])} into Go struct field .{name} of type string"
    return ""


def quoted(text: str) -> str:
    """Text in double quotes, as Go's ``%q`` shows it."""
    return f'"{"".join(map(_quoted_character, text))}"'


def _quoted_character(character: str) -> str:
    code = ord(character)
    if character in _GO_ESCAPES:
        return _GO_ESCAPES[character]
    if character.isprintable():
        return character
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shown(value: object) -> str:
    """A document inside a sentence: compact JSON in double quotes."""
    return quoted(orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode())


def summary(body: bytes, length: int = 30) -> str:
    """The beginning of a body that could not be decoded, as the server shows it."""
    if not body:
        return "<empty>"
    rest = " ..." if len(body) > length else ""
    if body.startswith(b"{"):
        return body[:length].decode(errors="replace") + rest
    return body[:length].hex() + rest


def _lenient(body: bytes) -> Any:  # noqa: ANN401 - JSON
    try:
        value = json.loads(body.decode(errors="replace"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as exc:
        # Go looks at bytes, and shows one as the character of that number.
        raise JsonError(_Scanner(body.decode("latin-1")).problem()) from exc
    return _without_surrogates(value)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _without_surrogates(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    return value


class _Scanner:
    """Finds the first character that Go's scanner would object to; used on text that is known to be malformed."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def problem(self) -> str:
        try:
            self._value()
            self._space()
            if self._at < len(self._text):
                self._fail("after top-level value")
        except JsonError as exc:
            return str(exc)
        except RecursionError:
            return "exceeded max depth"
        # A form that this scanner takes and the strict parser does not, such as a number of a million digits.
        return "invalid number"

    def _fail(self, where: str) -> NoReturn:
        if self._at >= len(self._text):
            raise JsonError("unexpected end of JSON input")
        character = self._text[self._at]
        name = {"'": "'\\''", '"': "'\"'"}.get(character) or f"'{quoted(character)[1:-1]}'"
        raise JsonError(f"invalid character {name} {where}")

    def _peek(self) -> str:
        return self._text[self._at] if self._at < len(self._text) else ""

    def _space(self) -> None:
        while self._peek() in _SPACE and self._at < len(self._text):
            self._at += 1

    def _value(self) -> None:
        self._space()
        character = self._peek()
        if character == "{":
            self._object()
        elif character == "[":
            self._array()
        elif character == '"':
            self._string()
        elif character in _LITERALS and character:
            self._literal(_LITERALS[character])
        elif character == "-" or (character.isascii() and character.isdigit()):
            self._number()
        else:
            self._fail("looking for beginning of value")

    def _object(self) -> None:
        self._at += 1
        self._space()
        if self._peek() == "}":
            self._at += 1
            return
        while True:
            self._space()
            if self._peek() != '"':
                self._fail("looking for beginning of object key string")
            self._string()
            self._space()
            if self._peek() != ":":
                self._fail("after object key")
            self._at += 1
            self._value()
            if self._ends("}", "after object key:value pair"):
                return

    def _array(self) -> None:
        self._at += 1
        self._space()
        if self._peek() == "]":
            self._at += 1
            return
        while True:
            self._value()
            if self._ends("]", "after array element"):
                return

    def _ends(self, closing: str, where: str) -> bool:
        self._space()
        character = self._peek()
        if character not in {",", closing}:
            self._fail(where)
        self._at += 1
        return character == closing

    def _string(self) -> None:
        self._at += 1
        while (character := self._peek()) != '"':
            if character == "" or character < " ":
                self._fail("in string literal")
            self._at += 1
            if character == "\\":
                self._escape()
        self._at += 1

    def _escape(self) -> None:
        escape = self._peek()
        if escape not in _ESCAPES or not escape:
            self._fail("in string escape code")
        self._at += 1
        if escape == "u":
            for _ in range(4):
                if self._peek() not in frozenset("0123456789abcdefABCDEF") or not self._peek():
                    self._fail("in \\u hexadecimal character escape")
                self._at += 1

    def _literal(self, word: str) -> None:
        for position, expected in enumerate(word):
            if self._peek() != expected:
                rest = f"(expecting '{expected}')"
                self._fail(f"in literal {word} {rest}" if position else "looking for beginning of value")
            self._at += 1

    def _number(self) -> None:
        if self._peek() == "-":
            self._at += 1
            self._digit("in numeric literal")
        if self._peek() == "0":
            self._at += 1
        else:
            self._digits()
        if self._peek() == ".":
            self._at += 1
            self._digit("after decimal point in numeric literal")
            self._digits()
        if self._peek() in {"e", "E"}:
            self._at += 1
            if self._peek() in {"+", "-"}:
                self._at += 1
            self._digit("in exponent of numeric literal")
            self._digits()

    def _digit(self, where: str) -> None:
        if not (self._peek().isascii() and self._peek().isdigit()):
            self._fail(where)

    def _digits(self) -> None:
        while self._peek().isascii() and self._peek().isdigit():
            self._at += 1
