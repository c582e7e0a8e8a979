from __future__ import annotations

import pytest

from nicrails.text import excerpt, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain äö", "plain äö"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("a\u202eb", "a\\u202eb"),
        ("\ud800", "\\ud800"),
    ],
)
def test_nothing_unprintable_comes_through(text: str, shown: str) -> None:
    """Control characters, terminal escapes and direction marks are shown as escapes."""
    assert printable(text) == shown


def test_excerpt() -> None:
    """An excerpt is one line, printable and within its limit, however long the text is."""
    assert excerpt("a\n\n  b\tc") == "a b c"
    assert excerpt(b"\xff\xfe ok") == "\ufffd\ufffd ok"
    assert len(excerpt("x" * 10_000_000)) == 256
    assert len(excerpt("\x1b" * 1000, 50)) == 50
    assert excerpt("\x1b" * 1000, 50).endswith("…")
