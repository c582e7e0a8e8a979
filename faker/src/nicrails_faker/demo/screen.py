"""What a person sees: what happens right now, and which promises held.

Everything is plain lines, so a terminal, a pipe and a log of a build show the same; colour and symbols are added where
the output can show them.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TextIO

from nicrails.text import excerpt, printable

_COLOURS = {"good": "\x1b[32m", "bad": "\x1b[1;31m", "title": "\x1b[1m", "dim": "\x1b[2m"}
_RESET = "\x1b[0m"
MAX_REASON = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How output is written.

    Attributes:
        width: Columns.
        unicode: Whether symbols outside ASCII can be shown.
        colour: Whether escape sequences may be used.
    """

    width: int
    unicode: bool
    colour: bool

    @classmethod
    def of(cls, stream: TextIO, environ: Mapping[str, str] = os.environ) -> Style:
        """What a stream can show: its encoding, whether it is a terminal, and https://no-color.org."""
        terminal = stream.isatty()
        columns = shutil.get_terminal_size((100, 24)).columns if terminal else 100
        return cls(
            width=min(max(columns, 60), 120),
            unicode=(stream.encoding or "").lower().replace("-", "").startswith("utf8"),
            colour=terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb",
        )

    def text(self, text: str) -> str:
        """The text with its symbols replaced by ASCII where they can not be shown."""
        if self.unicode:
            return text
        for symbol, plain in (("→", "->"), ("…", "..."), ("─", "-")):
            text = text.replace(symbol, plain)
        return text.encode("ascii", "backslashreplace").decode()

    def paint(self, text: str, colour: str) -> str:
        """The text in a colour of ``good``, ``bad``, ``title`` and ``dim``."""
        return f"{_COLOURS[colour]}{text}{_RESET}" if self.colour else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """Something that nicrails promises, and whether it was kept.

    Attributes:
        text: The promise.
        kept: Whether it held.
        why: If not, what was seen instead.
        log: If not, the end of the log of the process concerned.
    """

    text: str
    kept: bool
    why: str = ""
    log: tuple[str, ...] = ()


class Screen:
    """Writes the demonstration, line by line, and remembers the promises.

    Args:
        stream: Where to.
        style: As from :meth:`Style.of`.
        clock: Monotonic seconds.
    """

    def __init__(
        self, stream: TextIO = sys.stdout, style: Style | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream
        self.style = style or Style.of(stream)
        self._clock = clock
        self._start = clock()
        self.promises: list[Promise] = []

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self._clock() - self._start

    @property
    def broken(self) -> list[Promise]:
        """The promises that were not kept."""
        return [promise for promise in self.promises if not promise.kept]

    def title(self, text: str) -> None:
        """Begin an act."""
        self.lines("")
        self.lines(f"── {text} ──", colour="title")

    def doing(self, text: str) -> None:
        """Say what happens now."""
        self.prose(text, start=f"{self.elapsed:6.1f} s  ")

    def lines(self, *lines: str, colour: str | None = None) -> None:
        """Write lines as they are."""
        for line in lines:
            shown = self.style.text(line)
            self._stream.write((self.style.paint(shown, colour) if colour and shown else shown) + "\n")
        self._stream.flush()

    def prose(self, text: str, *, start: str = "", hang: int | None = None, paint: tuple[str, str] = ("", "")) -> None:
        """Write a text, folded to the width.

        Args:
            text: One paragraph.
            start: What its first line begins with.
            hang: Columns that the other lines are indented by; by default as many as ``start`` has.
            paint: A part of ``start`` and the colour that it gets.
        """
        indent = " " * (len(start) if hang is None else hang)
        folded = textwrap.wrap(
            self.style.text(text),
            self.style.width,
            initial_indent=start,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        part, colour = paint
        first, *rest = folded or [start.rstrip()]
        if part:
            first = first.replace(part, self.style.paint(part, colour), 1)
        self._stream.write("\n".join([first, *rest]) + "\n")
        self._stream.flush()

    def promise(self, text: str, *, kept: bool, why: str = "", log: tuple[str, ...] = ()) -> bool:
        """Tell whether a promise held; gives ``kept`` back."""
        self.promises.append(Promise(text=text, kept=kept, why=why, log=log))
        good, bad = ("✓", "✗") if self.style.unicode else ("[ok]", "[FAILED]")
        mark, colour = (good, "good") if kept else (bad, "bad")
        self.prose(text, start=f"{self.elapsed:6.1f} s  {mark} ", paint=(mark, colour))
        if not kept:
            self.prose(excerpt(why, MAX_REASON), start=" " * 12)
        return kept

    def summary(self, *, timed: bool = True) -> int:
        """Tell what held and what did not; gives the exit code.

        Args:
            timed: Whether the time that it took is of interest.
        """
        self.lines("")
        broken = self.broken
        if not broken and self.promises:
            duration = f", in {self.elapsed:.1f} s" if timed else ""
            self.lines(f"All {len(self.promises)} promises held{duration}.", colour="good")
            return 0
        self.lines(f"{len(broken)} of {len(self.promises)} promises did NOT hold:", colour="bad")
        for promise in broken:
            self.prose(promise.text, start="  * ")
            self.prose(excerpt(promise.why, MAX_REASON), start="    ")
            if promise.log:
                self.lines("    the end of the log:", *(f"      {printable(line)}" for line in promise.log))
        return 1
