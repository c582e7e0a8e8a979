"""PCI addresses in the one spelling that the record uses."""

from __future__ import annotations

import re
from typing import Self

_ADDRESS = re.compile(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([01][0-9a-fA-F])\.([0-7])", re.ASCII)


class PciAddress(str):
    """A PCI address ``dddd:bb:ss.f``: lower case, with a domain of at least four digits.

    The domain is 32 bits wide on some machines (Grace, VMD); one above ``ffff`` keeps all its digits. Addresses compare
    and sort as text, the order that JSON keys have too.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an address as sysfs (``0000:1b:00.0``) or NVML (``00000000:1B:00.0``) spells it.

        Raises:
            ValueError: The text is not a PCI address.
        """
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise ValueError(f"not a PCI address (dddd:bb:ss.f): {text[:40]!r}")
        domain, bus, slot, function = match.groups()
        return cls(f"{int(domain, 16):04x}:{bus.lower()}:{slot.lower()}.{function}")
