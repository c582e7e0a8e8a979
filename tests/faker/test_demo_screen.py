"""What the demonstration's output looks like where."""

from __future__ import annotations

import io

from nicrails_faker.demo import Screen, Style


class Stream(io.StringIO):
    """A stream that is a terminal or not, and of an encoding."""

    def __init__(self, *, terminal: bool, encoding: str) -> None:
        super().__init__()
        self._terminal = terminal
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]  # the base class has a plain attribute
        """As a real stream says it."""
        return self._encoding

    def isatty(self) -> bool:
        """Whether this is a terminal."""
        return self._terminal


def screen(style: Style) -> tuple[Screen, io.StringIO]:
    """A screen at second 0 and what is written to it."""
    stream = io.StringIO()
    return Screen(stream, style, clock=lambda: 0.0), stream


def test_colour_is_for_terminals() -> None:
    """Colours are used on a terminal, unless NO_COLOR or a dumb terminal says otherwise."""
    terminal, pipe = Stream(terminal=True, encoding="utf-8"), Stream(terminal=False, encoding="utf-8")
    assert Style.of(terminal, {}).colour
    assert not Style.of(terminal, {"NO_COLOR": "1"}).colour
    assert not Style.of(terminal, {"TERM": "dumb"}).colour
    assert not Style.of(pipe, {}).colour


def test_symbols_need_utf8() -> None:
    """Symbols are used where the encoding has them."""
    assert Style.of(Stream(terminal=False, encoding="UTF-8"), {}).unicode
    assert not Style.of(Stream(terminal=False, encoding="ascii"), {}).unicode
    assert not Style.of(Stream(terminal=False, encoding="iso8859-1"), {}).unicode


def test_ascii_output_is_ascii() -> None:
    """Without UTF-8 every line is ASCII, whatever a record or a sentence contains."""
    shown, stream = screen(Style(width=80, unicode=False, colour=False))
    shown.title("Rails → NICs")
    shown.doing("waiting…")
    shown.promise("kept", kept=True)
    shown.promise("broken", kept=False, why="é")
    assert stream.getvalue().isascii()
    assert "-- Rails -> NICs --" in stream.getvalue()
    assert "   0.0 s  [ok] kept\n" in stream.getvalue()
    assert "   0.0 s  [FAILED] broken\n            \\xe9\n" in stream.getvalue()


def test_only_marks_are_painted() -> None:
    """A promise's mark is green or red, its text is plain."""
    shown, stream = screen(Style(width=80, unicode=True, colour=True))
    shown.promise("kept", kept=True)
    shown.promise("broken", kept=False)
    assert "\x1b[32m✓\x1b[0m kept\n" in stream.getvalue()
    assert "\x1b[1;31m✗\x1b[0m broken\n" in stream.getvalue()


def test_long_sentences_are_folded() -> None:
    """A long sentence goes on under its own beginning."""
    shown, stream = screen(Style(width=60, unicode=True, colour=False))
    shown.doing("word " * 20)
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 60
    assert all(line.startswith("          word") for line in lines[1:])


def test_summary_names_what_broke() -> None:
    """The exit code is 0 only if promises were made and all held; else they are named, with reason and log."""
    shown, stream = screen(Style(width=80, unicode=True, colour=False))
    assert shown.summary() == 1
    shown.promise("the sun rises", kept=True)
    assert shown.summary() == 0
    shown.promise("the moon rises", kept=False, why="there is\x1b[2J none", log=("line 1", "line\x07 2"))
    stream.truncate(0)
    assert shown.summary() == 1
    told = stream.getvalue()
    assert "1 of 2 promises did NOT hold:" in told
    assert "  * the moon rises\n    there is\\x1b[2J none\n    the end of the log:\n      line 1\n" in told
    assert "line\\x07 2" in told
