from __future__ import annotations

import pytest

from nicrails_observer.brake import engages
from nicrails_observer.settings import BrakeSettings


@pytest.mark.parametrize(
    ("removals", "records", "nodes", "expected"),
    [
        (0, 0, 0, False),
        (0, 100, 0, False),
        (50, 100, 50, False),
        (51, 100, 49, True),
        (10, 10, 1, False),
        (11, 11, 1, True),
        (1, 1, 0, True),
        (1, 5000, 0, True),
        (1000, 5000, 4000, False),
    ],
)
@pytest.mark.fault("O10")
def test_engages_for_mass_removals_and_for_an_empty_list(
    removals: int, records: int, nodes: int, *, expected: bool
) -> None:
    """O10: more than half of the records and more than ten of them, or any removal on the word of an empty list."""
    assert engages(BrakeSettings(), removals=removals, records=records, nodes=nodes) is expected
