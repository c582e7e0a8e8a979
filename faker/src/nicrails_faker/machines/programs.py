"""The programs of a simulated machine, which answer from files that can be exchanged at any time.

There are two ways to ask: as programs on disk (``bin/lldpctl``, ``bin/nvidia-smi``), for what is run as a process, and
in this process (:func:`run_nvidia_smi`), for what would be run in a container. Both read the same files.
"""

from __future__ import annotations

import enum
import importlib.resources
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_SCRIPTS = ("lldpctl", "nvidia-smi")
NO_DRIVER = (
    b"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    b"Make sure that the latest NVIDIA driver is installed and running.\n\n"
)
BAD_ARGUMENTS = b"Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n"


class Answer(enum.Enum):
    """One answer of a machine's programs; the value is the name of its file in ``answers/``."""

    LLDP = "lldp.json"
    """``lldpctl -u SOCKET -f json0``"""
    TOPO = "topo.txt"
    """``nvidia-smi topo -m``"""
    INVENTORY = "inventory.txt"
    """``nvidia-smi --query-gpu=index,uuid,pci.bus_id --format=csv,noheader``"""


_NVIDIA_SMI: dict[tuple[str, ...], Answer] = {
    ("topo", "-m"): Answer.TOPO,
    ("--query-gpu=index,uuid,pci.bus_id", "--format=csv,noheader"): Answer.INVENTORY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """What came of a command."""

    exit_status: int
    stdout: bytes = b""
    stderr: bytes = b""


def write_programs(directory: Path) -> None:
    """Create ``bin/`` and an empty ``answers/`` in a machine's directory."""
    (directory / "bin").mkdir(parents=True)
    (directory / "answers").mkdir()
    scripts = importlib.resources.files("nicrails_faker.machines") / "scripts"
    for name in _SCRIPTS:
        program = directory / "bin" / name
        program.write_bytes((scripts / f"{name}.sh").read_bytes())
        program.chmod(0o755)


def set_answer(answers: Path, answer: Answer, output: bytes | None, *, exit_status: int = 0) -> None:
    """Exchange an answer; a program that runs at this moment gives the old or the new one, never a mixture.

    Args:
        answers: The machine's ``answers/``.
        answer: Which.
        output: What is printed; None if lldpd or the NVIDIA driver is not there. ``nvidia-smi`` prints to standard
            output also when it fails, ``lldpctl`` then prints to standard error.
        exit_status: How the program ends.
    """
    text, failed = answers / answer.value, answers / f"{answer.value}.failed"
    if exit_status:
        # Status and text are one file, since two can not be exchanged at once.
        _replace(failed, b"%d\n%b" % (exit_status, output or b""))
        return
    if output is None:
        text.unlink(missing_ok=True)
    else:
        _replace(text, output)
    failed.unlink(missing_ok=True)


def run_nvidia_smi(answers: Path, command: Sequence[str]) -> Completed:
    """What ``bin/nvidia-smi`` does, without a process.

    Args:
        answers: The machine's ``answers/``.
        command: The whole argument list, with the program's name first.
    """
    if not command or Path(command[0]).name != "nvidia-smi":
        name = command[0] if command else ""
        return Completed(exit_status=127, stderr=f"{name}: not found in this simulated container\n".encode())
    answer = _NVIDIA_SMI.get(tuple(command[1:]))
    if answer is None:
        return Completed(exit_status=2, stdout=BAD_ARGUMENTS)
    failed = _read(answers / f"{answer.value}.failed")
    if failed is not None:
        status, _, text = failed.partition(b"\n")
        return Completed(exit_status=int(status), stdout=text)
    stdout = _read(answers / answer.value)
    return Completed(exit_status=9, stdout=NO_DRIVER) if stdout is None else Completed(exit_status=0, stdout=stdout)


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None


def _replace(file: Path, data: bytes) -> None:
    beside = file.with_name(f".{file.name}.new")
    beside.write_bytes(data)
    beside.replace(file)
