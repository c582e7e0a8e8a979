"""Foreign text made safe to show in a log line, an error or a health report."""

from __future__ import annotations

EXCERPT_LENGTH = 256


def printable(text: str) -> str:
    r"""The text with everything that does not print (control characters, escapes, lone surrogates) as ``\x1b`` forms."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def excerpt(text: str | bytes, limit: int = EXCERPT_LENGTH) -> str:
    """At most ``limit`` characters of a text on one line, safe to print; a cut is shown by ``…``."""
    if isinstance(text, bytes):
        text = text[: 4 * limit + 4].decode("utf-8", "replace")
    head = printable(" ".join(text[: limit * 2].split()))
    if len(head) <= limit and len(text) <= limit * 2:
        return head
    return head[: limit - 1] + "…"
