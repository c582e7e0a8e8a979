from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from nicrails_broker.parsers import parse_inventory, parse_topology
from nicrails_faker.machines import names, shipped
from nicrails_faker.mig import NodeTopology
from nicrails_faker.smi import hardware_of, write
from tests.faker.smi.shells import SHELLS, output, run
from tests.faker.smi.topologies import MIG, cut, whole

QUERY = ("--query-gpu=index,uuid,pci.bus_id", "--format=csv,noheader")

in_each_shell = pytest.mark.parametrize("shell", SHELLS, ids=" ".join)


def _ids(topology: NodeTopology) -> tuple[str, ...]:
    return tuple(gpu.id for gpu in topology.gpus)


def _slices(topology: NodeTopology, gpu: int = 0) -> dict[str, str]:
    return {one.profile: one.uuid for one in topology.gpus[gpu].mig_instances}


@in_each_shell
def test_the_list_has_the_layout_of_nvidias(tmp_path: Path, shell: tuple[str, ...]) -> None:
    """``-L`` prints a line for each GPU and an indented one for each slice, in the order of their GPU instances."""
    topology = cut()
    write(tmp_path, topology)
    uuids, (first, second) = _slices(topology), _ids(topology)
    assert output(tmp_path, "-L", shell=shell) == (
        f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: {first})\n"
        f"  MIG 3g.20gb     Device  0: (UUID: {uuids['3g.20gb']})\n"
        f"  MIG 2g.10gb     Device  1: (UUID: {uuids['2g.10gb']})\n"
        f"  MIG 1g.5gb+me   Device  2: (UUID: {uuids['1g.5gb+me']})\n"
        f"  MIG 1g.5gb      Device  3: (UUID: {uuids['1g.5gb']})\n"
        f"GPU 1: NVIDIA A100-SXM4-40GB (UUID: {second})\n"
    )
    assert output(tmp_path, "--list-gpus", shell=shell) == output(tmp_path, "-L")


@in_each_shell
def test_a_container_sees_its_slice_alone(tmp_path: Path, shell: tuple[str, ...]) -> None:
    """A slice's container sees the line of its GPU with the slice's line, numbered from 0."""
    topology = cut()
    write(tmp_path, topology)
    uuid = _slices(topology)["1g.5gb"]
    assert output(tmp_path, "-L", visible=uuid, shell=shell) == (
        f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: {topology.gpus[0].id})\n  MIG 1g.5gb      Device  0: (UUID: {uuid})\n"
    )


@in_each_shell
def test_a_container_sees_its_gpus_alone(tmp_path: Path, shell: tuple[str, ...]) -> None:
    """A GPU's container sees that GPU, numbered from 0, in every form; several are in the order of the machine."""
    topology = whole(4)
    write(tmp_path, topology)
    ids = _ids(topology)
    assert output(tmp_path, "-L", visible=ids[2], shell=shell) == (f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: {ids[2]})\n")
    rows = output(tmp_path, *QUERY, visible=f"{ids[3]},{ids[1]}", shell=shell)
    assert rows == f"0, {ids[1]}, 00000000:02:00.0\n1, {ids[3]}, 00000000:04:00.0\n"
    matrix = parse_topology(output(tmp_path, "topo", "-m", visible=f"{ids[3]},{ids[1]}", shell=shell))
    assert matrix.gpu_count == 2
    assert output(tmp_path, "-L", visible="all", shell=shell) == output(tmp_path, "-L")
    assert output(tmp_path, "-L", visible="2", shell=shell) == output(tmp_path, "-L", visible=ids[2])


@in_each_shell
@pytest.mark.parametrize("cut_up", [False, True], ids=["whole", "cut"])
@pytest.mark.parametrize("name", [name for name in names() if shipped(name).gpus])
def test_the_broker_reads_the_machine_behind_the_slices(
    tmp_path: Path, shell: tuple[str, ...], name: str, *, cut_up: bool
) -> None:
    """Inventory and matrix name the physical GPUs of the machine, whatever they are cut into."""
    machine = shipped(name)
    topology = whole(len(machine.gpus), machine=name)
    if cut_up:
        topology = cut(topology)
    write(tmp_path, topology)
    gpus = parse_inventory(output(tmp_path, *QUERY, shell=shell))
    assert [(str(gpu.uuid), gpu.pci_address) for gpu in gpus] == list(zip(_ids(topology), machine.gpus, strict=True))
    assert machine.captures.topo is not None
    text = output(tmp_path, "topo", "-m", shell=shell)
    assert text == machine.captures.topo.decode()
    assert parse_topology(text).gpu_count == len(machine.gpus)


