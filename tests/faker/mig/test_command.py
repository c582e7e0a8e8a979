from __future__ import annotations

import argparse
import io
import json
from pathlib import Path

import pytest

from nicrails_faker.mig import NodeTopology, command, write_topology

REQUEST = """
version: v1
mig-configs:
  selected:
  - devices: ["0"]
    mig-enabled: true
    mig-devices:
    - {name: 2g.10gb, position: 2, size: 2}
    - {name: 1g.5gb+me}
"""
TWO = "{version: v1, mig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {}}], b: []}}"
NODE = ("--product", "NVIDIA-A100-SXM4-40GB", "--gpus", "2")

TABLE = """\
GPU  PROFILE    START  SIZE  INSTANCE  UUID
0    1g.5gb+me  0      1     7         MIG-205ba9ec-d04f-5113-bd54-1026597680fb
0    2g.10gb    2      2     4         MIG-e0a1ec6e-7f33-528c-8fc7-1de13819bccc
1    whole      -      -     -         GPU-9ee8f7aa-107c-565b-905e-408e73d28755

ADVERTISED                none  single  mixed
nvidia.com/gpu            2     3       1
nvidia.com/mig-1g.5gb.me  -     -       1
nvidia.com/mig-2g.10gb    -     -       1

single: GPU 0 is in MIG mode, the other GPUs are whole; the strategy single is for Nodes where all GPUs are alike; \
NVIDIA's plugin refuses it, and so does the strict mode
single: slices of 1g.5gb+me, 2g.10gb are advertised as one resource; the strategy single is for slices that are alike; \
NVIDIA's plugin refuses it, and so does the strict mode
"""


def run(*argv: str, stdin: str = "") -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    out, err = io.StringIO(), io.StringIO()
    code = command.run(parser.parse_args(argv), io.StringIO(stdin), out, err)
    return code, out.getvalue(), err.getvalue()


def test_it_shows_slices_and_resources() -> None:
    """A request from standard input gives tables of the slices and of what each strategy advertises."""
    assert run("-", *NODE, stdin=REQUEST) == (0, TABLE, "")


def test_it_reads_files(tmp_path: Path) -> None:
    """Request and topology may come from files."""
    request, topology = tmp_path / "request.yaml", tmp_path / "topology.yml"
    request.write_text(REQUEST)
    topology.write_text(write_topology(NodeTopology.create("node1", gpu_product="A100-40", gpu_count=2)))
    assert run(str(request), "--topology", str(topology)) == (0, TABLE, "")
    assert run(str(request), "--topology", "-", stdin=topology.read_text()) == (0, TABLE, "")


def test_it_writes_json() -> None:
    """JSON has the same facts for programs, with the device IDs of each resource."""
    code, out, err = run("-", *NODE, "--json", stdin=REQUEST)
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert list(document) == ["product", "gpus", "advertised", "conditions", "refusedByNvidia"]
    assert document["gpus"][0]["slices"][1] == {
        "profile": "2g.10gb",
        "start": 2,
        "size": 2,
        "uuid": "MIG-e0a1ec6e-7f33-528c-8fc7-1de13819bccc",
        "gpuInstanceId": 4,
    }
    assert document["gpus"][1] == {
        "index": 1,
        "id": "GPU-9ee8f7aa-107c-565b-905e-408e73d28755",
        "migEnabled": False,
        "slices": [],
    }
    assert document["advertised"]["mixed"] == {
        "nvidia.com/gpu": ["GPU-9ee8f7aa-107c-565b-905e-408e73d28755"],
        "nvidia.com/mig-1g.5gb.me": ["MIG-205ba9ec-d04f-5113-bd54-1026597680fb"],
        "nvidia.com/mig-2g.10gb": ["MIG-e0a1ec6e-7f33-528c-8fc7-1de13819bccc"],
    }
    assert [one["reason"] for one in document["conditions"]["single"]] == ["MixedMigModes", "SeveralMigProfiles"]
    assert document["refusedByNvidia"] == {"none": [], "single": document["conditions"]["single"], "mixed": []}


