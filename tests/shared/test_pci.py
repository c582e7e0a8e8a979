from __future__ import annotations

import pytest

from nicrails import PciAddress


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0000:1b:00.0", "0000:1b:00.0"),
        ("00000000:1B:00.0", "0000:1b:00.0"),
        ("0000000F:01:00.0", "000f:01:00.0"),
        ("00010000:C1:1F.7", "10000:c1:1f.7"),
        ("FFFFFFFF:00:00.0", "ffffffff:00:00.0"),
    ],
)
def test_canonical_form(text: str, address: str) -> None:
    """Every spelling of an address has one canonical form, and a domain above ffff keeps all its digits."""
    assert PciAddress.parse(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1b:00.0",
        "0000:1b:00",
        "0000:1b:20.0",
        "0000:1b:00.8",
        "0x1b",
        "000000000:1b:00.0",
        "0000:1b:00.0\n",
        "٠٠٠٠:1b:00.0",
    ],
)
def test_refusal(text: str) -> None:
    """What is not a complete address is refused, never completed."""
    with pytest.raises(ValueError, match="not a PCI address"):
        PciAddress.parse(text)
