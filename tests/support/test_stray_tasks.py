"""Tasks that outlive their test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SUITE = """
import asyncio
import pytest

async def test_leaves_one():
    task = asyncio.create_task(asyncio.sleep(3600), name="the-stray-one")
    await asyncio.sleep(0)

async def test_leaves_one_that_is_finishing():
    task = asyncio.create_task(asyncio.sleep(0.05))
    await asyncio.sleep(0)

@pytest.fixture
async def owner():
    task = asyncio.create_task(asyncio.sleep(3600))
    yield
    task.cancel()

async def test_has_an_owner_in_a_fixture(owner):
    pass

def test_has_no_loop():
    pass
"""


def test_a_stray_task_fails_its_test(tmp_path: Path) -> None:
    """The test that left a task is failed by name of the task; owned and finishing tasks are fine."""
    (tmp_path / "test_suite.py").write_text(SUITE)
    options = "asyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {Path(__file__).parents[2]}\n{options}")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.support.stray_tasks",
        str(tmp_path),
    ]
    environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=50
    )
    assert "4 passed, 1 error in " in done.stdout.splitlines()[-1], done.stdout + done.stderr
    assert "ERROR at teardown of test_leaves_one _" in done.stdout
    assert "tasks outlived the test: " in done.stdout
    assert "the-stray-one" in done.stdout
