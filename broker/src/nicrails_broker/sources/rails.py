"""The interface of a rail source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from nicrails import PciAddress, RailId

Rails = Mapping[PciAddress, tuple[RailId, ...]]
"""Host PCI address of a NIC → its rail IDs: sorted, without duplicates, never empty."""


class RailSource(Protocol):
    """Finds out which NIC of this host is on which rails (``DiscoverNICRails``).

    Attributes:
        name: As in the settings and in the record's ``railSource``.
    """

    @property
    def name(self) -> str:
        """See the class."""

    async def discover(self) -> Rails:
        """Look once; an empty answer means that the host is on no rail, for certain.

        Raises:
            SourceError: It could not look, or what it saw is damaged, contradicts itself, or is not understood.
        """
