"""An engine and the images in it, once for all tests of this folder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.images.docker import ROOT, Images, build, remove


@pytest.fixture(scope="session")
def engine() -> Iterator[None]:
    """A Docker engine: the one that answers, else one that goes when this process ends, however it ends."""
    # `cat` ends with the pipe, and the engine with `cat`.
    command = ["scripts/images", "engine", "sh", "-c", "echo ready; exec cat"]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        ready = process.stdout.readline()
        if ready != b"ready\n":
            pytest.fail(
                f"no Docker engine: {process.communicate(timeout=60)[1].decode(errors='replace')}", pytrace=False
            )
        yield
    finally:
        process.communicate(timeout=60)


@pytest.fixture(scope="session")
def images(engine: None) -> Iterator[Images]:
    """The images of the work tree, under a tag of this run."""
    found = build(f"checked-{os.getpid()}")
    yield found
    remove(found)
