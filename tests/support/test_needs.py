"""The reporting of what could not run here, by pytest runs of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUITE = """
import pytest
from tests.support import needs
needs.NEEDS["wreath"] = needs.Need(probe=lambda: "no laurels", remedy="grow a bay", unproven="")
needs.NEEDS["oracle"] = needs.Need(probe=lambda: "no oracle here", remedy="go to Delphi", unproven="no omen was read")

@pytest.fixture(scope="module")
def oracle():
    needs.require("oracle")

@pytest.mark.parametrize("api", ["embedded", pytest.param("real", marks=pytest.mark.needs("oracle"))])
def test_conforms(api):
    pass

def test_asks(oracle):
    pass

@pytest.mark.needs("oracle", "wreath")
def test_needs():
    raise RuntimeError("ran")
"""


def run(folder: Path, suite: str = SUITE, **environment: str) -> tuple[int, str]:
    """Run a suite with the plugin; its exit status and what pytest printed."""
    (folder / "test_suite.py").write_text(suite)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -ra --strict-markers\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.support.needs",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:asyncio",
        str(folder),
    ]
    inherited = {name: value for name, value in os.environ.items() if name not in {"REQUIRE", "PYTEST_ADDOPTS"}}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**inherited, **environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    return done.returncode, done.stdout + done.stderr


def test_missing_needs_are_listed_by_cause(tmp_path: Path) -> None:
    """Tests by cause and file, what would make them run, and that their like ran in another variant only."""
    status, printed = run(tmp_path)
    assert status == 0
    summary = printed[printed.index("not run, because …") :]
    assert "no oracle here: 3 tests not run" in summary
    assert "3 in test_suite.py" in summary
    assert "1 of them ran in another variant only: no omen was read" in summary
    assert "to run them: go to Delphi" in summary
    assert "no laurels: 1 test not run" in summary, "a test that lacks two things is listed for both"
    assert "= 1 passed, 3 skipped in " in printed.splitlines()[-1], "pytest has the last line"


@pytest.mark.parametrize("required", ["all", "root,oracle"])
def test_required_needs_are_errors(tmp_path: Path, required: str) -> None:
    """With REQUIRE a missing need fails the run, with the cause and the remedy."""
    # REQUIRE is read before a suite can register a need of its own.
    suite = SUITE.replace("import pytest\n", f"import os, pytest\nos.environ['REQUIRE'] = {required!r}\n", 1)
    status, printed = run(tmp_path, suite)
    assert status == 1
    assert "REQUIRE does not allow to leave this out, but no oracle here: go to Delphi" in printed
    assert "1 passed, 3 errors in " in printed.splitlines()[-1]


@pytest.mark.parametrize(
    ("suite", "environment", "sentence"),
    [
        (SUITE, {"REQUIRE": "al"}, "REQUIRE names al; known: all, control-plane"),
        (SUITE.replace('needs("oracle"))])', 'needs("orakel"))])'), {}, "needs('orakel',); known: control-plane"),
    ],
    ids=["REQUIRE", "marker"],
)
def test_misspelt_needs_are_refused(tmp_path: Path, suite: str, environment: dict[str, str], sentence: str) -> None:
    """A need that nobody knows ends the run before a test is passed over in silence."""
    status, printed = run(tmp_path, suite, **environment)
    assert status == pytest.ExitCode.USAGE_ERROR
    assert sentence in printed
