"""The parts without I/O, where a table says more than a server would."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from nicrails_faker.api import gojson, label_selectors, patches


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "unexpected end of JSON input"),
        (b"{", "unexpected end of JSON input"),
        (b"{]", "invalid character ']' looking for beginning of object key string"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"[1,]", "invalid character ']' looking for beginning of value"),
        (b"nul", "unexpected end of JSON input"),
        (b"trux", "invalid character 'x' in literal true (expecting 'e')"),
        (b"-x", "invalid character 'x' in numeric literal"),
        (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
        (b"1ex", "invalid character 'x' in exponent of numeric literal"),
        (b"01", "invalid character '1' after top-level value"),
        (b'"a\nb"', "invalid character '\\n' in string literal"),
        (b'"\\x"', "invalid character 'x' in string escape code"),
        (b'"\\u00g0"', "invalid character 'g' in \\u hexadecimal character escape"),
        (b"'a'", "invalid character '\\'' looking for beginning of value"),
        (b"\x81", "invalid character '\\u0081' looking for beginning of value"),
        (b"\xc3\xa4", "invalid character '\u00c3' looking for beginning of value"),
        (b"NaN", "invalid character 'N' looking for beginning of value"),
    ],
)
def test_malformed_json_is_described_as_go_does(text: bytes, problem: str) -> None:
    """The sentence is that of encoding/json."""
    with pytest.raises(gojson.JsonError) as error:
        gojson.loads(text)
    assert str(error.value) == problem


def test_damaged_json_is_read_or_refused_but_never_a_fault() -> None:
    """Whatever is done to a document, reading it gives a value or a JsonError; 5,000 damages, seeded."""
    generator = random.Random(1)
    document = json.dumps({"metadata": {"name": "a\u00e4\n"}, "data": {"x": [1, -2.5e3, None, True]}}).encode()
    for _ in range(5000):
        damaged = bytearray(document)
        for _ in range(generator.randint(1, 3)):
            position = generator.randrange(len(damaged))
            damaged[position : position + generator.randint(0, 2)] = generator.choice(
                [b"", b"{", b"}", b'"', b"\\", b"\xff", b",", b"0", b"\n", b"e"]
            )
        try:
            gojson.loads(bytes(damaged))
        except gojson.JsonError as error:
            assert str(error)  # noqa: PT017 - most of the damages are refused, some are still JSON


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('a"b', r'"a\"b"'),
        ("a\\b", r'"a\\b"'),
        ("\n\t", r'"\n\t"'),
        ("\x01", r'"\x01"'),
        ("\u2028", r'"\u2028"'),
        ("ä", '"ä"'),
    ],
)
def test_text_is_quoted_as_go_does(text: str, shown: str) -> None:
    """``%q`` of Go."""
    assert gojson.quoted(text) == shown


def _applied(document: dict[str, Any], *operations: dict[str, Any]) -> dict[str, Any]:
    before = json.dumps(document)
    try:
        return patches.apply(document, list(operations))
    finally:
        assert json.dumps(document) == before, "the original was changed"


def test_json_patches_share_what_they_do_not_change() -> None:
    """A patch copies the containers on its way and leaves the original alone."""
    document: dict[str, Any] = {"data": {"x": {"y": 1}, "z": [1]}, "other": {"deep": [1]}}
    changed = _applied(document, {"op": "replace", "path": "/data/x/y", "value": 2})
    assert changed["data"]["x"] == {"y": 2}
    assert changed["other"] is document["other"]
    assert changed["data"]["z"] is document["data"]["z"]


@pytest.mark.parametrize(
    ("expected", "actual"), [(1, True), (True, 1), (0, False), ([1], [True]), ({"a": 1}, {"a": True}), ("1", 1)]
)
def test_json_patch_tests_compare_as_json(expected: object, actual: object) -> None:
    """A number is not a boolean, though Python takes them for equal."""
    with pytest.raises(patches.PatchError):
        _applied({"data": {"x": actual}}, {"op": "test", "path": "/data/x", "value": expected})
    _applied({"data": {"x": actual}}, {"op": "test", "path": "/data/x", "value": actual})


def test_what_a_json_patch_copies_is_not_shared() -> None:
    """A value that was copied can be changed without changing where it came from."""
    changed = _applied(
        {"a": {"x": 1}},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "replace", "path": "/b/x", "value": 2},
        {"op": "add", "path": "/a/y", "value": 3},
    )
    assert changed == {"a": {"x": 1, "y": 3}, "b": {"x": 2}}


def test_a_json_patch_can_not_make_a_loop() -> None:
    """Copying a container into itself copies it as it was."""
    changed = _applied(
        {"a": {"x": 1}},
        {"op": "add", "path": "/a/y", "value": 2},
        {"op": "copy", "from": "/a", "path": "/a/z"},
        {"op": "add", "path": "/a/z/y", "value": 3},
    )
    assert changed == {"a": {"x": 1, "y": 2, "z": {"x": 1, "y": 3}}}


def test_merge_patches_are_those_of_the_rfc() -> None:
    """The examples of RFC 7386, appendix A, that are about objects."""
    for target, patch, result in (
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ):
        assert patches.merge(target, patch) == result


def test_label_selectors_never_stumble() -> None:
    """Any sequence of tokens is a selector or a SelectorError; 5,000 of them, seeded."""
    generator = random.Random(1)
    tokens = ["a", "b", "in", "notin", "=", "==", "!=", "!", "(", ")", ",", ">", "<", " ", "1", "a/b", "-"]
    document: dict[str, Any] = {"metadata": {"labels": {"a": "1", "b": "a"}}}
    for _ in range(5000):
        text = "".join(generator.choices(tokens, k=generator.randint(0, 8)))
        try:
            assert label_selectors.parse(text)(document) in {True, False}
        except label_selectors.SelectorError as error:
            assert str(error)  # noqa: PT017 - some sequences are selectors
