"""A machine on disk: a sysfs tree, programs, and answers that can be damaged and healed while something runs on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nicrails_faker.machines.model import Captures, Machine
from nicrails_faker.machines.programs import Answer, Completed, run_nvidia_smi, set_answer, write_programs
from nicrails_faker.machines.sysfs import write_sysfs


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledMachine:
    """A machine that :func:`write` has put into a directory."""

    machine: Machine
    directory: Path

    @property
    def sysfs_root(self) -> Path:
        """What ``/sys`` is on the machine."""
        return self.directory / "sys"

    @property
    def lldpctl(self) -> Path:
        """The program that answers ``-u SOCKET -f json0``."""
        return self.directory / "bin" / "lldpctl"

    @property
    def nvidia_smi(self) -> Path:
        """The program that answers the two commands of a GPU source."""
        return self.directory / "bin" / "nvidia-smi"

    @property
    def answers(self) -> Path:
        """The folder of the files that the programs print."""
        return self.directory / "answers"

    def answer(self, answer: Answer, output: bytes | None, *, exit_status: int = 0) -> None:
        """Exchange what a command prints, from its next run on.

        Args:
            answer: Which command.
            output: What it prints; None if lldpd or the NVIDIA driver is not there. A failing ``lldpctl`` prints it
                to standard error, as the real one does.
            exit_status: How it ends.
        """
        set_answer(self.answers, answer, output, exit_status=exit_status)

    def heal(self) -> None:
        """Let all programs answer from the machine's captures again."""
        for answer, capture in _captures(self.machine.captures).items():
            self.answer(answer, capture)

    def run_nvidia_smi(self, command: Sequence[str]) -> Completed:
        """What the machine's ``nvidia-smi`` does, without a process; ``command`` begins with the program's name."""
        return run_nvidia_smi(self.answers, command)


def write(machine: Machine, directory: Path) -> InstalledMachine:
    """Put a machine into a directory.

    Args:
        machine: From :func:`~nicrails_faker.machines.load` or :func:`~nicrails_faker.machines.shipped`.
        directory: Must not exist, or be empty.

    Raises:
        FileExistsError: There is something in the directory.
    """
    directory.mkdir(parents=True, exist_ok=True)
    write_sysfs(machine, directory / "sys")
    write_programs(directory)
    installed = InstalledMachine(machine=machine, directory=directory)
    installed.heal()
    return installed


def _captures(captures: Captures) -> dict[Answer, bytes | None]:
    return {Answer.LLDP: captures.lldp, Answer.TOPO: captures.topo, Answer.INVENTORY: captures.inventory}
