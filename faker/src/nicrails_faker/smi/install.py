"""Putting ``nvidia-smi`` and its files into a folder of the host, so that nobody ever reads half of a state.

``<folder>/nvidia-smi`` is the script. ``<folder>/nvidia-smi.d`` is the folder to mount; ``current`` in it is a symbolic
link to the files of one state, and is exchanged in one step. A script that runs stays in the state it has begun with, so
the state before is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.resources
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from nicrails_faker.mig import NodeTopology
from nicrails_faker.smi.hardware import Hardware, hardware_of
from nicrails_faker.smi.render import render

PROGRAM = "nvidia-smi"
DATA = "nvidia-smi.d"
CONTAINER_PROGRAM = "/bin/nvidia-smi"
CONTAINER_DATA = "/run/nicrails-faker/nvidia-smi"
"""Where the script looks for the files in other people's containers."""

_CURRENT = "current"
_STATE = "state-"
_NEW = ".new-"


def write(folder: Path, topology: NodeTopology) -> Hardware:
    """Write the script and its files; nothing is written where nothing changes.

    Args:
        folder: Is made if need be. One process writes into it.
        topology: What is to be shown.

    Returns:
        The machine that is shown.

    Raises:
        OSError: It could not be written; what was there before still is.
    """
    hardware = hardware_of(topology)
    data = folder / DATA
    data.mkdir(parents=True, exist_ok=True)
    # Whatever the umask is: containers read it as other users.
    data.chmod(0o755)
    for leftover in (*folder.glob(f"{_NEW}*"), *data.glob(f"{_NEW}*")):
        _remove(leftover)
    _write_program(folder)
    _write_state(data, render(topology, hardware))
    return hardware


def _write_program(folder: Path) -> None:
    script = (importlib.resources.files("nicrails_faker.smi") / "nvidia-smi.sh").read_bytes()
    target = folder / PROGRAM
    with contextlib.suppress(OSError):
        if target.read_bytes() == script and target.stat().st_mode & 0o777 == 0o755:
            return
    new = folder / f"{_NEW}{PROGRAM}"
    new.write_bytes(script)
    new.chmod(0o755)
    new.replace(target)


def _write_state(data: Path, files: Mapping[str, str]) -> None:
    digest = hashlib.sha256("\0".join(f"{name}\0{text}" for name, text in sorted(files.items())).encode())
    name = f"{_STATE}{digest.hexdigest()[:16]}"
    link = data / _CURRENT
    before = link.readlink().name if link.is_symlink() else ""
    if before == name and link.is_dir():
        return
    new = data / f"{_NEW}{name}"
    for file, text in files.items():
        path = new / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o644)
    for made in (new, *(path for path in new.iterdir() if path.is_dir())):
        made.chmod(0o755)
    # The same state may be there from before; it is not touched while a script may read it.
    if (data / name).is_dir():
        _remove(new)
    else:
        new.rename(data / name)
    new_link = data / f"{_NEW}{_CURRENT}"
    new_link.symlink_to(name)
    new_link.replace(link)
    for state in data.glob(f"{_STATE}*"):
        if state.name not in {name, before}:
            _remove(state)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108  (a link that leads nowhere, too)
