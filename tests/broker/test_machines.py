"""Whole machines, from their sysfs tree and their programs' output to the record."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from nicrails_broker.__main__ import main
from nicrails_faker.machines import Answer, InstalledMachine
from tests.broker.site import MACHINES, golden, install

NAMES = sorted(folder.name for folder in MACHINES.iterdir() if (folder / "machine.json").exists())
RECORDED = [name for name in NAMES if (MACHINES / name / "record.json").exists()]
REFUSED = [name for name in NAMES if (MACHINES / name / "refusal.txt").exists()]


@pytest.fixture(autouse=True)
def _outside_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """No API server is known."""
    for name in ("KUBERNETES_SERVICE_HOST", "NODE_NAME"):
        monkeypatch.delenv(name, raising=False)


def arguments(machine: InstalledMachine, folder: Path, *, from_files: bool = True) -> list[str]:
    """The command line of one discovery on this machine."""
    rails = machine.machine.settings
    config = folder / "config.yaml"
    rule = {"interfaceRegex": rails.interface_regex, "railID": rails.rail_id}
    config.write_text(
        yaml.safe_dump(
            {
                "nodeMetadata": {"plugins": {"gpuNicRailMapping": {"railSource": {"hostLLDP": rule}}}},
                "host": {"lldpctl": str(machine.lldpctl)},
            }
        )
    )
    given = ["--node-uid", rails.node_uid, "--sysfs-root", str(machine.sysfs_root)]
    if from_files:
        given += ["--lldp-file", str(machine.answers / Answer.LLDP.value)]
    for option, answer in (("--topo-file", Answer.TOPO), ("--inventory-file", Answer.INVENTORY)):
        if (machine.answers / answer.value).exists():
            given += [option, str(machine.answers / answer.value)]
    return ["discover", "--config", str(config), *given]


def test_there_are_machines_of_both_kinds() -> None:
    """The fixtures are found."""
    assert len(RECORDED) >= 8
    assert len(REFUSED) >= 2


@pytest.mark.parametrize("name", RECORDED)
def test_a_machine_gives_its_golden_record(
    name: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The record of a whole machine is its golden one, byte for byte."""
    machine = install(name, tmp_path / name)
    assert main(arguments(machine, tmp_path)) == 0
    assert capfdbinary.readouterr().out == golden(name) + b"\n"


@pytest.mark.parametrize("name", REFUSED)
def test_a_machine_that_can_not_be_recorded_is_refused_in_one_sentence(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A refusal is exit status 1, nothing on standard output, and one sentence that names the cause."""
    machine = install(name, tmp_path / name)
    assert main(arguments(machine, tmp_path)) == 1
    captured = capfd.readouterr()
    assert captured.out == ""
    sentence = captured.err.splitlines()[-1].lower()
    for fragment in (MACHINES / name / "refusal.txt").read_text().splitlines():
        assert fragment.lower() in sentence


@pytest.mark.parametrize("name", ["cpu-only", "h100-8gpu-dual-port"])
def test_lldpctl_is_run_where_no_file_is_given(
    name: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """An input without a file is asked for on the host: the result is the same."""
    machine = install(name, tmp_path / name)
    assert main(arguments(machine, tmp_path, from_files=False)) == 0
    assert capfdbinary.readouterr().out == golden(name) + b"\n"


def test_a_record_without_a_known_node_has_a_uid_of_zeros(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Without ``--node-uid`` and without an API server the UID is the documented one."""
    machine = install("cpu-only", tmp_path / "machine")
    line = arguments(machine, tmp_path)
    index = line.index("--node-uid")
    del line[index : index + 2]
    assert main(line) == 0
    assert b'"nodeUID":"00000000-0000-0000-0000-000000000000"' in capfdbinary.readouterr().out


def test_a_machine_without_rails_has_no_record(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Where the record would be removed, the discovery shows ``null``."""
    machine = install("cpu-only", tmp_path / "machine")
    machine.answer(Answer.LLDP, b'{"lldp": [{}]}')
    assert main(arguments(machine, tmp_path)) == 0
    captured = capfdbinary.readouterr()
    assert captured.out == b"null\n"
    assert b"no LLDP neighbour on" in captured.err


def test_gpus_without_any_output_of_theirs_are_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """On a machine with GPUs the two outputs must come from somewhere."""
    machine = install("h100-8gpu-dual-port", tmp_path / "machine")
    line = arguments(machine, tmp_path)
    del line[line.index("--topo-file") :]
    assert main(line) == 1
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "give its file, or access to an API server" in captured.err


def test_half_an_inventory_is_never_a_record(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Output that lost whole rows is refused, since the two views do not fit."""
    machine = install("h100-8gpu-dual-port", tmp_path / "machine")
    inventory = (machine.answers / Answer.INVENTORY.value).read_bytes()
    machine.answer(Answer.INVENTORY, b"".join(inventory.splitlines(keepends=True)[:4]))
    assert main(arguments(machine, tmp_path)) == 1
    assert "the inventory lists 4 GPUs and the topology 8" in capfd.readouterr().err
