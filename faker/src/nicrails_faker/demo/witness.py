"""Puts promises to the test and tells the outcome, with the log of the process concerned where one is broken."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from nicrails_faker.demo.processes import Program, Programs
from nicrails_faker.demo.screen import Screen
from nicrails_faker.demo.waiting import NotKeptError, until

T = TypeVar("T")
PATIENCE = 15.0
"""Seconds that a promise may take; a healthy one takes about one."""


class Witness:
    """Tests promises.

    Args:
        screen: Where the outcome is told.
        programs: The services; a promise is broken at once when one of them has ended by itself.
    """

    def __init__(self, screen: Screen, programs: Programs) -> None:
        self._screen = screen
        self._programs = programs

    async def promise(
        self,
        text: str,
        condition: Callable[[], Awaitable[T]],
        *,
        about: Program,
        within: float = PATIENCE,
        interval: float = 0.05,
        detail: Callable[[T], str] = lambda _: "",
    ) -> bool:
        """Whether a condition comes to hold.

        Args:
            text: The promise.
            condition: As in :func:`~nicrails_faker.demo.waiting.until`.
            about: Whose log is shown if it is broken.
            within: The deadline in seconds.
            interval: Seconds between two looks.
            detail: What is told beside the promise when it is kept, of what the condition gave.
        """
        try:
            result = await until(condition, within=within, hopeless=self._hopeless, interval=interval)
        except NotKeptError as error:
            return self.broken(text, str(error), about=about)
        return self._screen.promise(text + detail(result), kept=True)

    def check(self, text: str, kept: bool, *, about: Program, why: str = "it is not so") -> bool:
        """Whether something is the case now."""
        return self._screen.promise(text, kept=True) if kept else self.broken(text, why, about=about)

    def broken(self, text: str, why: str, *, about: Program) -> bool:
        """Tell that a promise did not hold."""
        ended = self._ended()
        return self._screen.promise(text, kept=False, why=why, log=(ended[0] if ended else about).tail())

    def _ended(self) -> list[Program]:
        return [program for program in self._programs.running if program.exit_code is not None]

    def _hopeless(self) -> str | None:
        for program in self._ended():
            return f"the {program.name} ended with exit code {program.exit_code}"
        return None
