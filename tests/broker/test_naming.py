"""Rail IDs from interface names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nicrails_broker.naming import RailNameError, RailNaming, expand

# Made by rail_naming.go beside it, with the Go version that it names.
GOLDEN = json.loads((Path(__file__).parent / "data" / "rail_naming.json").read_text(encoding="utf-8"))


def test_golden_cases_are_many_and_from_go() -> None:
    """The comparison with Go rests on a real Go and on no less than 200 cases."""
    assert GOLDEN["go"].startswith("go1.")
    assert len(GOLDEN["cases"]) >= 200


@pytest.mark.parametrize("template", sorted({case["template"] for case in GOLDEN["cases"]} - {""}))
def test_template_expands_as_in_go(template: str) -> None:
    """Match, groups and expansion are those of Go; what is then no rail ID is an error that names the interface."""
    for case in (case for case in GOLDEN["cases"] if case["template"] == template):
        naming = RailNaming(case["regex"], template)
        expected = case["expected"]
        if expected is None:
            assert naming.match(case["input"]) is None
        elif expected and expected.isprintable() and expected == expected.strip():
            assert naming.match(case["input"]) == expected
        else:
            with pytest.raises(RailNameError) as caught:
                naming.match(case["input"])
            assert caught.value.interface == case["input"]


@pytest.mark.parametrize(
    "regex", [*GOLDEN["refused"], r"(?P<n>a)(?P<n>b)", r"a\C", "\ud800", "x" * 1025, "(((a{100}){100}){100})"]
)
def test_expression_that_go_refuses_is_refused_in_one_sentence(regex: str) -> None:
    """Look-around, back-references, broken and oversized expressions are a fault of the setting, told in one line."""
    with pytest.raises(ValueError, match=r"^interfaceRegex") as caught:
        RailNaming(regex, "rail$1")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("template", ["", "x" * 1025])
def test_template_must_have_a_length(template: str) -> None:
    """An empty template would name every rail alike: not at all."""
    with pytest.raises(ValueError, match=r"^railID must have"):
        RailNaming("eth", template)


def test_a_bad_expression_leaves_standard_error_alone(capfd: pytest.CaptureFixture[str]) -> None:
    """RE2's own complaint stays out of the log."""
    with pytest.raises(ValueError, match="no RE2 expression"):
        RailNaming("(", "rail")
    assert capfd.readouterr() == ("", "")


def test_expression_is_searched_not_anchored() -> None:
    """Without anchors the expression selects every name that contains a match."""
    assert RailNaming("r([0-9])", "rail$1").match("eth_r7_p0") == "rail7"
    assert RailNaming("^r([0-9])", "rail$1").match("eth_r7_p0") is None


def test_empty_rail_id_names_interface_and_template() -> None:
    """A group that took no part in the match gives an empty rail ID, which is an error and not a rail."""
    naming = RailNaming("^eth(_x)?", "$1")
    assert naming.match("eth_x") == "_x"
    with pytest.raises(RailNameError, match=r"railID '\$1' gives interface 'eth0' an empty rail ID"):
        naming.match("eth0")


@pytest.mark.parametrize("interface", ["a b ", "a\nb", "a\x1b[4m", "x" * 254])
def test_invalid_rail_id_is_an_error_in_one_line(interface: str) -> None:
    """Blanks at the ends, control characters and more than 253 characters are no rail ID."""
    with pytest.raises(RailNameError, match="not a rail ID") as caught:
        RailNaming("(?s)^(.*)$", "$1").match(interface)
    assert str(caught.value).isprintable()


def test_interface_that_is_not_utf8_matches_nothing() -> None:
    """A name that Python could not decode is none that an expression can select."""
    assert RailNaming(".", "rail").match("eth\udcff") is None


def test_numbered_and_named_groups_do_not_mix() -> None:
    """A name that is a number means the group of that number, as in Go."""
    assert expand("$1-$01-$2", {"1": "a", "01": "b"}) == "a-b-"
    assert RailNaming("^(?P<5>a)$", "x$5$1").match("a") == "xa"


def test_matching_is_linear_in_the_interface() -> None:
    """A pattern that makes back-tracking engines hang is harmless."""
    assert RailNaming("^(a+)+$", "rail").match("a" * 5000 + "b") is None
