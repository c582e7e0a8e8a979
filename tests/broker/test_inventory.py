"""The reader of ``nvidia-smi --query-gpu``."""

from __future__ import annotations

from pathlib import Path

import pytest

from nicrails_broker.parsers import ParseError, parse_inventory

QUERY = Path(__file__).parents[1] / "corpus" / "query-gpu"

UUID_0 = "GPU-f186d30d-edbf-6153-0d12-0c9e968f25ea"
UUID_1 = "GPU-0964a27f-d918-b7b5-7cdb-f557ab54d74e"
ROWS = f"0, {UUID_0}, 00000000:18:00.0\n1, {UUID_1}, 0000000F:3B:00.0\n"

FOUR = ["0000:18:00.0", "0000:3b:00.0", "0000:86:00.0", "0000:af:00.0"]
ADDRESSES = {
    "001-4gpu-index-uuid-bus-serial.txt": FOUR,
    "002-4gpu-projected-three-columns.txt": FOUR,
    "004-gb10-nonzero-domain-000F.txt": ["000f:01:00.0"],
    "005-gb200-4gpu-domains-8-9-18-19.txt": ["0008:06:00.0", "0009:06:00.0", "0018:06:00.0", "0019:06:00.0"],
    "007-12gpu-index-over-9.txt": [
        f"0000:{bus}:00.0" for bus in ("01", "02", "0a", "0c", "0d", "0e", "0f", "10", "11", "12", "13", "14")
    ],
    "009-egpu-index-bus-name-header.txt": ["0000:01:00.0", "0000:0f:00.0"],
    "010-epyc-4gpu-index-bus.txt": ["0000:4a:00.0", "0000:61:00.0", "0000:ca:00.0", "0000:e1:00.0"],
    "011-sr680a-8gpu-index-bus.txt": [f"0000:{bus}:00.0" for bus in ("18", "2e", "41", "51", "9a", "ab", "bd", "d1")],
    "024-crlf-row-gb10.txt": ["000f:01:00.0"],
}
WITH_UUID = {"001-4gpu-index-uuid-bus-serial.txt", "002-4gpu-projected-three-columns.txt"}


def read(name: str) -> str:
    """A capture, with the line ends that it has."""
    return (QUERY / name).read_bytes().decode()


def refusal(text: str) -> ParseError:
    """The error that a text is refused with."""
    with pytest.raises(ParseError) as caught:
        parse_inventory(text)
    return caught.value


@pytest.mark.parametrize("name", sorted(ADDRESSES))
def test_real_output_gives_its_gpus(name: str) -> None:
    """Every readable capture gives its GPUs in order, with their addresses and, where it has them, their UUIDs."""
    gpus = parse_inventory(read(name))
    assert [gpu.index for gpu in gpus] == list(range(len(gpus)))
    assert [gpu.pci_address for gpu in gpus] == ADDRESSES[name]
    assert [gpu.uuid is not None for gpu in gpus] == [name in WITH_UUID] * len(gpus)


@pytest.mark.parametrize("name", sorted(path.name for path in QUERY.iterdir() if path.name not in ADDRESSES))
def test_other_output_is_refused_in_one_line(name: str) -> None:
    """Error messages, missing values and other listings are refused with a sentence that has source, line and column."""
    error = refusal(read(name))
    assert str(error).startswith(f"nvidia-smi --query-gpu, line {error.line}, column {error.column}: ")
    assert str(error).isprintable()
    assert error.excerpt


def test_uuid_and_address_belong_to_their_row() -> None:
    """A domain above ffff keeps all its digits, and every GPU keeps its own UUID."""
    gpus = parse_inventory(ROWS.replace("0000000F", "0001000F"))
    assert [(gpu.uuid, gpu.pci_address) for gpu in gpus] == [(UUID_0, "0000:18:00.0"), (UUID_1, "1000f:3b:00.0")]


