"""The images stay small, and the documentation says what each megabyte is for."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from tests.images.docker import PROGRAMS, ROOT, Images
from tests.images.sizes import BUDGET, PURPOSES, measure, table

pytestmark = [pytest.mark.needs("images"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def measured(images: Images) -> dict[str, dict[str, float]]:
    """MB by image and row."""
    return {program: measure(images, program) for program in PROGRAMS}


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_is_within_its_budget(images: Images, measured: Mapping[str, Mapping[str, float]], program: str) -> None:
    """An image is as large as its files together, and not larger than its budget."""
    files = sum(measured[program].values())
    assert files < BUDGET[program], table(measured)
    assert images.inspect(program)["Size"] / 1e6 == pytest.approx(files, rel=0.03)


def test_each_megabyte_has_a_purpose(measured: Mapping[str, Mapping[str, float]]) -> None:
    """A package of a megabyte and more is in the table with what it is for."""
    rows = {row for sizes in measured.values() for row in sizes} - {"others"}
    assert rows == set(PURPOSES)


def test_the_documentation_says_what_is_measured(measured: Mapping[str, Mapping[str, float]]) -> None:
    """The table in ``docs/images.md`` has the rows that are measured, and its numbers are near them."""
    document = _numbers((ROOT / "docs/images.md").read_text())
    now = _numbers(table(measured))
    assert {row: texts for row, (texts, _) in document.items()} == {row: texts for row, (texts, _) in now.items()}
    for row, (_, numbers) in now.items():
        # Updates of Debian and of the lock file may change a little; a tenth, or half a megabyte.
        assert document[row][1] == pytest.approx(numbers, rel=0.1, abs=0.5), (
            f"{row}: `python -m tests.images.sizes TAG`"
        )


def _numbers(text: str) -> dict[str, tuple[str, list[float]]]:
    """The rows of the table of sizes: what each is for, and its numbers."""
    row = re.compile(r"^\| ([^|]+) \| ([\d. ]*\|[\d. ]*\|[\d. ]*) \|(.*)\|$", re.MULTILINE)
    return {
        name: (purpose.strip(), [float(number or 0) for number in numbers.split("|")])
        for name, numbers, purpose in (
            (name, re.sub(r"\s", "", cells), rest) for name, cells, rest in row.findall(text)
        )
    }
