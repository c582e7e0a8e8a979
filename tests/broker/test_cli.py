"""The command line."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from nicrails_broker.__main__ import main, run
from tests.broker.test_settings import EXAMPLE

CORPUS = Path(__file__).parent.parent / "corpus"
TOPO = CORPUS / "topo/001-h100-4gpu-17nic-ibp-and-mlx5.txt"
INVENTORY = CORPUS / "query-gpu/004-gb10-nonzero-domain-000F.txt"
LLDP = CORPUS / "lldp/014-gen-json0-five-interfaces-mixed.json"


@pytest.mark.parametrize(
    ("kind", "file", "expected"),
    [
        (
            "topo",
            TOPO,
            lambda answer: answer["gpus"] == 4 and answer["closest"]["0"] == {"class": "PIX", "nics": ["NIC2"]},
        ),
        ("inventory", INVENTORY, lambda answer: answer[0]["pciAddress"] == "000f:01:00.0"),
        ("lldp", LLDP, lambda answer: answer == ["eth_r0_p0", "eth_r1_p0", "eth_r2_p0", "eth_r3_p0", "mgmt0"]),
    ],
)
def test_a_capture_is_shown_as_json(kind: str, file: Path, expected: object, capfd: pytest.CaptureFixture[str]) -> None:
    """``parse`` prints one JSON document and one final newline, and nothing else."""
    assert main(["parse", kind, str(file)]) == 0
    captured = capfd.readouterr()
    assert captured.err == ""
    assert captured.out.endswith("\n")
    assert captured.out.count("\n") == 1
    assert callable(expected)
    assert expected(json.loads(captured.out))


@pytest.mark.parametrize("kind", ["topo", "inventory", "lldp"])
def test_a_dash_is_standard_input(
    kind: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """``-`` reads the capture from standard input with the same result."""
    file = {"topo": TOPO, "inventory": INVENTORY, "lldp": LLDP}[kind]
    assert main(["parse", kind, str(file)]) == 0
    expected = capfd.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    assert main(["parse", kind, "-"]) == 0
    assert capfd.readouterr().out == expected


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        ("topo", "topo/058-h200-8gpu-8nic-glued-cells.txt"),
        ("topo", "topo/085-error-failed-to-run-topology-matrix.txt"),
        ("inventory", "query-gpu/018-row-gpu-requires-reset.txt"),
        ("lldp", "lldp/033-gen-INJECTED-valid-json-fake-interface-eth_r9_p0.json"),
        ("lldp", "lldp/030-gen-INVALID-unescaped-quote-in-name.json.txt"),
    ],
)
def test_a_refused_capture_is_one_sentence(kind: str, file: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A refusal is exit status 1, nothing on standard output, and one line on standard error."""
    assert main(["parse", kind, str(CORPUS / file)]) == 1
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


def test_a_refusal_names_line_column_and_excerpt(capfd: pytest.CaptureFixture[str]) -> None:
    """The sentence says where in the text the damage is and shows it."""
    main(["parse", "topo", str(CORPUS / "topo/058-h200-8gpu-8nic-glued-cells.txt")])
    sentence = capfd.readouterr().err
    assert "line 12, column 1" in sentence
    assert "SYSNODE" in sentence


