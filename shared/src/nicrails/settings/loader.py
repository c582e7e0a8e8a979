"""Turns a YAML document into a tree of dataclasses and collects every fault on the way."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import cattrs
import yaml
from cattrs.errors import IterableValidationNote
from cattrs.gen import make_dict_structure_fn, override

from nicrails.settings.duration import Duration
from nicrails.text import excerpt

T = TypeVar("T")
MAX_SIZE = 1024 * 1024
_MISSING = "missing; it has no default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        path: Dotted, in the spelling of the file, such as ``server.port``; "" is the whole document.
        problem: What was expected and what was found.
    """

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" if self.path else self.problem


class SettingsError(Exception):
    """A settings file is wrong.

    Attributes:
        faults: All that is wrong with it, in the order of the file's structure.
    """

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("; ".join(str(fault) for fault in faults))
        self.faults = faults


def setting(
    default: Any = dataclasses.MISSING,  # noqa: ANN401  (of the field's type)
    *,
    key: str | None = None,
    check: Callable[[Any], object] | None = None,
) -> Any:  # noqa: ANN401  (as dataclasses.field)
    """A field of a settings class.

    Args:
        default: Its default; without one the key is required.
        key: Its key in the file, where that is not its name in camelCase.
        check: Called with the value; raises ValueError with one sentence if it will not do.
    """
    return dataclasses.field(default=default, metadata={"key": key, "check": check})


def load(document: str, into: type[T]) -> T:
    """Read a YAML document.

    Args:
        document: The text of the file.
        into: A dataclass; its fields are the keys in camelCase, nested classes are nested mappings.

    Raises:
        SettingsError: With every fault: unknown keys, missing keys, values of a wrong type or range.
    """
    data = _parse(document)
    converter = _converter()
    try:
        return converter.structure({} if data is None else data, into)
    except cattrs.BaseValidationError as error:
        raise SettingsError(tuple(_faults(error, into, ""))) from error
    except ValueError as error:
        raise SettingsError((Fault(path="", problem=excerpt(str(error))),)) from error


