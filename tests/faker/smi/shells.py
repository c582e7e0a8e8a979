"""Running the fake nvidia-smi in the shells that containers have."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

SHELLS: tuple[tuple[str, ...], ...] = (
    ("/bin/sh",),
    *(
        (program, *arguments)
        for program, *arguments in (("dash",), ("bash", "--posix"), ("busybox", "sh"))
        if shutil.which(program)
    ),
)
"""The system's own shell, and the others that are installed here."""

VISIBLE = "MOCK_NVIDIA_VISIBLE_DEVICES"


def run(
    folder: Path,
    *arguments: str,
    visible: str | None = None,
    shell: tuple[str, ...] = (),
    environ: Mapping[str, str] = {},
) -> subprocess.CompletedProcess[str]:
    """Run ``nvidia-smi`` of a folder.

    Args:
        folder: It was written there.
        arguments: Its arguments.
        visible: What the container was given; None is no container with GPUs.
        shell: A shell to run it in; by default that of its first line.
        environ: Its environment, which has no PATH: the script must not need programs.
    """
    environment = dict(environ) | ({VISIBLE: visible} if visible is not None else {})
    words = [str(folder / "nvidia-smi"), *arguments]
    if shell:
        words = [shutil.which(shell[0]) or shell[0], *shell[1:], *words]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=30)


def output(folder: Path, *arguments: str, visible: str | None = None, shell: tuple[str, ...] = ()) -> str:
    """What it prints; it must succeed and say nothing on standard error."""
    done = run(folder, *arguments, visible=visible, shell=shell)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout
