"""Lengths of time as people write them in Kubernetes."""

from __future__ import annotations

import re
from typing import Self

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)", re.ASCII)


class Duration(float):
    """A length of time in seconds."""

    __slots__ = ()

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read ``5m``, ``1m30s``, ``250ms``, ``0`` or a number of seconds.

        Raises:
            ValueError: It is something else, negative, or longer than a year.
        """
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            seconds = float(value)
        elif isinstance(value, str) and value == "0":
            seconds = 0.0
        elif isinstance(value, str) and _PART.sub("", value) == "" and value:
            seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(value))
        else:
            raise ValueError(f"expected a duration such as 5m, 90s or 0, found {value!r}"[:200])
        if not 0 <= seconds <= 366 * 86400:
            raise ValueError(f"expected a duration between 0 and a year, found {value!r}"[:200])
        return cls(seconds)