@in_each_shell
@pytest.mark.parametrize("name", [name for name in names() if len(shipped(name).gpus) > 1])
def test_paths_stay_those_of_the_machine_where_not_all_gpus_are_seen(
    tmp_path: Path, shell: tuple[str, ...], name: str
) -> None:
    """The matrix of a container has its GPUs with all NICs, at the machine's distances."""
    count = len(shipped(name).gpus)
    topology = whole(count, machine=name)
    write(tmp_path, topology)
    machine = parse_topology(output(tmp_path, "topo", "-m"))
    shown = parse_topology(output(tmp_path, "topo", "-m", visible=topology.gpus[-1].id, shell=shell))
    assert shown.nics == machine.nics
    assert dict(shown.paths) == {0: machine.paths[count - 1]}


def test_a_node_with_fewer_gpus_than_its_machine_has_the_first(tmp_path: Path) -> None:
    """Inventory and matrix agree when the Node has not all GPUs of the machine."""
    topology = whole(3, machine="h100-8gpu-dualport")
    hardware = write(tmp_path, topology)
    assert hardware.problem == ""
    assert [gpu.pci_address for gpu in parse_inventory(output(tmp_path, *QUERY))] == list(
        shipped("h100-8gpu-dualport").gpus[:3]
    )
    assert parse_topology(output(tmp_path, "topo", "-m")).gpu_count == 3


@pytest.mark.parametrize(
    ("machine", "gpus", "says"),
    [
        ("nowhere", 2, 'machine: no machine "nowhere" is shipped; there are a100-1gpu'),
        ("../../etc", 2, 'no machine "../../etc" is shipped'),
        ("a100-1gpu", 2, "machine: a100-1gpu has 1 GPUs, the Node 2; name one with as many"),
        ("cpu-rails", 1, "machine: cpu-rails has 0 GPUs, the Node 1"),
    ],
)
def test_a_machine_that_does_not_fit_is_told_and_not_used(tmp_path: Path, machine: str, gpus: int, says: str) -> None:
    """The GPUs are shown nevertheless, with addresses in a row and the longest paths."""
    hardware = write(tmp_path, whole(gpus, machine=machine))
    assert says in hardware.problem
    found = parse_inventory(output(tmp_path, *QUERY))
    assert [gpu.pci_address for gpu in found] == [f"0000:{1 + index:02x}:00.0" for index in range(gpus)]
    assert parse_topology(output(tmp_path, "topo", "-m")).gpu_count == gpus


def test_numa_nodes_come_from_the_machine() -> None:
    """The NUMA node of a GPU is that of the capture; where it says several or nothing, none is known."""
    assert hardware_of(whole(8, machine="h100-8gpu-dualport")).numa_nodes == (0, 0, 0, 0, 1, 1, 1, 1)
    assert hardware_of(whole(4, machine="gb200-4gpu")).numa_nodes == (None,) * 4
    assert hardware_of(whole(2)).numa_nodes == (None, None)


