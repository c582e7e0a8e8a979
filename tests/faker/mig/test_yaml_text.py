from __future__ import annotations

import time
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from nicrails_faker.mig.document import (
    YamlList,
    YamlMapping,
    YamlScalar,
    YamlValue,
    as_boolean,
    as_whole,
    is_null,
    ordered,
    string,
    whole,
)
from nicrails_faker.mig.errors import DocumentError
from nicrails_faker.mig.yaml_text import emit, parse

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

HOSTILE = {
    "a YAML bomb": (BOMB, "^a: anchors and aliases are not supported$"),
    "an alias": ("a: 1\nb: *a\n", "^b: anchors and aliases are not supported$"),
    "an anchor deep inside": ("a:\n  b:\n  - c: &x 1\n", r"^a\.b\[0\]\.c: anchors and aliases are not supported$"),
    "a tag": (
        "a: !!python/object/apply:os.system [id]\n",
        "^a: tags are not supported, found tag:yaml.org,2002:python",
    ),
    "a harmless tag": ("a: !!str 1\n", "^a: tags are not supported, found tag:yaml.org,2002:str$"),
    "a tag on a key": ("!!str a: 1\n", "^tags are not supported"),
    "a local tag": ("- !x {}\n", r"^\[0\]: tags are not supported, found !x$"),
    "a merge key": ("a: {<<: {b: 1}}\n", r"^a: merge keys \(<<\) are not supported$"),
    "a key given twice": ("a: {b: 1, c: 2, b: 3}\n", r"^a\.b: given twice$"),
    "a key given twice, quoted once": ('0: 1\n"0": 2\n', "^0: given twice$"),
    "a list as a key": ("? [a]\n: 1\n", "^a key must be a string, found a list or a mapping$"),
    "an empty key": ("a: {'': 1}\n", "^a: a key must be 1 to 256 characters on one line$"),
    "a null key": ("~: 2\n", "^a key must be 1 to 256 characters on one line$"),
    "a key of 300 characters": (f"{'k' * 300}: 1\n", "^a key must be 1 to 256 characters"),
    "a key with a line break": ('"a\\nb": 1\n', "^a key must be 1 to 256 characters on one line$"),
    "two documents": ("a: 1\n---\na: 2\n", "^more than one document$"),
    "an open list": ("a: [1,\n", r"^not YAML at line 2, column 1: "),
    "a tab": ("a:\n\t- b\n", r"^not YAML at line 2, column 1: "),
    "a NUL": ("a: \x00\n", "^not YAML"),
    "an escape sequence": ("a: \x1b[2J\n", "^not YAML"),
    "half of a surrogate pair": ("a: \ud800\n", "^not YAML"),
    "nothing": ("", "^empty$"),
    "a comment": ("# a\n", "^empty$"),
    "brackets without end": ("[" * 100_000, "^nested more than 64 deep$|^not YAML"),
    "65 brackets": ("[" * 65 + "]" * 65, "^nested more than 64 deep$"),
    "65 mappings": ("{a: " * 65 + "1" + "}" * 65, "^nested more than 64 deep$"),
    "a tag far down": (
        "{kkkkkkkkkkkkkkk: " * 60 + "!x 1" + "}" * 60,
        r"^…[k.]{199}: tags are not supported, found !x$",
    ),
    "a long text": ("a" * (1024 * 1024 + 1), "^has 1048577 characters; 1048576 are the most that are read$"),
    "many values": ("- 1\n" * 150_000, "^more than 100000 values$"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_text_is_refused_at_once_with_one_sentence(case: str) -> None:
    """What makes a short text large, or another one than it looks, is refused within a second, and says where it stands."""
    text, problem = HOSTILE[case]
    begin = time.monotonic()
    with pytest.raises(DocumentError, match=problem) as refusal:
        parse(text)
    assert time.monotonic() - begin < 1
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize("case", [case for case in HOSTILE if case not in ("many values", "brackets without end")])
def test_the_parser_without_libyaml_refuses_the_same(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where PyYAML has no libyaml its own parser is used, with the same refusals."""
    monkeypatch.setattr("nicrails_faker.mig.yaml_text._LOADER", yaml.SafeLoader)
    text, problem = HOSTILE[case]
    with pytest.raises(DocumentError, match=problem):
        parse(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a: 012\n", "a: 012\n"),
        ("a: 1e3\n", "a: 1e3\n"),
        ("a: 0x1F\n", "a: 0x1F\n"),
        ("a: 12:30:45\n", "a: 12:30:45\n"),
        ("a: 2024-01-01T00:00:00Z\n", "a: 2024-01-01T00:00:00Z\n"),
        ("a: 2001-12-14 21:59:43.10 -5\n", "a: 2001-12-14 21:59:43.10 -5\n"),
        ("a: yes\n", "a: yes\n"),
        ('a: "yes"\n', 'a: "yes"\n'),
        ("a: 'true'\n", 'a: "true"\n'),
        ("a: 'plain'\n", "a: plain\n"),
        ("a: .inf\n", "a: .inf\n"),
        ("a: -.5\n", "a: -.5\n"),
        ("a: 1_000\n", "a: 1_000\n"),
        ("a:\n", "a: null\n"),
        ("a: ~\n", "a: ~\n"),
        ("a: ''\n", 'a: ""\n'),
        ('a: "12.4"\n', 'a: "12.4"\n'),
        ("a: b # c\n", "a: b\n"),
        ("a: http://x#y\n", 'a: "http://x#y"\n'),
        ("a: |\n  two\n  lines\n", 'a: "two\\x0alines\\x0a"\n'),
        ("a: two\n  words\n", 'a: "two words"\n'),
        ('a: "\\u2028\\t\\e"\n', 'a: "\\u2028\\x09\\x1b"\n'),
        ("a: größe 😀\n", 'a: "größe 😀"\n'),
        ('{"a": [1, {"b": null}, []], "c": {}}', "a:\n- 1\n- b: null\n- []\nc: {}\n"),
        ("- - 1\n  - 2\n- a: 1\n  b:\n  - 3\n", "- - 1\n  - 2\n- a: 1\n  b:\n  - 3\n"),
    ],
)
def test_every_value_keeps_its_meaning_in_each_version_of_yaml(text: str, written: str) -> None:
    """A value is written as it was read, even where versions of YAML disagree about what it is."""
    assert emit(parse(text)) == written
    assert yaml.safe_load(written) == yaml.safe_load(text)
    assert parse(written) == parse(text)


CHARACTERS = st.characters(codec="utf-8", exclude_categories=["Cs"])
KEYS = st.text(CHARACTERS, min_size=1, max_size=8).filter(lambda key: key.isprintable() and key != "<<")
SCALARS = st.one_of(
    st.text(CHARACTERS, max_size=12),
    st.sampled_from(
        ["true", "no", "null", "~", "1", "-", "- a", "a: b", "#", "---", "...", "1e3", "=", "<<", "?", "|"]
    ),
    st.integers(-10, 10**6),
    st.booleans(),
    st.none(),
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


def tree(data: Any) -> YamlValue:
    """The tree of plain Python values."""
    if isinstance(data, dict):
        return YamlMapping(tuple((string(key), tree(value)) for key, value in data.items()))
    if isinstance(data, list):
        return YamlList(tuple(map(tree, data)))
    if data is None:
        return YamlScalar("null", plain=True)
    if isinstance(data, bool):
        return YamlScalar("true" if data else "false", plain=True)
    return whole(data) if isinstance(data, int) else string(data)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(DOCUMENTS)
def test_what_is_written_is_read_back_by_others_and_by_us(data: Any) -> None:
    """Any document is read back with the same values, by PyYAML as well as here."""
    written = emit(tree(data))
    assert yaml.safe_load(written) == data
    assert parse(written) == tree(data)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(data=DOCUMENTS, flow=st.booleans())
def test_what_others_write_keeps_its_values(data: Any, *, flow: bool) -> None:
    """What PyYAML wrote, in any style, has the same values after reading and writing it here."""
    theirs = yaml.safe_dump(data, default_flow_style=flow, allow_unicode=True)
    if "&id" not in theirs:
        assert yaml.safe_load(emit(parse(theirs))) == data


def test_equal_documents_are_written_equally_whatever_their_order() -> None:
    """Ordering a document makes the order of its keys irrelevant, at every depth."""
    one, other = "b: 1\na: [{y: 1, x: 2}]\n", "a: [{x: 2, y: 1}]\nb: 1\n"
    assert emit(ordered(parse(one))) == emit(ordered(parse(other))) == "a:\n- x: 2\n  y: 1\nb: 1\n"


@pytest.mark.parametrize(
    ("text", "number"),
    [("7", 7), ("-1", -1), ('"7"', None), ("07", None), ("7.0", None), ("1e3", None), ("9" * 400, None), ("0x7", None)],
)
def test_only_decimal_whole_numbers_are_numbers(text: str, number: int | None) -> None:
    """A number is what every reader takes for the same whole number."""
    assert as_whole(parse(text)) == number


@pytest.mark.parametrize(
    ("text", "flag"), [("true", True), ("Yes", True), ("off", False), ('"true"', None), ("1", None), ("y", None)]
)
def test_booleans_are_those_of_both_versions(text: str, flag: bool | None) -> None:
    """Unquoted words of YAML 1.1 and 1.2 are booleans, quoted ones are not."""
    assert as_boolean(parse(text)) is flag


def test_null_is_told_from_the_word() -> None:
    """Nothing, a tilde and the unquoted word are null; the quoted word is a string."""
    assert [is_null(parse(text)) for text in ("~", "null", '"null"', "[]")] == [True, True, False, False]
