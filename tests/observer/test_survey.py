from __future__ import annotations

import pytest

from nicrails_observer.survey import Fullness, Problem, Survey, fullness
from tests.observer.documents import record


def _survey(survey: Survey, records: dict[str, str]) -> dict[str, Problem]:
    survey.begin()
    found = survey.problems(records.items())
    survey.end()
    return {key: problem for key, (problem, _) in found.items()}


@pytest.mark.fault("O9")
def test_finds_what_can_not_be_read() -> None:
    """O9: unknown versions, malformed documents and impossible keys are told apart, sound records are not told."""
    records = {
        "sound": record("a"),
        "newer": record("a").replace("v1alpha1", "v9"),
        "broken": "{",
        "NOT_A_NODE": record("a"),
    }
    assert _survey(Survey(), records) == {
        "newer": Problem.UNKNOWN_VERSION,
        "broken": Problem.MALFORMED,
        "NOT_A_NODE": Problem.NOT_A_NODE_NAME,
    }


def test_finds_a_record_that_was_sound_before() -> None:
    """A record that turns bad is found, although sound documents are decoded only once."""
    survey = Survey()
    assert _survey(survey, {"a": record("a")}) == {}
    assert _survey(survey, {"a": record("a")}) == {}
    assert _survey(survey, {"a": record("a")[:-1]}) == {"a": Problem.MALFORMED}
    assert _survey(survey, {"a": record("a")}) == {}


def test_a_bad_record_is_found_every_time() -> None:
    """What is bad stays found as long as it stands."""
    survey = Survey()
    for _ in range(3):
        assert _survey(survey, {"a": "x"}) == {"a": Problem.MALFORMED}


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, Fullness.FINE),
        (838_860, Fullness.FINE),
        (838_861, Fullness.HIGH),
        (996_147, Fullness.HIGH),
        (996_148, Fullness.CRITICAL),
        (1_048_576, Fullness.CRITICAL),
    ],
)
@pytest.mark.fault("O17")
def test_levels_of_fullness(size: int, expected: Fullness) -> None:
    """O17: above 80 % of 1 MiB it is high, above 95 % critical."""
    assert fullness(size) is expected