@in_each_shell
def test_queries_have_headers_units_and_fields_as_asked(tmp_path: Path, shell: tuple[str, ...]) -> None:
    """The format decides over header and units; what is not known of a GPU is N/A; both spellings of a field count."""
    topology = cut()
    write(tmp_path, topology)
    fields = "gpu_name, memory.total,mig.mode.current,driver_version,utilization.gpu,power.draw,count"
    assert output(tmp_path, f"--query-gpu={fields}", "--format=csv", shell=shell) == (
        "gpu_name, memory.total [MiB], mig.mode.current, driver_version, utilization.gpu [%], power.draw [W], count\n"
        "NVIDIA A100-SXM4-40GB, 40960 MiB, Enabled, 550.54.15, [N/A], [N/A], 2\n"
        "NVIDIA A100-SXM4-40GB, 40960 MiB, Disabled, 550.54.15, 0 %, [N/A], 2\n"
    )
    assert (
        output(
            tmp_path,
            "--query-gpu=memory.used,pci.bus,pci.domain,pci.device",
            "--format=csv, nounits,noheader",
            "-i",
            "1",
            shell=shell,
        )
        == "0, 0x02, 0x00000000, 0x00\n"
    )
    assert (
        output(tmp_path, "--query-gpu=index", "--format=csv,noheader", f"--id={topology.gpus[1].id}", shell=shell)
        == "1\n"
    )


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("--query-gpu=uuid,cuda_version", "--format=csv"), 2, 'Field "cuda_version" is not a valid field to query.'),
        (("--query-gpu=", "--format=csv"), 2, "Invalid combination"),
        (("--query-gpu=uuid",), 2, "Invalid combination"),
        (("--query-gpu=uuid", "--format=json"), 2, "Invalid combination"),
        (("--format=csv",), 2, "Invalid combination"),
        (("-L", "--query-gpu=uuid"), 2, "Invalid combination"),
        (("topo",), 2, "Invalid combination"),
        (("topo", "-p2p"), 2, "Invalid combination"),
        (("-i", "0", "topo", "-m"), 4, "The -i command line argument"),
        (("-i",), 2, "Invalid combination"),
        (("-i", "7"), 6, "No devices were found"),
        (("dmon",), 2, "Invalid combination"),
        (("mig", "-lgi"), 6, "No MIG-enabled devices found."),
    ],
)
@in_each_shell
def test_what_it_can_not_do_fails_as_nvidias_does(
    tmp_path: Path, shell: tuple[str, ...], arguments: tuple[str, ...], status: int, says: str
) -> None:
    """Unknown fields, arguments and GPUs end with the status and the sentence of the real program."""
    write(tmp_path, whole())
    done = run(tmp_path, *arguments, shell=shell)
    assert (done.returncode, done.stderr) == (status, "")
    assert done.stdout.startswith(says)


@in_each_shell
def test_without_files_there_is_no_driver(tmp_path: Path, shell: tuple[str, ...]) -> None:
    """Where the files are missing it fails as without a driver."""
    write(tmp_path, whole())
    (tmp_path / "nvidia-smi.d" / "current").unlink()
    done = run(tmp_path, "-L", shell=shell)
    assert (done.returncode, done.stderr) == (9, "")
    assert "couldn't communicate with the NVIDIA driver" in done.stdout


HOSTILE = [
    "",
    "none",
    ",",
    "*",
    "GPU-*",
    "?",
    "[0-9]",
    "$(touch {0})",
    "`touch {0}`",
    "; touch {0}",
    "'; touch {0}; '",
    "x\n0\n",
    "\\",
    "all,all",
    "MIG-" + "9" * 100_000,
]


@pytest.mark.parametrize("visible", HOSTILE, ids=range(len(HOSTILE)))
@in_each_shell
def test_what_the_environment_says_is_compared_and_nothing_else(
    tmp_path: Path, shell: tuple[str, ...], visible: str
) -> None:
    """A value that names no device shows none, and is neither run nor expanded."""
    write(tmp_path, cut())
    trap = tmp_path / "trap"
    for arguments in (("-L",), QUERY, ("topo", "-m"), ()):
        done = run(tmp_path, *arguments, visible=visible.replace("{0}", str(trap)), shell=shell)
        assert (done.returncode, done.stderr) == (6, ""), done
        assert re.fullmatch(r"No devices (were )?found\.?\n", done.stdout)
    assert not trap.exists()


@in_each_shell
def test_other_variables_and_arguments_do_nothing(tmp_path: Path, shell: tuple[str, ...]) -> None:
    """Neither variables that shells know nor arguments with shell syntax change what it does."""
    write(tmp_path, whole())
    trap = tmp_path / "trap"
    environ = {
        "CDPATH": "/",
        "IFS": "0123456789",
        "PS4": f"$(touch {trap})",
        "number": "7",
        "selected": "1",
        "form": "x",
    }
    assert run(tmp_path, "-L", shell=shell, environ=environ).stdout == output(tmp_path, "-L")
    done = run(tmp_path, f"--query-gpu=$(touch {trap}),*", "--format=csv", shell=shell)
    assert done.stdout == f'Field "$(touch {trap})" is not a valid field to query.\n\n'
    assert run(tmp_path, "-i", f"`touch {trap}`", shell=shell).returncode == 6
    assert not trap.exists()


