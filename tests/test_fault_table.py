from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault_table import ROWS, proofs, table


@pytest.mark.parametrize("row", ROWS)
def test_every_row_is_proven(row: str) -> None:
    """Every row of the table of faults has a test that proves it."""
    assert any(row in proof.rows for proof in proofs())


def test_no_unknown_rows() -> None:
    """A test can not claim a row that does not exist."""
    assert {row for proof in proofs() for row in proof.rows} <= set(ROWS)


def test_the_document_is_that_of_the_tests() -> None:
    """docs/faults.md says what the tests say."""
    document = Path(__file__).parent.parent / "docs" / "faults.md"
    assert document.read_text() == table(), "run: python -m tests.fault_table > docs/faults.md"
