from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from nicrails_observer.__main__ import main
from tests.observer.answers import settings_file
from tests.support.ports import release_port, reserve_port
from tests.support.waiting import eventually_sync


def test_a_good_file_is_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``check-config`` needs nothing but the file and exits 0."""
    assert main(["check-config", "--config", str(settings_file(tmp_path))]) == 0
    assert capsys.readouterr().err == ""


def test_a_bad_file_is_told_line_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each fault is a line of its own with the file and the dotted path; the exit code is 2."""
    file = settings_file(tmp_path, "server: {port: x}\nobserver: {nope: 1}")
    assert main(["check-config", "--config", str(file)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [[str(file), "observer.nope"], [str(file), "server.port"]]


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"a: [", b"- a"])
def test_an_unreadable_file_is_bad_configuration(tmp_path: Path, content: bytes | None) -> None:
    """A file that is missing, not UTF-8, not YAML or no mapping is bad configuration, not a crash."""
    file = tmp_path / "settings.yaml"
    if content is not None:
        file.write_bytes(content)
    assert main(["check-config", "--config", str(file)]) == 2


def test_run_tells_faults_of_file_and_environment_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who starts the service wrongly learns of everything in one go."""
    file = settings_file(tmp_path, "server: {port: x}")
    assert main(["run", "--config", str(file)], {}) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 3
    assert all(word in error for word in ("server.port", "POD_NAMESPACE", "KUBERNETES_SERVICE_HOST"))


def test_a_missing_kubeconfig_is_bad_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A kubeconfig that is not there is told at once instead of being tried for ever."""
    arguments = ["run", "--config", str(settings_file(tmp_path)), "--kubeconfig", str(tmp_path / "none")]
    assert main(arguments, {"POD_NAMESPACE": "ns"}) == 2
    assert capsys.readouterr().err == f"{tmp_path / 'none'}: no such kubeconfig file\n"


@pytest.mark.parametrize(("arguments", "code"), [([], 2), (["run"], 2), (["dance"], 2), (["--help"], 0)])
def test_arguments_are_checked(arguments: list[str], code: int) -> None:
    """Wrong arguments are bad configuration; help is not."""
    assert main(arguments) == code


@pytest.mark.fault("F13")
def test_a_busy_port_ends_the_service_with_one_line(tmp_path: Path) -> None:
    """F13: the process exits 1 and says in one line which port, and what to do."""
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        done = _run(tmp_path, f"server: {{address: 127.0.0.1, port: {port}}}\nlogging: {{level: error}}").communicate()
    (line,) = done[1].decode().splitlines()
    assert line.startswith(f"nicrails-observer: can not listen on 127.0.0.1 port {port}: ")
    assert "server.port" in line


@pytest.mark.fault("F1")
@pytest.mark.fault("F10")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_service_in_good_order(tmp_path: Path, number: signal.Signals) -> None:
    """F1, F10: without an API server the process lives on, and a signal ends it within 5 s with exit code 0."""
    port = reserve_port()
    process = _run(tmp_path, f"server: {{address: 127.0.0.1, port: {port}}}")
    try:
        eventually_sync(lambda: _answers(port), within=30, what="the service listens")
        process.send_signal(number)
        _, error = process.communicate(timeout=5)
    finally:
        process.kill()
        process.wait()
        release_port(port)
    assert process.returncode == 0
    assert b'"event":"stopping"' in error
    assert b"Traceback" not in error


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _run(folder: Path, text: str) -> subprocess.Popen[bytes]:
    """The service as a process, with an API server that is not there."""
    dead = reserve_port()
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], "
        f"clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{dead}'}}}}], users: [{{name: u, user: {{}}}}]}}"
    )
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "nicrails_observer",
            "run",
            "--config",
            str(settings_file(folder, text)),
            "--kubeconfig",
            str(kubeconfig),
        ],
        env={**os.environ, "POD_NAMESPACE": "ns"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
