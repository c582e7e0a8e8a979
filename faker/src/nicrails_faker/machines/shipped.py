"""The machines that come with the package, made from real captures."""

from __future__ import annotations

import importlib.resources
from importlib.resources.abc import Traversable
from pathlib import Path

from nicrails_faker.machines.folder import load
from nicrails_faker.machines.model import Machine


def names() -> tuple[str, ...]:
    """The names of the shipped machines, sorted."""
    return tuple(sorted(folder.name for folder in _data().iterdir() if (folder / "machine.json").is_file()))


def shipped(name: str) -> Machine:
    """One of the shipped machines.

    Raises:
        KeyError: There is none of this name; the message lists those that there are.
    """
    if name not in names():
        raise KeyError(f"no machine {name!r} is shipped; there are {', '.join(names())}")
    return load(_data() / name)


def find(name: str) -> Machine:
    """A machine by its name, or by the path of its folder, which contains a ``/``.

    Raises:
        KeyError: There is none of this name.
        MachineError: The folder does not describe one.
    """
    return load(Path(name)) if "/" in name else shipped(name)


def _data() -> Traversable:
    return importlib.resources.files("nicrails_faker.machines") / "data"
