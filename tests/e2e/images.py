"""The project's images as archives that containerd imports."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.cluster import programs

ROOT = Path(__file__).parent.parent.parent
TAG = "e2e"
NAMES = ("broker", "observer", "faker")


class ImagesError(RuntimeError):
    """The images could not be built; the sentence ends with the builder's words."""


def archives() -> dict[str, Path]:
    """Build the images from the work tree and save them; by the short name of each.

    Unchanged layers come from Docker's cache, unchanged archives stay.

    Raises:
        ImagesError: They could not be built.
    """
    folder = programs.cache().parents[2] / "images"
    folder.mkdir(parents=True, exist_ok=True)
    command = 'scripts/images build && scripts/images save "$1"'
    done = subprocess.run(
        ["scripts/images", "engine", "sh", "-ec", command, "sh", str(folder)],
        cwd=ROOT,
        # The lldpd of these Nodes is this machine's, and only an lldpctl of its version understands it.
        env={**os.environ, "TAG": TAG, "HOST_LLDPD": "yes"},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=900,
    )
    if done.returncode:
        raise ImagesError(f"`scripts/images build` ended with status {done.returncode}: {done.stderr[-3000:]}")
    return {name: folder / f"{name}.tar" for name in NAMES}