def read_document(path: Path) -> str:
    """The text of a settings file, for :func:`load`.

    Raises:
        SettingsError: It can not be read, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            return file.read(MAX_SIZE + 1).decode()
    except OSError as error:
        raise SettingsError((Fault(path="", problem=f"can not read {path}: {error.strerror or error}"),)) from error
    except UnicodeDecodeError as error:
        raise SettingsError((Fault(path="", problem=f"{path} is not UTF-8 (byte {error.start})"),)) from error


class _UniqueKeyLoader(yaml.SafeLoader):
    """A loader that refuses a key given twice, where YAML would silently take the last, and aliases, which can explode."""

    def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401  (the library has no types for nodes)
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.constructor.ConstructorError(
                None,
                None,
                "aliases are not supported",
                self.peek_event().start_mark,  # type: ignore[no-untyped-call]
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:  # noqa: ANN401  (as above)
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, (list, dict, set)):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a string", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
            seen.add(key)
        return typing.cast("dict[Any, Any]", super().construct_mapping(node, deep=deep))


def _parse(document: str) -> object:
    if len(document) > MAX_SIZE:
        raise SettingsError((Fault(path="", problem=f"larger than {MAX_SIZE} characters"),))
    try:
        return yaml.load(document, Loader=_UniqueKeyLoader)  # noqa: S506  (a SafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise SettingsError((Fault(path="", problem=f"not YAML: {excerpt(str(error))}"),)) from error


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _key(field: dataclasses.Field[Any]) -> str:
    return field.metadata.get("key") or _camel(field.name)


def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(detailed_validation=True, forbid_extra_keys=True)
    for kind, name in ((str, "a string"), (int, "a whole number"), (bool, "true or false")):
        converter.register_structure_hook(kind, _exactly(kind, name))
    converter.register_structure_hook(float, _number)
    converter.register_structure_hook(Duration, lambda value, _: Duration.parse(value))
    converter.register_structure_hook_func(_is_literal, _one_of)
    converter.register_structure_hook_func(_is_optional, lambda value, kind: _optional(converter, value, kind))
    converter.register_structure_hook_factory(dataclasses.is_dataclass, lambda kind: _mapping(converter, kind))
    return converter


def _mapping(converter: cattrs.Converter, kind: type) -> Callable[[Any, Any], Any]:
    overrides = {
        field.name: override(rename=_key(field), struct_hook=_checked(converter, field))
        for field in dataclasses.fields(kind)
    }
    structure: Callable[[Any, Any], Any] = make_dict_structure_fn(
        kind,
        converter,
        _cattrs_forbid_extra_keys=True,
        _cattrs_detailed_validation=True,
        **overrides,  # type: ignore[arg-type]
    )

    def hook(value: object, _: object) -> object:
        if value is None:
            # `key:` with nothing below it is how people leave a section out.
            value = {}
        if not isinstance(value, dict):
            raise ValueError(f"expected a mapping, found {_found(value)}")  # noqa: TRY004  (told as a fault of the value)
        return structure(value, kind)

    return hook


def _checked(converter: cattrs.Converter, field: dataclasses.Field[Any]) -> Callable[[Any, Any], Any] | None:
    check = field.metadata.get("check")
    if check is None:
        return None

    def hook(value: object, kind: Any) -> object:  # noqa: ANN401  (a type expression)
        result = converter.structure(value, kind)
        if result is not None:
            check(result)
        return result

    return hook


def _exactly(kind: type, name: str) -> Callable[[Any, Any], Any]:
    def hook(value: object, _: object) -> object:
        # bool is an int to Python, and YAML reads an unquoted 010 or yes as something else than a string.
        if type(value) is not kind:
            raise ValueError(f"expected {name}, found {_found(value)}")
        return value

    return hook


def _number(value: object, _: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"expected a number, found {_found(value)}")  # noqa: TRY004  (told as a fault of the value)
    return float(value)


def _is_literal(kind: Any) -> bool:  # noqa: ANN401  (a type expression)
    return typing.get_origin(kind) is Literal


def _one_of(value: object, kind: Any) -> object:  # noqa: ANN401  (a type expression)
    choices = typing.get_args(kind)
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"expected one of {', '.join(choices)}, found {_found(value)}")
    return value


def _is_optional(kind: Any) -> bool:  # noqa: ANN401  (a type expression)
    return typing.get_origin(kind) in (typing.Union, types.UnionType) and type(None) in typing.get_args(kind)


def _optional(converter: cattrs.Converter, value: object, kind: Any) -> object:  # noqa: ANN401  (a type expression)
    if value is None:
        return None
    (inner,) = [choice for choice in typing.get_args(kind) if choice is not type(None)]
    return converter.structure(value, inner)


def _found(value: object) -> str:
    if value is None:
        return "nothing"
    names = {dict: "a mapping", list: "a list", bool: "a boolean"}
    name = names.get(type(value))
    return f"{name} ({value!r})" if isinstance(value, bool) else name or excerpt(repr(value), 80)


def _faults(error: BaseException, kind: Any, path: str) -> Iterator[Fault]:  # noqa: ANN401  (a type expression)
    if isinstance(error, cattrs.ClassValidationError):
        fields = (
            {field.name: field for field in dataclasses.fields(error.cl)} if dataclasses.is_dataclass(error.cl) else {}
        )
        with_notes, without = error.group_exceptions()
        for inner, note in with_notes:
            key = _key(fields[note.name]) if note.name in fields else note.name
            yield from _faults(inner, note.type, f"{path}.{key}" if path else key)
        for plain in without:
            yield from _faults(plain, kind, path)
    elif isinstance(error, cattrs.IterableValidationError):
        for inner in error.exceptions:
            notes = [note for note in getattr(inner, "__notes__", ()) if isinstance(note, IterableValidationNote)]
            yield from _faults(inner, None, f"{path}[{notes[0].index}]" if notes else path)
    elif isinstance(error, cattrs.ForbiddenExtraKeysError):
        known = (
            sorted(_key(field) for field in dataclasses.fields(error.cl)) if dataclasses.is_dataclass(error.cl) else []
        )
        for extra in sorted(map(str, error.extra_fields)):
            name = excerpt(extra, 80)
            yield Fault(path=f"{path}.{name}" if path else name, problem=f"unknown key; known here: {', '.join(known)}")
    elif isinstance(error, KeyError):
        yield Fault(path=path, problem=_MISSING)
    else:
        yield Fault(path=path, problem=excerpt(str(error)))
