"""The services as processes: ``nicrails-faker topology``, ``mig`` and ``nodes``."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from nicrails_faker.cli import main
from nicrails_faker.migfaker.command import add_request_arguments
from tests.faker.played import MIG_NODE
from tests.faker.scene import POOL, Scene, embedded
from tests.support.ports import release_port, reserve_port
from tests.support.waiting import eventually


@contextlib.asynccontextmanager
async def _running(
    folder: Path, kubeconfig: Path, *arguments: str
) -> AsyncIterator[tuple[subprocess.Popen[bytes], str]]:
    port = reserve_port()
    argv = [sys.executable, "-m", "nicrails_faker", *arguments, "--kubeconfig", str(kubeconfig)]
    log = folder / f"{arguments[0]}-{port}.log"
    environment = {key: value for key, value in os.environ.items() if key not in ("NODE_NAME", "TOPOLOGY_CM_NAME")}
    with log.open("wb") as stderr:
        process = await asyncio.to_thread(
            subprocess.Popen,
            [*argv, "--address", "127.0.0.1", "--port", str(port)],
            stdout=stderr,
            stderr=stderr,
            env=environment,
        )
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)
        release_port(port)


async def _healthy(url: str) -> bool:
    return (await _get(url, "/healthz"))[0] == 200


@pytest.mark.parametrize("command", [("topology",), ("mig", "--node", "n"), ("nodes",)], ids=lambda value: value[0])
async def test_a_service_gets_healthy_and_ends_when_told(tmp_path: Path, command: tuple[str, ...]) -> None:
    """Each service gets healthy on a cluster that has what it needs, and ends on SIGTERM within 10 s with exit code 0."""
    async with embedded(tmp_path) as (cluster, scene):
        await _populate(scene, topology=command[0] != "topology")  # that one makes it
        kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig")
        namespace = ("--topology-namespace", scene.world.namespace)
        async with _running(tmp_path, kubeconfig, *command, *namespace) as (process, url):
            await eventually(lambda: _healthy(url), within=50, what="it is healthy")
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 10) == 0


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (
            ("device-plugin", "--plugin-directory", "{folder}", "--host-directory", "/proc/no"),
            "can not write nvidia-smi",
        ),
        (("device-plugin", "--plugin-directory", "/proc", "--host-directory", "{folder}"), "no /proc/kubelet.sock"),
        (("metrics", "--pod-resources", "{folder}/kubelet.sock"), "has not said yet who holds what"),
    ],
    ids=["device-plugin", "unwritable", "metrics"],
)
async def test_a_kubelet_that_never_answers(tmp_path: Path, command: tuple[str, ...], says: str) -> None:
    """A service whose kubelet takes connections and never answers, or that has no folder of one, lives, says so, and ends."""
    async with embedded(tmp_path) as (cluster, scene):
        await _populate(scene, topology=True)
        kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig")
        with socket.socket(socket.AF_UNIX) as kubelet:
            kubelet.bind(str(tmp_path / "kubelet.sock"))
            kubelet.listen()
            arguments = [word.format(folder=tmp_path) for word in command]
            namespace = ("--topology-namespace", scene.world.namespace)
            async with _running(tmp_path, kubeconfig, *arguments, "--node", "n", *namespace) as (process, url):

                async def told() -> bool:
                    status, body = await _get(url, "/healthz")
                    assert status == 503, body
                    assert says in body, body
                    return True

                await eventually(told, within=50, what=f"it says {says}")
                assert (await _get(url, "/livez"))[0] == 200
                process.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(process.wait, 10) == 0


async def _get(url: str, path: str) -> tuple[int, str]:
    """Status and body, 0 while nobody listens."""
    try:
        async with aiohttp.ClientSession() as session, session.get(f"{url}{path}") as answer:
            return answer.status, await answer.text()
    except aiohttp.ClientError:
        return 0, ""


async def _populate(scene: Scene, *, topology: bool) -> None:
    await scene.cluster_topology()
    await scene.world.node("n", labels=POOL | MIG_NODE)
    if not topology:
        return
    cluster = await scene.store.read_cluster()
    await scene.store.create("n", cluster.node("n", "default", {}), annotations={})


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["topology"], "give --kubeconfig FILE"),
        (["mig", "--kubeconfig", "{kubeconfig}"], "set NODE_NAME"),
        (["mig", "--kubeconfig", "{kubeconfig}", "--node", "Not_A_Name"], "can not be the name of a ConfigMap"),
        (["mig", "--taken-within", "0"], "more than 0"),
        (["mig", "--taken-within", "soon"], "more than 0"),
        (["mig", "--on-change", "sometimes"], "invalid choice"),
        (["nodes", "--fake-node-label", "no value"], "write KEY=VALUE"),
        (["nodes", "--port", "x"], "is no port"),
    ],
)
def test_bad_arguments_end_with_a_sentence(
    argv: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What does not fit is told in a sentence, with exit code 2."""
    for name in ("NODE_NAME", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\nclusters: [{name: it, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "users: [{name: it, user: {}}]\ncontexts: [{name: it, context: {cluster: it, user: it}}]\ncurrent-context: it\n"
    )
    assert main([argument.format(kubeconfig=kubeconfig) for argument in argv]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("value", ["true", "True", "false", ""])
def test_labelling_is_switched_off_as_in_the_peer(value: str) -> None:
    """``DISABLE_NODE_LABELING=true`` is the default of ``--no-node-labels``."""
    parser = argparse.ArgumentParser()
    add_request_arguments(parser, {"DISABLE_NODE_LABELING": value})
    assert parser.parse_args([]).node_labels is (value.lower() != "true")
    assert parser.parse_args(["--no-node-labels"]).node_labels is False
