from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from nicrails_faker.cli import main
from nicrails_faker.mig import write_topology
from tests.faker.kubelet.double import FakeKubelet
from tests.faker.scene import Scene
from tests.faker.smi.topologies import whole
from tests.support.waiting import eventually


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    """A command sets up the log of this process on a standard error that is the test's alone."""
    yield
    structlog.reset_defaults()


def test_help_names_every_argument(capsys: pytest.CaptureFixture[str]) -> None:
    """The folders and modes stand in the help, with their defaults."""
    assert main(["device-plugin", "--help"]) == 0
    text = capsys.readouterr().out
    for word in (
        "--plugin-directory",
        "/var/lib/kubelet/device-plugins",
        "--host-directory",
        "--strict",
        "--on-change",
    ):
        assert word in text


def test_without_a_node_it_ends_with_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A pod without NODE_NAME is a mistake in its manifest: exit code 2."""
    monkeypatch.delenv("NODE_NAME", raising=False)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("{}")
    assert main(["device-plugin", "--kubeconfig", str(kubeconfig)]) == 2
    assert "set NODE_NAME from the pod's spec.nodeName" in capsys.readouterr().err


@pytest.fixture
def kubeconfig(scene: Scene, tmp_path: Path) -> Path:
    """That of the scene."""
    return next(tmp_path.glob("kubeconfig-*"))


async def test_the_command_serves_until_sigterm(scene: Scene, kubeconfig: Path, tmp_path: Path) -> None:
    """The process advertises the Node's devices, and SIGTERM ends it within ten seconds, without a socket left."""
    sockets = tmp_path / "s"
    sockets.mkdir()
    kubelet = FakeKubelet(sockets)
    await scene.config_map(
        "topology-node1",
        {"topology.yml": write_topology(whole())},
        labels={"node-topology": "true", "node-name": "node1"},
    )
    arguments = ["device-plugin", "--address", "127.0.0.1", "--port", "0", "--node", "node1"]
    arguments += ["--kubeconfig", str(kubeconfig), "--topology-namespace", scene.world.namespace]
    arguments += ["--plugin-directory", str(sockets), "--host-directory", str(tmp_path / "host")]
    await kubelet.start()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "nicrails_faker", *arguments, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await eventually(lambda: kubelet.allocatable == {"nvidia.com/gpu": 2}, within=30, what="two GPUs are there")
        process.terminate()
        async with asyncio.timeout(10):
            assert await process.wait() == 0
        assert {path.name for path in sockets.iterdir()} == {"kubelet.sock"}
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await kubelet.stop()
