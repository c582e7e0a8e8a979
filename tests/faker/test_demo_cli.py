"""The command line of ``nicrails-faker``, without the demonstration itself."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nicrails.kube import KubeClient, KubeconfigAccess, path
from nicrails_faker.__main__ import main
from nicrails_faker.machines import names
from tests.support.reaper import reaper
from tests.support.waiting import eventually_sync


def test_machines_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """``machine list`` gives name and description of every shipped machine, one a line."""
    assert main(["machine", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(names())
    assert all(len(line.split()) > 5 for line in lines)


def test_a_machine_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``machine write`` puts a machine into a directory and says where its parts are."""
    assert main(["machine", "write", "h200-mig", str(tmp_path / "m")]) == 0
    told = dict(re.findall(r"^(\S+(?: \S+)?) {2,}(\S+)$", capsys.readouterr().out, re.MULTILINE))
    assert told["sysfs root"] == str(tmp_path / "m/sys")
    done = subprocess.run([told["lldpctl"], "-f", "json0"], capture_output=True, check=True)
    assert b'"eth_r1_p0"' in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["machine", "write", "nope", "{tmp}/m"], 1, "no machine 'nope' is shipped; there are a100-1gpu, "),
        (["machine", "write", "{tmp}/", "{tmp}/m"], 1, "machine.json: there is no such file"),
        (["machine", "write", "h200-mig", "{tmp}/file"], 1, "File exists"),
        (["api", "--machine", "h200-mig"], 2, "api: --machine needs --directory"),
        (["api", "--machine", "nope", "--directory", "{tmp}"], 1, "no machine 'nope'"),
        (["api", "--address", "192.0.2.1"], 1, "192.0.2.1"),
        (["demo", "--kee"], 2, "unrecognized arguments: --kee"),
        ([], 2, "the following arguments are required: COMMAND"),
    ],
)
def test_faults_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    """A fault is a sentence on standard error and an exit code; nothing is on standard output."""
    (tmp_path / "file").touch()
    assert main([argument.format(tmp=tmp_path) for argument in arguments]) == code
    output = capsys.readouterr()
    assert output.out == ""
    assert said in output.err
    assert "Traceback" not in output.err


@contextlib.contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Path]:
    """The command ``api`` in a process, once its kubeconfig is there; gives the kubeconfig. It must end with exit code 0."""
    kubeconfig = folder / "kubeconfig"
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "nicrails_faker", "api", "--kubeconfig", str(kubeconfig), *arguments],
            cwd=folder,
            stdout=output,
        )
    number = reaper().process(process.pid)
    try:
        eventually_sync(kubeconfig.exists, within=10, what="the kubeconfig is there")
        yield kubeconfig
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
        reaper().forget(number)


async def test_the_api_stands_alone(tmp_path: Path) -> None:
    """``api`` serves Nodes with their pods, writes a kubeconfig that works, and ends with SIGTERM and exit code 0."""
    with serving(tmp_path, "--machine", "h200-mig", "--directory", str(tmp_path)) as kubeconfig:
        async with KubeClient(KubeconfigAccess(kubeconfig), user_agent="test/0") as client:
            nodes = (await client.request("GET", path("api", "v1", "nodes"))).object()["items"]
            pods = (await client.request("GET", path("api", "v1", "pods"))).object()["items"]
    assert [node["metadata"]["name"] for node in nodes] == ["h200-mig"]
    assert [pod["spec"]["nodeName"] for pod in pods] == ["h200-mig"]


def test_the_api_says_what_is_there(tmp_path: Path) -> None:
    """``api`` tells its machines, the kubeconfig, which its owner alone can read, and its address."""
    with serving(tmp_path, "--machine", "h200-mig", "--directory", str(tmp_path)) as kubeconfig:
        assert kubeconfig.stat().st_mode & 0o077 == 0
        assert (tmp_path / "h200-mig/sys/class/net/eth_r0_p0/device").exists()
        eventually_sync(
            lambda: "serving http://127.0.0.1:" in (tmp_path / "output").read_text(),
            within=5,
            what="the address is told",
        )
    told = (tmp_path / "output").read_text()
    assert f"Node h200-mig, its machine in {tmp_path}/h200-mig\n" in told
    assert f"kubeconfig {kubeconfig}\n" in told


def test_the_kubeconfig_may_name_another_server(tmp_path: Path) -> None:
    """``--server`` is the URL in the kubeconfig, for those who reach the API under another name."""
    with serving(tmp_path, "--server", "http://api.example:1234") as kubeconfig:
        assert 'server: "http://api.example:1234"' in kubeconfig.read_text()
        assert "127.0.0.1" not in kubeconfig.read_text()
