"""The scripted kubelet, seen through the real API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest
import pytest_asyncio

from tests.cluster import kubelet as says
from tests.cluster.kubelet import ERROR, STDERR, STDOUT, FakeKubelet, Refusal
from tests.cluster.world import World

pytestmark = pytest.mark.needs("control-plane")

QUERY = ("nvidia-smi", "--query-gpu=index,uuid,pci.bus_id", "--format=csv,noheader")


@dataclass(slots=True)
class Outcome:
    """What a client of ``exec`` saw."""

    stdout: bytes = b""
    stderr: bytes = b""
    status: dict[str, Any] | None = None
    messages: int = 0


@dataclass(frozen=True, slots=True)
class Rig:
    """A pod on a Node whose kubelet is scripted."""

    world: World
    kubelet: FakeKubelet
    pod: str

    async def exec(self, *, until: int | None = None) -> Outcome:
        """Run the query in the pod through the API server; stop reading after ``until`` bytes of output."""
        query = [("command", word) for word in QUERY] + [("stdout", "1"), ("stderr", "1"), ("stdin", "0")]
        url = self.world.api.endpoint.url + self.world.path("pods", self.pod) + f"/exec?{urlencode(query)}"
        outcome = Outcome()
        async with self.world.api.session.ws_connect(
            url,
            headers=self.world.api.endpoint.headers,
            protocols=["v4.channel.k8s.io"],
            ssl=self.world.api.endpoint.ssl_context() or True,
            max_msg_size=0,
        ) as socket:
            assert socket.protocol == "v4.channel.k8s.io"
            async for message in socket:
                outcome.messages += 1
                channel, data = message.data[0], message.data[1:]
                if channel == STDOUT:
                    outcome.stdout += data
                elif channel == STDERR:
                    outcome.stderr += data
                elif channel == ERROR:
                    outcome.status = json.loads(data)
                if until is not None and len(outcome.stdout) + len(outcome.stderr) >= until:
                    break
        return outcome


@pytest_asyncio.fixture
async def rig(world: World, kubelet: FakeKubelet) -> AsyncIterator[Rig]:
    """A ready pod of a DaemonSet on a Node of its own."""
    node = world.unique("node")
    await world.node(node, kubelet_port=kubelet.port)
    pod = await world.pod(await world.daemon_set(), node)
    yield Rig(world, kubelet, pod["metadata"]["name"])


async def test_answers_and_remembers(rig: Rig) -> None:
    """Output and success arrive byte for byte; what was asked, by whom, is on record."""
    rig.kubelet.answers(QUERY, says.succeeds(b"0, GPU-1, 00000000:1B:00.0\n" * 1000, b"a warning\n"))
    outcome = await rig.exec()
    assert outcome.stdout == b"0, GPU-1, 00000000:1B:00.0\n" * 1000
    assert outcome.stderr == b"a warning\n"
    assert outcome.status == says.SUCCESS
    [asked] = rig.kubelet.asked
    assert (asked.namespace, asked.pod, asked.container) == (rig.world.namespace, rig.pod, "nvidia-device-plugin")
    assert asked.command == QUERY
    assert asked.client == "kube-apiserver"
    assert not asked.stdin


async def test_exits(rig: Rig) -> None:
    """A non-zero exit is a Status with the code as its cause."""
    rig.kubelet.answers(QUERY, says.exits(3, b"half a ", b"NVML: Driver/library version mismatch\n"))
    outcome = await rig.exec()
    assert outcome.stdout == b"half a "
    assert outcome.status is not None
    assert outcome.status["reason"] == "NonZeroExitCode"
    assert outcome.status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


async def test_lacks_what_nobody_scripted(rig: Rig) -> None:
    """A command without an answer is a missing binary: a Status with code 500."""
    outcome = await rig.exec()
    assert outcome.status is not None
    assert outcome.status["code"] == 500
    assert "nvidia-smi" in outcome.status["message"]


async def test_loses_half(rig: Rig) -> None:
    """Success with half the output, as some runtimes do it."""
    rig.kubelet.answers(QUERY, says.half(b"0123456789"))
    outcome = await rig.exec()
    assert (outcome.stdout, outcome.status) == (b"01234", says.SUCCESS)


@pytest.mark.parametrize("answer", [says.cut(b"0, GPU-1"), says.no_status(b"0, GPU-1")], ids=["cut", "no status"])
async def test_ends_without_a_status(rig: Rig, answer: says.Answer) -> None:
    """A connection that ends in the middle delivers what came before and no outcome."""
    rig.kubelet.answers(QUERY, answer)
    outcome = await rig.exec()
    assert outcome.stdout == b"0, GPU-1"
    assert outcome.status is None


async def test_hangs(rig: Rig) -> None:
    """Nothing comes until the client gives up, and the kubelet sees it go."""
    rig.kubelet.answers(QUERY, says.hangs(b"0, GPU-1"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await rig.exec()
    async with asyncio.timeout(10):
        await rig.kubelet.asked[0].over.wait()
    assert rig.kubelet.most_at_once == 1


@pytest.mark.parametrize("channel", [STDOUT, STDERR])
async def test_floods(rig: Rig, channel: int) -> None:
    """A client may leave a flood of 100 MB after its first megabyte, and the flood ends."""
    rig.kubelet.answers(QUERY, says.floods(100_000_000, channel))
    outcome = await rig.exec(until=1_000_000)
    assert 1_000_000 <= len(outcome.stdout) + len(outcome.stderr) < 2_000_000
    assert outcome.status is None
    async with asyncio.timeout(10):
        await rig.kubelet.asked[0].over.wait()


async def test_splits_characters(rig: Rig) -> None:
    """Messages arrive as they were cut, in the middle of a character too."""
    text = "Größe\n".encode()
    rig.kubelet.answers(QUERY, says.succeeds_in([text[:3], text[3:4], text[4:]]))
    outcome = await rig.exec()
    assert outcome.stdout == text
    assert outcome.messages == 5  # the empty one at the start and the status


@pytest.mark.parametrize("status", [400, 403, 500])
async def test_refuses_before_the_upgrade(rig: Rig, status: int) -> None:
    """A refusal of the kubelet reaches the client as an HTTP status."""
    rig.kubelet.answers(QUERY, Refusal(status=status, body="container not found"))
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await rig.exec()
    assert refused.value.status == status


async def test_is_down_and_comes_back(rig: Rig) -> None:
    """Without a kubelet the API server answers 500, and on its old port it is found again."""
    rig.kubelet.answers(QUERY, says.succeeds(b"0"))
    await rig.kubelet.stop()
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await rig.exec()
    assert refused.value.status == 500
    await rig.kubelet.start()
    assert (await rig.exec()).stdout == b"0"


async def test_answers_in_turn(rig: Rig) -> None:
    """Several answers come in turn, the last one for ever."""
    rig.kubelet.answers(QUERY, says.exits(1), says.succeeds(b"good"))
    assert (await rig.exec()).stdout == b""
    assert (await rig.exec()).stdout == b"good"
    assert (await rig.exec()).stdout == b"good"
