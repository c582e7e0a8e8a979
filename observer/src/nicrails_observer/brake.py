"""The brake against mass removal: when a removal is so large that a fault of the list is likelier than the truth."""

from __future__ import annotations

from nicrails_observer.settings import BrakeSettings


def engages(settings: BrakeSettings, *, removals: int, records: int, nodes: int) -> bool:
    """Whether a removal needs a second, complete confirmation.

    Args:
        settings: The thresholds.
        removals: Records that would go.
        records: Records that there are.
        nodes: Nodes that the latest list shows; none at all is never believed at once, for somewhere this program runs.
    """
    if removals == 0:
        return False
    return nodes == 0 or (removals > settings.minimum and removals > settings.fraction * records)
