"""Exec in the embedded cluster: frames, outcomes, and what can go wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from nicrails_faker.api import EmbeddedCluster, ExecHandler, ExecIO, ExecRequest, exit_status
from tests.conformance.speaking import Api, pod
from tests.support.waiting import eventually

PROTOCOLS = ("v4.channel.k8s.io",)


@pytest.fixture
def running(cluster: EmbeddedCluster) -> Callable[[ExecHandler], None]:
    """A pod ``a`` with the containers ``one`` and ``two`` on a Node; sets what its commands do."""
    cluster.create("v1", "nodes", {"metadata": {"name": "n"}})
    cluster.create("v1", "pods", {**pod("a", "one", "two", nodeName="n"), "status": {"phase": "Running"}})

    def answer_by(handler: ExecHandler) -> None:
        cluster.exec_handler = handler

    return answer_by


async def execute(kube: Api, *command: str, container: str = "one") -> tuple[list[bytes], int | None]:
    """All messages of an exec, and the code that the connection was closed with."""
    query = [("command", word) for word in command] + [("container", container), ("stdout", "1"), ("stderr", "1")]
    url = f"{kube.endpoint.url}/api/v1/namespaces/default/pods/a/exec"
    async with kube.session.ws_connect(url, params=query, protocols=PROTOCOLS) as socket:
        assert socket.protocol == "v4.channel.k8s.io"
        async with asyncio.timeout(10):
            return [message.data async for message in socket], socket.close_code


def outcome(messages: list[bytes]) -> dict[str, Any]:
    """The status on channel 3."""
    (report,) = (message[1:] for message in messages if message[:1] == b"\x03")
    return dict(json.loads(report))


async def test_a_command_is_run_where_it_should(kube: Api, running: Callable[[ExecHandler], None]) -> None:
    """The handler is told namespace, pod, container and command; both outputs and the success arrive."""
    asked: list[ExecRequest] = []

    async def handler(request: ExecRequest, io: ExecIO) -> None:
        asked.append(request)
        await io.stdout(b"out")
        await io.stderr(b"err")

    running(handler)
    messages, code = await execute(kube, "nvidia-smi", "topo", "-m", container="two")
    assert asked == [ExecRequest(namespace="default", pod="a", container="two", command=("nvidia-smi", "topo", "-m"))]
    assert messages[:3] == [b"\x01", b"\x01out", b"\x02err"]
    assert outcome(messages) == {"metadata": {}, "status": "Success"} == exit_status(0)
    assert code == 1000


async def test_an_exit_code_is_reported(kube: Api, running: Callable[[ExecHandler], None]) -> None:
    """A returned number becomes the cause ExitCode."""

    async def handler(request: ExecRequest, io: ExecIO) -> int:
        return 3

    running(handler)
    messages, _ = await execute(kube, "false")
    assert outcome(messages) == {
        "metadata": {},
        "status": "Failure",
        "message": "command terminated with non-zero exit code: exit status 3",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
    }


async def test_a_missing_program_is_a_500(kube: Api, running: Callable[[ExecHandler], None]) -> None:
    """FileNotFoundError of the handler becomes the runtime's report about a missing program."""

    async def handler(request: ExecRequest, io: ExecIO) -> int:
        raise FileNotFoundError(request.command[0])

    running(handler)
    report = outcome((await execute(kube, "nope"))[0])
    assert (report["reason"], report["code"]) == ("InternalError", 500)
    assert 'exec: "nope": executable file not found in $PATH' in report["message"]


async def test_a_broken_handler_is_a_broken_runtime(kube: Api, running: Callable[[ExecHandler], None]) -> None:
    """Any other exception is a 500 on channel 3, and the server goes on."""

    async def handler(request: ExecRequest, io: ExecIO) -> int:
        raise RuntimeError("boom")

    running(handler)
    assert outcome((await execute(kube, "x"))[0])["message"] == "Internal error occurred: RuntimeError: boom"
    assert (await kube.get("/readyz")).status == 200


async def test_large_output_comes_in_frames(kube: Api, running: Callable[[ExecHandler], None]) -> None:
    """Output is cut into messages of at most 8 KiB, and is complete."""
    data = bytes(range(256)) * 400

    async def handler(request: ExecRequest, io: ExecIO) -> None:
        await io.stdout(data)

    running(handler)
    messages, _ = await execute(kube, "cat")
    pieces = [message[1:] for message in messages if message[:1] == b"\x01"]
    assert b"".join(pieces) == data
    assert max(map(len, pieces)) == 8192


async def test_any_report_can_be_sent(kube: Api, running: Callable[[ExecHandler], None]) -> None:
    """What the handler reports itself is not followed by another report."""

    async def handler(request: ExecRequest, io: ExecIO) -> int:
        await io.message(3, b"not JSON")
        return 5

    running(handler)
    messages, _ = await execute(kube, "x")
    assert [message for message in messages if message[:1] == b"\x03"] == [b"\x03not JSON"]


async def test_the_outcome_can_stay_unsaid(kube: Api, running: Callable[[ExecHandler], None]) -> None:
    """A stream can end in order without a report."""

    async def handler(request: ExecRequest, io: ExecIO) -> None:
        await io.stdout(b"half")
        await io.end()

    running(handler)
    messages, code = await execute(kube, "x")
    assert (messages, code) == ([b"\x01", b"\x01half"], 1000)


async def test_a_connection_can_be_cut(kube: Api, running: Callable[[ExecHandler], None]) -> None:
    """After ``abort`` what was written has arrived, and the connection is gone without a word."""

    async def handler(request: ExecRequest, io: ExecIO) -> None:
        await io.stdout(b"half")
        io.abort()

    running(handler)
    messages, code = await execute(kube, "x")
    assert messages == [b"\x01", b"\x01half"]
    assert code == 1006


@pytest.mark.parametrize("patient", [True, False], ids=["waits for the client", "does not look"])
async def test_a_hanging_command_ends_with_its_client(
    cluster: EmbeddedCluster, kube: Api, running: Callable[[ExecHandler], None], patient: bool
) -> None:
    """When the client goes, a handler that waits for that returns, and one that does not is cancelled."""
    ends: list[str] = []

    async def handler(request: ExecRequest, io: ExecIO) -> None:
        try:
            if patient:
                await io.hang()
                ends.append("returned")
            else:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    running(handler)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await execute(kube, "sleep")
    await eventually(lambda: ends, within=5, what="the handler has ended")
    assert ends == ["returned" if patient else "cancelled"]
    (logged,) = cluster.requests
    await eventually(lambda: logged.finished, within=5, what="the exec is over")
    assert (logged.status, logged.response_bytes) == (101, 1)


async def test_without_a_handler_no_kubelet_answers(cluster: EmbeddedCluster, kube: Api) -> None:
    """A cluster without a handler refuses the upgrade with a 500."""
    cluster.create("v1", "nodes", {"metadata": {"name": "n"}})
    cluster.create("v1", "pods", pod("a", "one", nodeName="n"))
    with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
        await execute(kube, "x")
    assert refusal.value.status == 500
