"""The reader of ``nvidia-smi topo -m``."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from nicrails.record import PathClass
from nicrails_broker.parsers import ParseError, parse_topology
from nicrails_broker.parsers.nvidia_smi import MAX_CHARACTERS

TOPO = Path(__file__).parents[1] / "corpus" / "topo"
EXPECTED = json.loads((TOPO / "EXPECTED.json").read_text())
DATA_DIRECT = "082-r610-topo-all-m-4gpu-6nic-4dd-data-direct.txt"

MATRIX = """\
\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV12\tPIX\tSYS\t0-47,96-143\t0\t\tN/A
GPU1\tNV12\t X \tSYS\tPXB\t48-95,144-191\t1\t\tN/A
NIC0\tPIX\tSYS\t X \tSYS\t\t\t\t
NIC1\tSYS\tPXB\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_1

"""


def read(name: str) -> str:
    """A capture, with the line ends that it has."""
    return (TOPO / name).read_bytes().decode()


def refusal(text: str) -> ParseError:
    """The error that a text is refused with."""
    with pytest.raises(ParseError) as caught:
        parse_topology(text)
    return caught.value


def closest(text: str) -> dict[str, object]:
    """The answer in the form of EXPECTED.json."""
    topology = parse_topology(text)
    found: dict[str, object] = {}
    for gpu in range(topology.gpu_count):
        best = topology.closest(gpu)
        found[str(gpu)] = None if best is None else {"class": best[0].value, "nics": list(best[1])}
    return found


@pytest.mark.parametrize("name", [name for name, entry in EXPECTED.items() if entry["status"] == "ok"])
def test_real_output_gives_its_right_answer(name: str) -> None:
    """Every undamaged capture gives the devices and the closest NICs that a person read off it."""
    expected = EXPECTED[name]
    topology = parse_topology(read(name))
    assert topology.gpu_count == expected["gpus"]
    assert len(topology.nics) == expected["nics"]
    assert closest(read(name)) == expected["closest"]
    if isinstance(expected["aliases"], list):
        assert list(topology.nics) == [f"NIC{number}" for number in range(expected["nics"])]
        assert list(topology.nics.values()) == expected["aliases"]
    else:
        assert all(column == device for column, device in topology.nics.items())
    assert all(set(paths) == set(topology.nics.values()) for paths in topology.paths.values())


@pytest.mark.parametrize("name", [name for name, entry in EXPECTED.items() if not entry["status"].startswith("ok")])
def test_damaged_or_failed_output_is_refused_in_one_line(name: str) -> None:
    """Every damaged capture and every error message is refused with a sentence that has source, line and column."""
    error = refusal(read(name))
    assert str(error).startswith(f"nvidia-smi topo -m, line {error.line}, column {error.column}: ")
    assert str(error).isprintable()
    assert error.excerpt


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("004-l20-2gpu-62nic-corrupt-legend-blank-affinity.txt", "spoils its legend"),
        ("085-error-failed-to-run-topology-matrix.txt", "software RDMA device (siw_eth0"),
        ("086-error-driver-library-mismatch.txt", "reload the driver or reboot"),
        ("088-error-no-devices-were-found.txt", "sees no GPU"),
        ("089-error-hwloc-no-pu.txt", "cannot see the processors"),
        ("091-error-i-flag-with-topo-m.txt", "refused its arguments"),
        ("092-error-unable-to-determine-device-handle.txt", "the driver lost a GPU"),
    ],
)
def test_known_failures_say_what_to_do(name: str, hint: str) -> None:
    """The refusal of a known failure names its cause."""
    assert hint in str(refusal(read(name)))


def test_data_direct_function_decides_the_class_of_its_device() -> None:
    """In R610's layout the row of ``DDn`` counts for its device, under the name of the device's NIC column."""
    topology = parse_topology(read(DATA_DIRECT))
    assert list(topology.nics) == [f"NIC{number}" for number in range(6)]
    assert [topology.closest(gpu) for gpu in range(4)] == [
        (PathClass.PXB, ("NIC3",)),
        (PathClass.PXB, ("NIC2",)),
        (PathClass.PXB, ("NIC5",)),
        (PathClass.PXB, ("NIC4",)),
    ]
    assert topology.paths[0]["roce_vf_r0"] is PathClass.NODE
    assert topology.paths[2]["mlx5_8"] is PathClass.NODE


def test_a_worse_data_direct_class_counts_too() -> None:
    """A Data Direct function replaces the class of its device even where that is better."""
    text = read(DATA_DIRECT)
    lines = text.split("\n")
    assert [lines[1][:4], lines[11][:3]] == ["GPU0", "DD0"]
    lines[1] = lines[1].replace("NODE  PXB ", "SYS   PXB ")
    lines[11] = lines[11].replace("NODE  PXB   SYS", "SYS   PXB   SYS", 1)
    topology = parse_topology("\n".join(lines))
    assert topology.paths[0]["roce_vf_r0"] is PathClass.SYS


@pytest.mark.parametrize(
    "text",
    [
        MATRIX,
        MATRIX.replace("\n", "\r\n"),
        MATRIX.replace("\x1b", ""),
        MATRIX.replace("\t\x1b[4mGPU0", "GPU0"),
        MATRIX.replace("\t", "      "),
        MATRIX.replace("\n", "\n\n"),
        MATRIX.replace("\t0\t\tN/A", "\t\t\tN/A").replace("0-47,96-143", ""),
        MATRIX.replace("\t0\t\tN/A", "").replace("48-95,144-191\t1\t\tN/A", "48-95,144-1911N/A"),
        MATRIX.replace("\tGPU NUMA ID", ""),
        MATRIX.replace("\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID", "\tCPU Affinity"),
        MATRIX.replace("  X    = Self", "  X    = Self\n  C2C  = Connection traversing a new link, of 2 kinds"),
        "WARNING: infoROM is corrupted at gpu 0000:0B:00.0\n" + MATRIX,
        MATRIX + "WARNING: infoROM is corrupted at gpu 0000:0B:00.0\n",
        MATRIX.replace("NV12", "C2C"),
        MATRIX.replace("GPU1\tNV12", "GPU1\tNV11"),
    ],
)
def test_layouts_and_noise_that_change_nothing(text: str) -> None:
    """Tabs or blanks, lost escapes, any affinity columns, warnings around, new words where they decide nothing."""
    expected = {"0": {"class": "PIX", "nics": ["NIC0"]}, "1": {"class": "PXB", "nics": ["NIC1"]}}
    assert closest(text) == expected


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("GPU0\t X \tNV12\tPIX", "GPU0\t X \tNV12\tPXB", "NIC0 to GPU0 is PIX, but back it is PXB"),
        ("NIC1\tSYS\tPXB\tSYS", "NIC1\tSYS\tPXB\tNODE", "NIC1 to NIC0 is NODE, but back it is SYS"),
        ("GPU1\tNV12", "GPU1\tSYS", "GPU1 to GPU0 is SYS, but back it is NV12"),
        ("PIX", "QPI", "unknown path class between GPU0 and NIC0"),
        ("SYS", "SOC", "drivers before 390"),
        ("NV12", "nv12", "is no path class"),
        ("NV12", "GPU1", "is no path class"),
        ("\tPIX\tSYS\t0", "\tPIXSYS\t0", "back it is PIXSYS"),
        ("PIX\tSYS\t X \tSYS", "PIXSYS\t X \tSYS", "the row of NIC0 must have 4 cells"),
        ("\tPIX\tSYS\t0", "\tPIX\tPIX\tSYS\t0", "more cells than the header"),
        ("\tPIX\tSYS\t0", "\tPIX\tSYS\tSYS0", "more cells than the header"),
        ("0-47,96-143", "ZZZ", "more cells than the header"),
        ("\t X \t\t\t\t\n\n", "\t X \tN/A\n\n", "more cells than the header"),
        ("NIC1\tSYS", "NIC2\tSYS", "expected the row of NIC1"),
        ("GPU0\t X \tNV12", "GPU0\tNV12\t X ", "of which only number 1 is X"),
        ("\x1b[4mGPU0\tGPU1", "\x1b[4mGPU0\tGPU2", "without a gap"),
        ("\tNIC0\tNIC1\tCPU", "\tNIC1\tNIC0\tCPU", "without a gap"),
        ("\tNIC0\tNIC1\tCPU", "\tNIC0\tmlx5_1\tCPU", "without a gap"),
        ("\tNIC0\tNIC1\tCPU", "\tNIC0\tDD0\tNIC1\tCPU", "without a gap"),
        ("NIC1\tCPU Affinity", "NIC1CPU Affinity", "glued"),
        ("\x1b[4mGPU0\t", "", "first column is GPU0"),
        ("GPU0\t X ", "Killed\nGPU0\t X ", "expected the row of GPU0"),
        ("GPU0\t X ", "GPU0\t\x1b[4m X ", "an escape sequence in the data"),
        ("GPU0\t X ", "GPU0\t\x07 X ", "a character that it never prints"),
        ("Legend:", "Legende:", "text that belongs to no legend"),
        ("NIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n", "", "ends before the legend of NIC0"),
        ("  NIC1: mlx5_1\n", "", "ends before the legend of NIC1"),
        ("  NIC0: mlx5_0\n", "", "expected the legend of NIC0"),
        ("NIC0: mlx5_0", "NIC0: mlx5_1", "names a device twice"),
        ("NIC0: mlx5_0", "NIC0: A", "no device name"),
        ("NIC0: mlx5_0", "NIC0: nity", "no device name"),
        ("NIC0: mlx5_0", "NIC0: DE  N/A", "no device name"),
        ("NIC0: mlx5_0", "NIC0: mlx5_0 mlx5_1", "no device name"),
        ("NIC0: mlx5_0", "NIC0: ../mlx5_0", "no device name"),
        ("NIC0: mlx5_0", "NIC0: " + "m" * 64, "no device name"),
        ("NIC0: mlx5_0", "NIC0:mlx5_0", "expected the legend of NIC0"),
        ("NIC1: mlx5_1\n", "NIC1: mlx5_1\n  NIC2: mlx5_2\n", "text behind the legend"),
        ("NIC1: mlx5_1\n", "NIC1: mlx5_1\nroot@host:~#\n", "text behind the legend"),
        ("NIC1: mlx5_1\n\n", "NIC1: mlx5_1", "the end of its last line"),
    ],
)
def test_each_damage_is_refused_for_its_own_reason(old: str, new: str, problem: str) -> None:
    """The sentence of a refusal tells what is wrong with the text."""
    assert old in MATRIX
    assert problem in str(refusal(MATRIX.replace(old, new)))


def test_refusal_names_line_and_column_of_the_cell() -> None:
    """Line and column are those of an editor, counted from 1."""
    error = refusal(MATRIX.replace("PXB", "QPI"))
    assert (error.line, error.column, error.excerpt) == (3, 19, "QPI")


def test_two_matrices_in_one_text_are_refused() -> None:
    """A doubled output is not read once."""
    assert "text behind the legend" in str(refusal(MATRIX + MATRIX.replace("\x1b", "")))


def test_failure_before_a_whole_matrix_is_a_failure() -> None:
    """A GPU that the driver lost is missing in the matrix that follows, so the matrix does not count."""
    error = refusal("Unable to determine the device handle for GPU2: 0000:34:00.0: Unknown Error\n" + MATRIX)
    assert (error.line, error.column) == (1, 1)


@pytest.mark.parametrize("text", ["", "\n", "  \n\t\n", "WARNING: infoROM is corrupted at gpu 0000:0B:00.0\n"])
def test_no_output_is_refused(text: str) -> None:
    """Nothing is not the same as a machine without NICs."""
    assert refusal(text).line == 1


@pytest.mark.parametrize(
    "device", ["mlx5_0", "mlx5_bond_0", "ibp14s0", "rocep25s0f0", "roceP2p1s0f0", "roceo12399", "a"]
)
def test_device_names_of_real_machines_are_accepted(device: str) -> None:
    """Names from drivers, from udev and from people are read as they stand."""
    assert parse_topology(MATRIX.replace("mlx5_1", "x").replace("mlx5_0", device)).nics["NIC0"] == device


def test_device_name_columns_must_be_names() -> None:
    """A matrix that lost its header is not taken for one of an old driver."""
    lines = read("028-a100-2gpu-mlx5-columns-tabs.txt").split("\n")
    assert "device names" in str(refusal("\n".join(lines[1:])))


def test_nic_legend_of_device_name_columns_is_refused() -> None:
    """No driver prints both, so one of them is not of this machine."""
    text = read("028-a100-2gpu-mlx5-columns-tabs.txt") + "\nNIC Legend:\n\n  NIC0: mlx5_0\n"
    assert "no NICn column" in str(refusal(text))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("DD1:  roce_vf_r1 data-direct function", "DD1:  roce_vf_r", "no device name"),
        ("DD1:  roce_vf_r1", "DD1:  roce_vf_r0", "names a device twice"),
        ("DD1:  roce_vf_r1", "DD1:  roce_vf_r9", "that no NICn has"),
        ("DD1:  roce_vf_r1 data", "DD1:  data", "no device name"),
        ("  DD3:  roce_vf_r3 data-direct function\n", "", "ends before the legend of DD3"),
    ],
)
def test_damaged_data_direct_legend_is_refused(old: str, new: str, problem: str) -> None:
    """A Data Direct function must name a device of the NIC legend, each once, in a whole line."""
    text = read(DATA_DIRECT)
    assert old in text
    assert problem in str(refusal(text.replace(old, new)))


@pytest.mark.parametrize(
    "text",
    [
        "GPU0 " + "x " * (MAX_CHARACTERS // 2),
        "GPU0 " * (MAX_CHARACTERS // 5 - 1) + "\n",
        "GPU0 " + " ".join(f"a{number}" for number in range(100_000)) + "\n",
        "GPU0" + " " * (MAX_CHARACTERS - 10) + "x\n",
        "GPU0\n" * (MAX_CHARACTERS // 5 - 1),
        MATRIX + "\n" * (MAX_CHARACTERS - len(MATRIX) - 1) + "x\n",
    ],
)
def test_huge_input_is_refused_at_once(text: str) -> None:
    """A text of the largest size costs no more than a fraction of a second."""
    started = time.monotonic()
    refusal(text)
    assert time.monotonic() - started < 2


def test_text_beyond_the_cap_is_refused_unread() -> None:
    """What is larger than any matrix is not looked at."""
    assert "so this is not its output" in str(refusal(MATRIX + "WARNING: again\n" * (MAX_CHARACTERS // 15)))


def test_unknown_gpu_has_no_closest_nic() -> None:
    """Asking for a GPU that is not there is an error of the caller."""
    with pytest.raises(KeyError):
        parse_topology(MATRIX).closest(2)
