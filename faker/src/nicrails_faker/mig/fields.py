"""Typed reading of a document, with the path of what is wrong."""

from __future__ import annotations

from nicrails.text import excerpt
from nicrails_faker.mig.document import (
    YamlList,
    YamlMapping,
    YamlScalar,
    YamlValue,
    as_boolean,
    as_whole,
    child,
    is_null,
    is_number,
    ordered,
)
from nicrails_faker.mig.errors import DocumentError


class Fields:
    """The entries of one mapping, taken key by key; those that nobody took can be kept or refused.

    A key whose value is null counts as absent, as it does for the components that these documents are shared with.

    Attributes:
        path: Of the mapping in the document.
    """

    def __init__(self, path: str, value: YamlValue) -> None:
        self.path = path
        self._entries = expect_mapping(path, value).entries
        self._taken: set[str] = set()

    def at(self, key: str) -> str:
        """The path of a key."""
        return child(self.path, key)

    def take(self, key: str) -> YamlValue | None:
        """The value of a key, None if it is absent."""
        self._taken.add(key)
        value = next((value for name, value in self._entries if name.text == key), None)
        return None if value is None or is_null(value) else value

    def need(self, key: str) -> YamlValue:
        """The value of a key.

        Raises:
            DocumentError: It is absent.
        """
        value = self.take(key)
        if value is None:
            raise DocumentError(self.at(key), "missing")
        return value

    def text(self, key: str, default: str = "", *, numbers: bool = False) -> str:
        """A string; ``numbers`` lets an unquoted number pass as its text, which is how people write versions."""
        value = self.take(key)
        return default if value is None else expect_text(self.at(key), value, numbers=numbers)

    def need_text(self, key: str) -> str:
        """A string that is there and not empty."""
        text = expect_text(self.at(key), self.need(key))
        if not text:
            raise DocumentError(self.at(key), "empty")
        return text

    def count(self, key: str, *, most: int, default: int = 0) -> int:
        """A whole number from 0 to ``most``."""
        value = self.take(key)
        return default if value is None else expect_count(self.at(key), value, most=most)

    def flag(self, key: str) -> bool:
        """A boolean; absent is false."""
        value = self.take(key)
        return False if value is None else expect_flag(self.at(key), value)

    def items(self, key: str) -> tuple[tuple[str, YamlValue], ...]:
        """The items of a list, each with its path; absent is empty."""
        value = self.take(key)
        return () if value is None else expect_items(self.at(key), value)

    def fields(self, key: str) -> Fields:
        """A mapping; absent is empty."""
        return Fields(self.at(key), self.take(key) or YamlMapping())

    def rest(self) -> YamlMapping:
        """The entries that nobody took, in the order of their keys."""
        rest = ordered(YamlMapping(tuple(entry for entry in self._entries if entry[0].text not in self._taken)))
        return expect_mapping(self.path, rest)

    def done(self) -> None:
        """Nothing may be left.

        Raises:
            DocumentError: A key is unknown here.
        """
        for key, _ in self._entries:
            if key.text not in self._taken:
                known = ", ".join(sorted(self._taken))
                raise DocumentError(self.at(key.text), f"unknown key; known here: {known}")


def expect_mapping(path: str, value: YamlValue) -> YamlMapping:
    """A mapping, or a refusal."""
    if not isinstance(value, YamlMapping):
        raise DocumentError(path, f"expected a mapping, found {found(value)}")
    return value


def expect_items(path: str, value: YamlValue) -> tuple[tuple[str, YamlValue], ...]:
    """The items of a list, each with its path, or a refusal."""
    if not isinstance(value, YamlList):
        raise DocumentError(path, f"expected a list, found {found(value)}")
    return tuple((child(path, index), item) for index, item in enumerate(value.items))


def expect_text(path: str, value: YamlValue, *, numbers: bool = False) -> str:
    """A string, or a refusal."""
    is_text = isinstance(value, YamlScalar) and not (is_null(value) or as_boolean(value) is not None)
    if not isinstance(value, YamlScalar) or not is_text or (is_number(value) and not numbers):
        raise DocumentError(path, f"expected a string, found {found(value)}")
    return value.text


def expect_count(path: str, value: YamlValue, *, most: int) -> int:
    """A whole number from 0 to ``most``, or a refusal."""
    number = as_whole(value)
    if number is None or not 0 <= number <= most:
        raise DocumentError(path, f"expected a whole number from 0 to {most}, found {found(value)}")
    return number


def expect_flag(path: str, value: YamlValue) -> bool:
    """A boolean, or a refusal."""
    flag = as_boolean(value)
    if flag is None:
        raise DocumentError(path, f"expected true or false, found {found(value)}")
    return flag


def found(value: YamlValue) -> str:
    """A value in the words of an error message."""
    if isinstance(value, YamlMapping):
        return "a mapping"
    if isinstance(value, YamlList):
        return "a list"
    if is_null(value):
        return "nothing"
    return excerpt(value.text, 80) if value.plain else f'"{excerpt(value.text, 80)}"'
