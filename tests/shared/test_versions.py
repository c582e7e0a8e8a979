"""``--version`` of every program."""

from __future__ import annotations

import importlib
from importlib.metadata import version

import pytest


@pytest.mark.parametrize("part", ["broker", "observer", "faker"])
def test_a_program_tells_its_version(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` prints name and version of the installed distribution and ends well."""
    main = importlib.import_module(f"nicrails_{part}.__main__").main
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"nicrails-{part} {version(f'nicrails-{part}')}\n"
