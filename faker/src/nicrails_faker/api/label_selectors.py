"""Label selectors, pure: text in, predicate out.

Source: k8s.io/apimachinery, pkg/labels/selector.go; the sentences are theirs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from nicrails_faker.api import gojson, names

Json = dict[str, Any]
Predicate = Callable[[Json], bool]
Operator = Literal["exists", "missing", "in", "notin", "gt", "lt"]


class SelectorError(ValueError):
    """The selector can not be read; the sentence is the server's."""


def everything(_: Json) -> bool:
    """The selector that selects all objects."""
    return True


def parse(text: str) -> Predicate:
    """A predicate on the labels of an object; :func:`everything` if the selector is empty.

    Raises:
        SelectorError: ``text`` is not a label selector.
    """
    requirements = list(_Parser(text).requirements())
    if not requirements:
        return everything

    def matches(document: Json) -> bool:
        present = document["metadata"].get("labels") or {}
        return all(requirement.matches(present) for requirement in requirements)

    return matches


_OPERATORS: dict[str, Operator] = {
    "=": "in", "==": "in", "!=": "notin", "in": "in", "notin": "notin", ">": "gt", "<": "lt",
}  # fmt: skip
_SPECIAL = frozenset("=!(),<>")
_WORD_OPERATORS = frozenset({"in", "notin"})
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Requirement:
    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, present: Mapping[str, str]) -> bool:
        value = present.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "missing":
                return value is None
            case "in":
                return value in self.values
            case "notin":
                return value not in self.values
        (bound,) = self.values
        if value is None or _INTEGER.fullmatch(value) is None:
            return False
        return int(value) > int(bound) if self.operator == "gt" else int(value) < int(bound)


class _Parser:
    """A recursive descent over the tokens, as the server's own."""

    def __init__(self, text: str) -> None:
        self._tokens = [*_tokens(text), ""]
        self._at = 0

    def requirements(self) -> Iterator[_Requirement]:
        if self._peek() == "":
            return
        expected = "!, identifier, or 'end of string'"
        while True:
            found = self._peek()
            if found != "!" and not _is_word(found):
                raise SelectorError(f"found '{found}', expected: {expected}")
            try:
                yield self._requirement()
            except SelectorError as exc:
                raise SelectorError(f"unable to parse requirement: {exc}") from exc
            found = self._next()
            if found == "":
                return
            if found != ",":
                raise SelectorError(f"found '{found}', expected: ',' or 'end of string'")
            expected = "identifier after ','"

    def _requirement(self) -> _Requirement:
        if self._peek() == "!":
            self._next()
            return _Requirement(key=self._key(), operator="missing")
        key = self._key()
        if self._peek() in {"", ","}:
            return _Requirement(key=key, operator="exists")
        found = self._next()
        if found not in _OPERATORS:
            raise SelectorError(f"found '{found}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._values() if found in _WORD_OPERATORS else {self._value()}
        operator = _OPERATORS[found]
        for value in values:
            _check(key, operator, value)
        return _Requirement(key=key, operator=operator, values=frozenset(values))

    def _key(self) -> str:
        key = self._next()
        if not _is_word(key):
            raise SelectorError(f"found '{key}', expected: identifier")
        problems = names.qualified_name(key)
        if problems:
            raise SelectorError(f"<nil>: Invalid value: {gojson.quoted(key)}: {'; '.join(problems)}")
        return key

    def _value(self) -> str:
        if self._peek() in {"", ","}:
            return ""
        found = self._next()
        if not _is_word(found):
            raise SelectorError(f"found '{found}', expected: identifier")
        return found

    def _values(self) -> set[str]:
        found = self._next()
        if found != "(":
            raise SelectorError(f"found '{found}' expected: '('")
        if self._peek() == ")":
            self._next()
            return {""}
        values: set[str] = set()
        # Nothing before a comma, between two, or after one is the empty value.
        pending = True
        while True:
            found = self._next()
            if found == ")":
                return values | {""} if pending else values
            if found == ",":
                values |= {""} if pending else set()
                pending = True
            elif pending and _is_word(found):
                values.add(found)
                pending = False
            else:
                expected = "',', ')' or identifier" if pending else "',' or ')'"
                raise SelectorError(f"found '{found}', expected: {expected}")

    def _peek(self) -> str:
        return self._tokens[self._at]

    def _next(self) -> str:
        found = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return found


def _check(key: str, operator: Operator, value: str) -> None:
    if operator in {"gt", "lt"} and _INTEGER.fullmatch(value) is None:
        problem = "for 'Gt', 'Lt' operators, the value must be an integer"
        raise SelectorError(f"values[0]: Invalid value: {gojson.quoted(value)}: {problem}")
    problems = names.label_value(value)
    if problems:
        raise SelectorError(f"values[0][{key}]: Invalid value: {gojson.quoted(value)}: {'; '.join(problems)}")


def _is_word(found: str) -> bool:
    return found != "" and found[0] not in _SPECIAL


def _tokens(text: str) -> Iterator[str]:
    for match in re.finditer(r"==|!=|[=!(),<>]|[^\s=!(),<>]+", text):
        yield match.group()
