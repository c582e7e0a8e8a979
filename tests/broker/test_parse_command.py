"""The ``parse`` subcommands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nicrails_broker.parse_command import run
from nicrails_broker.parsers import ParseError

CORPUS = Path(__file__).parents[1] / "corpus"


def shown(kind: str, name: str) -> object:
    """What a subcommand says about a capture."""
    return json.loads(run(kind, (CORPUS / name).read_bytes()))


def test_topo_shows_devices_and_closest_nics() -> None:
    """GPU count, device of each NIC column, and per GPU the best class with all NICs tied at it."""
    assert shown("topo", "topo/029-a100-3gpu-1nic-mixed-class-drv525.txt") == {
        "gpus": 3,
        "nics": {"NIC0": "mlx5_0"},
        "closest": {
            "0": {"class": "NODE", "nics": ["NIC0"]},
            "1": {"class": "PXB", "nics": ["NIC0"]},
            "2": {"class": "SYS", "nics": ["NIC0"]},
        },
    }


def test_topo_of_device_name_columns_has_these_as_keys() -> None:
    """An old driver's matrix has its device names as column names."""
    assert shown("topo", "topo/079-2gpu-nv1-mlx5_0-column-phb-tabs.txt") == {
        "gpus": 2,
        "nics": {"mlx5_0": "mlx5_0"},
        "closest": {"0": {"class": "PHB", "nics": ["mlx5_0"]}, "1": {"class": "PHB", "nics": ["mlx5_0"]}},
    }


def test_topo_without_nic_columns_is_empty_but_counts_gpus() -> None:
    """No NIC column gives empty objects."""
    assert shown("topo", "topo/022-rtx3090-5gpu-no-nic-ansi.txt") == {"gpus": 5, "nics": {}, "closest": {}}


def test_inventory_shows_rows() -> None:
    """Index, UUID or null, and canonical PCI address of each GPU."""
    assert shown("inventory", "query-gpu/024-crlf-row-gb10.txt") == [
        {"index": 0, "uuid": None, "pciAddress": "000f:01:00.0"}
    ]
    assert shown("inventory", "query-gpu/002-4gpu-projected-three-columns.txt")[3] == {  # type: ignore[index]
        "index": 3,
        "uuid": "GPU-5f65db4d-3355-24bf-0888-ec896a6dbceb",
        "pciAddress": "0000:af:00.0",
    }


@pytest.mark.parametrize("name", ["014-gen-json0-five-interfaces-mixed.json", "013-gen-five-interfaces-mixed.json"])
def test_lldp_shows_sorted_interfaces(name: str) -> None:
    """Each interface that has a neighbour, once, sorted, from both formats."""
    assert shown("lldp", f"lldp/{name}") == ["eth_r0_p0", "eth_r1_p0", "eth_r2_p0", "eth_r3_p0", "mgmt0"]


@pytest.mark.parametrize("kind", ["topo", "inventory", "lldp"])
@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00\n", b"Killed\n"])
def test_refused_input_is_a_parse_error_in_one_line(kind: str, data: bytes) -> None:
    """Bytes that are no text at all are refused like any other damage."""
    with pytest.raises(ParseError) as caught:
        run(kind, data)
    assert str(caught.value).isprintable()


def test_the_sentence_of_a_refusal_is_one_line_whatever_is_in_it() -> None:
    """Foreign text in any part of a refusal is escaped and its excerpt is cut."""
    error = ParseError("a\nb", "c\x1b[4m", line=3, column=4, excerpt="d\x00" + "e" * 500, remedy="f\rg")
    assert str(error).isprintable()
    assert str(error).startswith(r"a\nb, line 3, column 4: c\x1b[4m: ")
    assert error.excerpt is not None
    assert len(error.excerpt) <= 80


def test_unknown_kind_is_refused() -> None:
    """The sentence names the kinds that there are."""
    with pytest.raises(ValueError, match="known are topo, inventory, lldp"):
        run("numa", b"")