@pytest.mark.parametrize(
    "text",
    [
        ROWS,
        ROWS.replace("\n", "\r\n"),
        ROWS.replace(", ", ","),
        "index, uuid, pci.bus_id\n" + ROWS,
        "WARNING: infoROM is corrupted at gpu 0000:18:00.0\n" + ROWS,
        ROWS + "WARNING: infoROM is corrupted at gpu 0000:18:00.0\n",
        ROWS + "\n",
        f"power.draw [W], gpu_bus_id, gpu_uuid, index\n9 W, 00000000:18:00.0, {UUID_0}, 0\n9 W, 0000000F:3B:00.0, {UUID_1}, 1\n",
        f"0, Some GPU, {UUID_0}, 00000000:18:00.0, [N/A]\n1, Some GPU, {UUID_1}, 0000000F:3B:00.0, [N/A]\n",
    ],
)
def test_layouts_and_noise_that_change_nothing(text: str) -> None:
    """A header, units, other columns, line ends and warnings around do not change the GPUs."""
    gpus = parse_inventory(text)
    assert [(gpu.uuid, gpu.pci_address) for gpu in gpus] == [(UUID_0, "0000:18:00.0"), (UUID_1, "000f:3b:00.0")]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("1, GPU", "2, GPU", "expected GPU index 1"),
        ("1, GPU", "01, GPU", "expected GPU index 1"),
        (UUID_1, UUID_0, "that another GPU has"),
        ("0000000F:3B", "00000000:18", "that another GPU has"),
        (UUID_1, UUID_1[:-1], "expected a GPU UUID"),
        (UUID_1, "MIG-0964a27f-d918-b7b5-7cdb-f557ab54d74e", "expected a GPU UUID"),
        (UUID_1, "[N/A]", "expected a GPU UUID"),
        (UUID_1, "", "expected a GPU UUID"),
        ("0000000F:3B:00.0", "[Unknown Error]", "nvidia-smi could not tell"),
        ("0000000F:3B:00.0", "[GPU requires reset]", "nvidia-smi could not tell"),
        ("0000000F:3B:00.0", "000F:3B:00.0", "no columns have a PCI bus ID"),
        ("0000000F:3B:00.0", "0000000F:3B:40.0", "expected a PCI bus ID"),
        (f"1, {UUID_1}, ", f"1, {UUID_1}", "a row of 2 columns, expected 3"),
        ("1, GPU", "1, 2, GPU", "a row of 4 columns, expected 3"),
        ("1, GPU", "Unable to determine the device handle for GPU1: Unknown Error\n1, GPU", "the driver lost a GPU"),
        ("1, GPU", "Killed\n1, GPU", "a row of 1 columns"),
        (":3B:00.0\n", ":3B:00.0", "the end of its last line"),
        (":3B:00.0", ":3B\x00:00.0", "a character that it never prints"),
        ("1, GPU", "1, \x1b[4mGPU", "an escape sequence"),
    ],
)
def test_each_damage_is_refused_for_its_own_reason(old: str, new: str, problem: str) -> None:
    """The sentence of a refusal tells what is wrong with the text."""
    assert old in ROWS
    assert problem in str(refusal(ROWS.replace(old, new)))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("index, uuid, pci.bus_id\n", "ends before the first GPU"),
        (f"index, uui, pci.bus_id\n{ROWS}", "a UUID outside the column of UUIDs"),
        (f"index, uuid, pci.bus_id, pci.bus_id\n0, {UUID_0}, 00000000:18:00.0, 00000000:18:00.0\n", "a second column"),
        (f"index, uuid, pci.bus_id, vbios\n0, {UUID_0}, 00000000:18:00.0, 00000000:19:00.0\n", "a PCI bus ID outside"),
        (f"uuid, pci.bus_id\n{UUID_0}, 00000000:18:00.0\n", "neither rows that begin"),
        ("0, 00000000:18:00.0, 00000000:19:00.0\n", "2 columns have a PCI bus ID"),
        (f"0, {UUID_0}, 00000000:18:00.0, {UUID_1}\n", "a UUID outside"),
        (f"0, {UUID_0}, 00000000:18:00.0, x\n1, [N/A], 00000000:19:00.0, x\n", "expected a GPU UUID"),
        ("0, MIG-1, 00000000:18:00.0, x\n", "expected a GPU UUID"),
        ("0\n", "no columns"),
        ("0, [N/A], 00000000:18:00.0\n1, [N/A], 00000000:19:00.0\n", "expected a GPU UUID"),
        (f"index, uuid, pci.bus_id\n0, {UUID_0}, 000F:18:00.0\n", "expected a PCI bus ID"),
        ("GPU 0: NVIDIA H200 (UUID: GPU-1)\n", "nvidia-smi -L"),
        ("", "no output"),
    ],
)
def test_ambiguous_or_incomplete_tables_are_refused(text: str, problem: str) -> None:
    """Nothing is guessed where a column could be another one."""
    assert problem in str(refusal(text))


def test_refusal_names_line_and_column_of_the_cell() -> None:
    """Line and column are those of an editor, counted from 1."""
    error = refusal(ROWS.replace(UUID_1, "GPU-1"))
    assert (error.line, error.column, error.excerpt) == (2, 4, "GPU-1")
