"""The one error that every parser raises."""

from __future__ import annotations

from nicrails.text import excerpt as shorten
from nicrails.text import printable

_EXCERPT_LENGTH = 80


class ParseError(ValueError):
    """A text is not what its command prints on a healthy machine, so nothing is read from it.

    ``str()`` is one sentence on one line: source, place, problem, excerpt and, where it is known, what to do.

    Attributes:
        source: What should have printed the text, such as ``nvidia-smi topo -m``.
        line: 1-based line of the text, or None where the whole text is meant.
        column: 1-based character in that line, or None where the whole line is meant.
        excerpt: The offending text, cut, with control characters escaped; None where nothing is to be shown.
    """

    def __init__(
        self,
        source: str,
        problem: str,
        *,
        line: int | None = None,
        column: int | None = None,
        excerpt: str | None = None,
        remedy: str | None = None,
    ) -> None:
        """Keep the place and compose the sentence.

        Args:
            source: The command whose output was read.
            problem: What is wrong, without a full stop.
            line: 1-based line.
            column: 1-based character in the line.
            excerpt: The offending text, as it is; it is escaped and cut here.
            remedy: What the operator can do, without a full stop.
        """
        self.source = source
        self.line = line
        self.column = column
        self.excerpt = None if excerpt is None else shorten(excerpt, _EXCERPT_LENGTH)
        place = "" if line is None else f", line {line}" + ("" if column is None else f", column {column}")
        shown = "" if self.excerpt is None else f': "{self.excerpt}"'
        advice = "" if remedy is None else f"; {remedy}"
        super().__init__(printable(f"{source}{place}: {problem}{shown}{advice}"))