def test_the_name_of_the_node_and_the_memory_count() -> None:
    """UUIDs follow from the Node's name, and the memory decides between products of one name."""
    product = ("--product", "NVIDIA-A100-SXM4", "--node", "node2")
    code, out, _ = run("-", *product, "--memory", "40960", stdin=REQUEST)
    assert code == 0
    assert "MIG-205ba9ec" not in out
    code, _, err = run("-", *product, "--memory", "81920", stdin=REQUEST)
    assert code == 1
    assert 'no profile "2g.10gb" on A100-80' in err


def test_removal_is_shown(tmp_path: Path) -> None:
    """``--off`` shows the Node without MIG, or why that cannot be."""
    topology = tmp_path / "topology.yml"
    text = "{gpuProduct: A100-40, gpus: [{id: g, migEnabled: true, migInstances: [{profile: 1g.5gb, index: 0, uuid: m%s}]}]}"
    topology.write_text(text % "")
    code, out, _ = run("--off", "--topology", str(topology))
    assert (code, out.splitlines()[1].split()) == (0, ["0", "whole", "-", "-", "-", "g"])
    topology.write_text(text % ", status: {allocatedBy: {pod: p}}")
    assert run("--off", "--topology", str(topology)) == (
        1,
        "",
        "nicrails-faker mig-plan: GPU 0: the slice 1g.5gb at position 0 is in use by p; it cannot be taken away before that ends\n",
    )


def test_a_configuration_is_chosen() -> None:
    """``--config`` chooses one of several named configurations."""
    code, out, _ = run("-", *NODE, "--config", "a", stdin=TWO)
    assert code == 0
    assert out.count("no slices") == 2
    code, _, err = run("-", *NODE, stdin=TWO)
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith("nicrails-faker mig-plan: standard input: mig-configs: which configuration is meant?")


@pytest.mark.parametrize(
    ("stdin", "problem"),
    [
        ("", "standard input: empty; MIG is turned off by removing"),
        ("#" * 300_000, "standard input: has 131073 characters; 131072 are the most"),
        (REQUEST.replace('"0"', "9"), "mig-configs.selected[0].devices[0]: the Node has no GPU 9"),
        (REQUEST.replace("2g.10gb", "9g.10gb"), 'mig-configs.selected[0].mig-devices[0].name: no profile "9g.10gb" on'),
    ],
)
def test_a_refusal_is_one_sentence(stdin: str, problem: str) -> None:
    """What is refused ends with exit code 1, nothing on standard output and one line on standard error."""
    code, out, err = run("-", *NODE, stdin=stdin)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"nicrails-faker mig-plan: {problem}")


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    """A missing file, a directory, a large file and bytes that are not UTF-8 are refused by name."""
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    large = tmp_path / "large"
    large.write_text("#" * 300_000)
    for name, problem in (
        (tmp_path / "missing", "No such file"),
        (tmp_path, "Is a directory"),
        (binary, "not UTF-8"),
        (large, "has 131073 characters"),
    ):
        code, out, err = run(str(name), *NODE)
        assert (code, out) == (1, "")
        assert err.startswith(f"nicrails-faker mig-plan: {name}: {problem}")


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (NODE, "give either a REQUEST or --off"),
        (("-", "--off", *NODE), "give either a REQUEST or --off"),
        (("-", "--topology", "-"), "REQUEST and --topology cannot both be standard input"),
        (("-", "--product", "A30", "--gpus", "-1"), "--gpus: expected 0 to 1024, found -1"),
        (("-", "--product", "A30", "--gpus", "100000"), "--gpus: expected 0 to 1024, found 100000"),
        (("-", "--product", "A30", "--memory", "-1"), "--memory: expected 0 to 67108864, found -1"),
    ],
)
def test_arguments_that_do_not_fit_end_with_2(argv: tuple[str, ...], problem: str) -> None:
    """Arguments that contradict each other are told from refusals by the exit code."""
    assert run(*argv) == (2, "", f"nicrails-faker mig-plan: {problem}\n")


def test_what_stands_in_a_topology_does_not_reach_the_terminal(tmp_path: Path) -> None:
    """Control characters from a file are shown escaped."""
    topology = tmp_path / "topology.yml"
    topology.write_text('{gpus: [{id: "\\e[2J"}], otherDevices: [{name: "\\e[2J", count: 1}]}')
    code, out, _ = run("--off", "--topology", str(topology))
    assert code == 0
    assert "\x1b" not in out
    assert "\\x1b[2J" in out