@pytest.mark.parametrize("file", ["/nowhere/x", "/"])
def test_a_capture_that_can_not_be_read_is_an_error(file: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A missing file and a folder are told in one sentence."""
    assert main(["parse", "topo", file]) == 1
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"can not read {file}: ")


def test_reading_a_capture_loads_no_service() -> None:
    """``parse`` needs neither an HTTP client nor the Kubernetes library nor metrics."""
    code = (
        "import sys\nfrom nicrails_broker.__main__ import main\n"
        "main(sys.argv[1:])\nprint(sorted({name.split('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "parse", "topo", str(TOPO)], capture_output=True, check=True, text=True
    )
    loaded = set(json.loads(done.stderr.replace("'", '"')))
    assert loaded.isdisjoint({"aiohttp", "kubernetes_asyncio", "prometheus_client", "structlog", "yaml", "cattrs"})


def test_a_closed_pipe_is_no_traceback() -> None:
    """When the reader of our output goes away, the program ends without complaint."""
    done = subprocess.run(
        [
            "sh",
            "-c",
            'exec 3>&1; { "$@"; echo "$?" >&3; } | true',
            "sh",
            sys.executable,
            "-m",
            "nicrails_broker",
            "parse",
            "topo",
            str(TOPO),
        ],
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stderr == ""
    assert done.stdout in ("0\n", "1\n")


def test_a_good_file_has_no_faults(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """``check-config`` of a good file is silent and exits with 0."""
    file = tmp_path / "config.yaml"
    file.write_text(EXAMPLE)
    assert main(["check-config", "--config", str(file)]) == 0
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.mark.parametrize("command", ["check-config", "run", "discover"])
def test_every_command_tells_all_faults_of_its_file(
    command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bad file is exit status 2 with every fault on a line of its own, from each command that reads one."""
    monkeypatch.setenv("NODE_NAME", "n1")
    monkeypatch.setenv("POD_NAMESPACE", "ns")
    file = tmp_path / "config.yaml"
    file.write_text(EXAMPLE.replace("host-lldp", "xplane") + "server: {port: -1}\nfoo: 1\n")
    assert main([command, "--config", str(file)]) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert [line.split(":")[0] for line in captured.err.splitlines()] == [
        "nodeMetadata.plugins.gpuNicRailMapping.railSource.name",
        "server.port",
        "foo",
    ]


def test_a_run_without_its_environment_is_a_bad_configuration(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faults of the file and of the environment are told together."""
    monkeypatch.delenv("NODE_NAME", raising=False)
    monkeypatch.delenv("POD_NAMESPACE", raising=False)
    file = tmp_path / "config.yaml"
    file.write_text(EXAMPLE + "foo: 1\n")
    assert main(["run", "--config", str(file)]) == 2
    assert [line.split(":")[0] for line in capfd.readouterr().err.splitlines()] == [
        "foo",
        "environment variable NODE_NAME",
        "environment variable POD_NAMESPACE",
    ]


def test_a_bad_uid_is_a_bad_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A ``--node-uid`` that is none is refused before anything is looked at."""
    file = tmp_path / "config.yaml"
    file.write_text(EXAMPLE)
    assert main(["discover", "--config", str(file), "--node-uid", "a b"]) == 2
    assert "not a Node UID" in capfd.readouterr().err


@pytest.mark.parametrize(
    "argv", [[], ["parse"], ["parse", "json", "x"], ["run"], ["check-config", "--conf", "x"], ["nonsense"]]
)
def test_a_wrong_command_line_is_2(argv: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """A command line that makes no sense is exit status 2 with the usage; options are not guessed from abbreviations."""
    assert main(argv) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "usage: nicrails-broker" in captured.err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--help"], ["run", "check-config", "discover", "parse", "Exit status"]),
        (["run", "--help"], ["--config FILE", "--kubeconfig FILE", "NODE_NAME", "POD_NAMESPACE"]),
        (["discover", "--help"], ["--sysfs-root DIR", "--lldp-file FILE", "--topo-file FILE", "--inventory-file FILE"]),
        (["parse", "--help"], ["topo,inventory,lldp", "standard input"]),
    ],
)
def test_help_names_everything(argv: list[str], words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """The help of each command names its options and what it does."""
    assert main(argv) == 0
    text = " ".join(capfd.readouterr().out.split())
    assert all(word in text for word in words), text


def test_the_entry_point_exits_with_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """The installed command ends with the status of the command."""
    monkeypatch.setattr(sys, "argv", ["nicrails-broker", "parse", "topo", "/nowhere"])
    with pytest.raises(SystemExit) as caught:
        run()
    assert caught.value.code == 1