@in_each_shell
def test_a_hostile_document_stays_text(tmp_path: Path, shell: tuple[str, ...]) -> None:
    """Names in the document are printed, without separators and control characters, and never run."""
    trap = tmp_path / "trap"
    topology = whole(1, product=f"$(touch {trap})|x\x1b[2J\n`id`\\n%s%n ä")
    gpu = replace(topology.gpus[0], id="GPU-|a\nb")
    write(tmp_path, replace(topology, gpus=(gpu,), driver_version="1|2\n3", cuda_version="%d"))
    assert output(tmp_path, "-L", shell=shell) == (f"GPU 0: $(touch {trap})?x?[2J?`id`\\n%s%n ? (UUID: GPU-?a?b)\n")
    assert "| NVIDIA-SMI 1?2?3 " in output(tmp_path, shell=shell)
    assert not trap.exists()


@in_each_shell
def test_the_table_keeps_its_columns(tmp_path: Path, shell: tuple[str, ...]) -> None:
    """Every line of the table is as wide as the real one's, and shows GPUs, slices and their attributes."""
    write(tmp_path, cut())
    text = output(tmp_path, shell=shell)
    assert {len(line) for line in text.splitlines()} == {89}
    assert "| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15    CUDA Version: 12.4     |" in text
    assert "|   0  NVIDIA A100-SXM4-40GB          On  | 00000000:01:00.0 Off |                    0 |" in text
    assert "| N/A   N/A    P0              N/A /  N/A |      0MiB / 40960MiB |     N/A      Default |" in text
    assert "|                                         |                      |              Enabled |" in text
    assert "|  0    2   0   0  |               0MiB / 19968MiB  | 42      0 |  3   0    2    0    0 |" in text
    assert "|  0   10   0   3  |               0MiB /  4864MiB  | 14      0 |  1   0    0    0    0 |" in text


@in_each_shell
def test_the_table_of_an_unknown_product(tmp_path: Path, shell: tuple[str, ...]) -> None:
    """What is not known is N/A or -, with GPUs in MIG mode without slices, and slices of unknown profiles."""
    topology = whole(2, product="Tesla-K80", memory=0)
    write(tmp_path, topology)
    assert "MIG devices" not in output(tmp_path, shell=shell)
    mig = replace(cut(), gpu_product="Acme", gpu_memory=0)
    write(tmp_path, mig)
    text = output(tmp_path, shell=shell)
    assert {len(line) for line in text.splitlines()} == {89}
    assert "|  0    -   0   0  |               0MiB /      N/A  | -       0 |  -   -    -    -    - |" in text
    write(tmp_path, replace(mig, gpus=(replace(mig.gpus[0], mig_instances=()),)))
    assert "|  No MIG devices found  " in output(tmp_path, shell=shell)
    assert run(tmp_path, "mig", "-lgi", shell=shell).stdout == "No GPU instances found: Not Found\n"


@in_each_shell
def test_gpu_instances_have_their_places(tmp_path: Path, shell: tuple[str, ...]) -> None:
    """``mig -lgi`` shows profile, instance and placement as NVIDIA's guide does."""
    write(tmp_path, cut())
    text = output(tmp_path, "mig", "-lgi", shell=shell)
    assert {len(line) for line in text.splitlines()} == {57}
    assert "|   0  MIG 3g.20gb          9        2          4:4     |\n" in text
    assert "|   0  MIG 1g.5gb+me       20        9          2:1     |\n" in text


def test_slices_of_a_gpu_that_is_whole_again_are_gone(tmp_path: Path) -> None:
    """The files are those of the state that was written last."""
    write(tmp_path, cut())
    write(tmp_path, whole())
    assert "MIG" not in output(tmp_path, "-L")
    write(tmp_path, cut(request=MIG.replace('["0"]', "all")))
    assert output(tmp_path, "-L").count("MIG ") == 8
