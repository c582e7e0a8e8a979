"""The programs of simulated machines."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from nicrails_faker.machines import Answer, InstalledMachine, names, shipped, write

LLDP = ["-u", "/run/lldpd/lldpd.socket", "-f", "json0"]
TOPO = ["topo", "-m"]
INVENTORY = ["--query-gpu=index,uuid,pci.bus_id", "--format=csv,noheader"]


@pytest.fixture
def machine(tmp_path: Path) -> InstalledMachine:
    """A machine with GPUs, on disk."""
    return write(shipped("gb200-4gpu"), tmp_path / "machine")


def run(program: Path, arguments: list[str]) -> tuple[int, bytes, bytes]:
    """Run a program of the machine; gives its exit status, standard output and standard error."""
    done = subprocess.run([program, *arguments], capture_output=True, check=False, timeout=10, env={"PATH": ""})
    return done.returncode, done.stdout, done.stderr


def nvidia_smi(machine: InstalledMachine, arguments: list[str]) -> tuple[int, bytes]:
    """What nvidia-smi answers, asked in both ways, which must agree."""
    status, stdout, stderr = run(machine.nvidia_smi, arguments)
    inside = machine.run_nvidia_smi(["nvidia-smi", *arguments])
    assert (inside.exit_status, inside.stdout, inside.stderr) == (status, stdout, stderr)
    assert stderr == b""
    return status, stdout


def test_lldpctl_prints_the_capture(machine: InstalledMachine) -> None:
    """``lldpctl -u SOCKET -f json0`` prints the capture byte for byte, whatever the environment."""
    assert run(machine.lldpctl, LLDP) == (0, machine.machine.captures.lldp, b"")
    assert run(machine.lldpctl, ["-f", "json0"]) == (0, machine.machine.captures.lldp, b"")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-Z"], b"lldpctl: invalid option -- 'Z'\nUsage:"),
        (["-u"], b"lldpctl: option requires an argument -- 'u'\nUsage:"),
        (["-f", "json"], b"answers -f json0 without a command only"),
        ([], b"answers -f json0 without a command only"),
        ([*LLDP, "show", "neighbors"], b"answers -f json0 without a command only"),
    ],
)
def test_lldpctl_refuses_other_arguments(machine: InstalledMachine, arguments: list[str], said: bytes) -> None:
    """Other arguments than those of the contract fail with exit status 1 and nothing on standard output."""
    status, stdout, stderr = run(machine.lldpctl, arguments)
    assert (status, stdout) == (1, b"")
    assert said in stderr


@pytest.mark.parametrize("name", names())
def test_nvidia_smi_prints_the_captures(name: str, tmp_path: Path) -> None:
    """Both commands print the capture byte for byte; without GPUs they fail as they do without a driver."""
    machine = write(shipped(name), tmp_path / "machine")
    captures = machine.machine.captures
    for arguments, capture in ((TOPO, captures.topo), (INVENTORY, captures.inventory)):
        status, stdout = nvidia_smi(machine, arguments)
        if capture is None:
            assert status == 9
            assert stdout.startswith(b"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
        else:
            assert (status, stdout) == (0, capture)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["topo"],
        ["topo -m"],
        ["topo", "-m", "-i", "0"],
        ["topo", "-mp"],
        ["--query-gpu=index,uuid,pci.bus_id", "--format=csv"],
        [INVENTORY[1], INVENTORY[0]],
        ["-L"],
    ],
)
def test_nvidia_smi_refuses_other_arguments(machine: InstalledMachine, arguments: list[str]) -> None:
    """Anything but the two commands of the contract fails with exit status 2."""
    status, stdout = nvidia_smi(machine, arguments)
    assert status == 2
    assert stdout.startswith(b"Invalid combination of input arguments")


def test_other_programs_are_not_there(machine: InstalledMachine) -> None:
    """A container of the machine has no other program than nvidia-smi."""
    assert machine.run_nvidia_smi(["sh", "-c", "nvidia-smi topo -m"]).exit_status == 127
    assert machine.run_nvidia_smi([]).exit_status == 127


def test_answers_can_be_damaged_and_healed(machine: InstalledMachine) -> None:
    """An exchanged answer is what the next run gives, with its exit status, until the machine is healed."""
    machine.answer(Answer.TOPO, b"half a matr")
    assert nvidia_smi(machine, TOPO) == (0, b"half a matr")
    machine.answer(Answer.TOPO, b"Failed to run topology matrix\n", exit_status=255)
    assert nvidia_smi(machine, TOPO) == (255, b"Failed to run topology matrix\n")
    machine.answer(Answer.INVENTORY, None)
    assert nvidia_smi(machine, INVENTORY)[0] == 9
    machine.answer(Answer.LLDP, b"Aborted\n", exit_status=134)
    assert run(machine.lldpctl, LLDP) == (134, b"", b"Aborted\n")
    machine.answer(Answer.LLDP, None)
    status, stdout, stderr = run(machine.lldpctl, LLDP)
    assert (status, stdout) == (1, b"")
    assert stderr.endswith(b"unable to connect to socket /run/lldpd/lldpd.socket: No such file or directory\n")
    machine.heal()
    captures = machine.machine.captures
    assert nvidia_smi(machine, TOPO) == (0, captures.topo)
    assert nvidia_smi(machine, INVENTORY) == (0, captures.inventory)
    assert run(machine.lldpctl, LLDP) == (0, captures.lldp, b"")


def test_an_answer_can_be_exchanged_by_hand(machine: InstalledMachine) -> None:
    """The files in ``answers/`` are ordinary ones that a person may edit."""
    (machine.answers / "topo.txt").write_bytes(b"by hand\n")
    assert nvidia_smi(machine, TOPO) == (0, b"by hand\n")
