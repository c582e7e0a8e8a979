"""Neighbours, command output and hands that mean harm: nothing crashes, nothing wrong is published, logs stay clean."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Iterator

import pytest

from nicrails_faker.machines.programs import Answer
from tests.cluster.api import Json
from tests.e2e.site import CONFIG_MAP, NAMESPACE, Site
from tests.support.waiting import eventually

RECORDS = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIG_MAP}"
LIMIT = 128 << 20
"""The broker's memory limit in the chart."""

NAMES = {
    "quotes": "a\"b'c`d$(e)\\f",
    "lines": 'one\ntwo\r\n"interface": {"eth_r9_p9": {}}\n',
    "control": "\x1b[2J\x1b]0;owned\x07\x08\x7f",
    "json": '"}]}}], "interface": [{"name": "eth_r9_p0", "chassis": [{"name": [{"value": "x"}]}]}',
    "long": "x" * 255,
    "not-utf-8": b"\xff\xfe\xc3(\xed\xa0\x80".decode(errors="surrogateescape"),
}


async def unharmed(site: Site, before: dict[str, int]) -> None:
    """Nothing crashed and the logs are clean; then wait until all is as it was, with new brokers.

    A broker asks a GPU that hung again after minutes only, and one that is started anew at once.
    """
    assert await restarts(site) == before
    for pod in [*await site.pods("broker"), *await site.pods("observer")]:
        assert (await site.endpoint(pod, "/livez"))[0] == 200
        text = site.logs(pod, "--tail=2000")
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202e]", text)
        for line in text.splitlines():
            assert line.startswith("{"), line[:1000]
            assert isinstance(json.loads(line), dict)
    pod = await site.broker("node1")
    if (await site.endpoint(pod, "/healthz"))[0] != 200:
        await site.api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}", grace=1)
    await site.settled()
    await site.healthy("node1")


async def restarts(site: Site) -> dict[str, int]:
    """How often the containers of all pods were started anew, by pod."""
    pods: list[Json] = [*await site.pods("broker"), *await site.pods("observer")]
    return {pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods}


async def discoveries(site: Site, node: str) -> float:
    """When the broker of a Node last had its rails, in seconds since 1970."""
    _, text = await site.endpoint(await site.broker(node), "/metrics")
    found = re.search(
        r'nicrails_broker_source_last_success_timestamp_seconds\{kind="rails",source="host-lldp"\} (\S+)', text
    )
    return float(found[1]) if found else 0.0


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_a_neighbour_s_name(site: Site, name: str) -> None:
    """Whatever a switch calls itself over real LLDP, the rails are the same and no interface is injected."""
    before = await restarts(site)
    lab = site.cluster.nodes["node1"].lab
    await asyncio.to_thread(lab.switch.configure, "system", "hostname", name)
    try:
        seen = await discoveries(site, "node1")

        async def twice() -> bool:
            # The broker looks every two seconds; the switch announces itself every second.
            return await discoveries(site, "node1") > seen + 4

        await eventually(twice, within=60, what="the broker of node1 has looked anew", interval=0.5)
        assert await site.records() == await site.golden()
    finally:
        await asyncio.to_thread(lab.switch.configure, "system", "hostname", "switch")
    await unharmed(site, before)


@contextlib.contextmanager
def nvidia_smi(site: Site, node: str, script: str) -> Iterator[None]:
    """Another ``nvidia-smi`` in the GPU Operator's pod of a Node."""
    program = site.machines[node].nvidia_smi
    usual = program.read_bytes()
    program.write_text(f"#!/bin/sh\n{script}\n")
    try:
        yield
    finally:
        program.write_bytes(usual)


SCRIPTS = {
    "flood": ("exec head -c 100000000 /dev/zero", "more than"),
    "flood-of-lines": ("yes 'GPU0 X PIX' | head -c 100000000", "more than"),
    "endless": ("exec sleep 3600", "3 s"),
    "endless-flood-of-errors": ("exec yes 'no device' >&2", ""),
    "escapes": ("printf '\\033[2J\\033]0;owned\\007\\tGPU0\\nGPU0\\t\\302\\233X\\n'", ""),
    "nothing": ("exit 0", ""),
    "failure": ("echo boom >&2; exit 13", "13"),
    "not-utf-8": ("printf '\\377\\376\\tGPU0\\n'", ""),
}


@pytest.mark.fault("B6")
@pytest.mark.parametrize(("script", "fragment"), SCRIPTS.values(), ids=SCRIPTS)
async def test_a_hostile_nvidia_smi(site: Site, script: str, fragment: str) -> None:
    """Output of 100 MB, without end or full of escapes makes the broker unhealthy; memory and record stay as they were."""
    before, records = await restarts(site), await site.records()
    with nvidia_smi(site, "node1", script):
        report = await site.reason("node1", "discover-gpus", fragment)
        assert not re.search(r"[\x00-\x1f\x7f-\x9f]", json.dumps(report, ensure_ascii=False))
        assert await site.records() == records
        status = site.run_in(await site.broker("node1"), "cat", "/proc/1/status")
        (peak,) = [int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM")]
        assert peak < LIMIT
        assert (await site.endpoint(await site.broker("node1"), "/livez"))[0] == 200
    await unharmed(site, before)


@pytest.mark.fault("B10")
async def test_a_capture_with_escapes(site: Site) -> None:
    """A topology with terminal escapes inside of a cell is refused with an excerpt that is safe to print."""
    before, records = await restarts(site), await site.records()
    machine = site.machines["node1"]
    topo = machine.machine.captures.topo
    assert topo is not None
    machine.answer(Answer.TOPO, topo.replace(b"NODE", b"NO\x1b[31mDE", 1))
    try:
        await site.reason("node1", "discover-gpus", "\\\\x1b")
        assert await site.records() == records
    finally:
        machine.heal()
    await unharmed(site, before)


@pytest.mark.fault("B2")
@pytest.mark.parametrize(
    "data",
    [
        {"node1": "nonsense", "node2": ""},
        {"node1": "[" * 100_000},
        {"node1": '{"schemaVersion":"v9"}', "no-such-node": "\x1b[2J", "also.none": "x" * 200_000},
        None,
    ],
    ids=["nonsense", "nested", "foreign-keys", "emptied"],
)
async def test_a_config_map_edited_by_hand(site: Site, data: dict[str, str] | None) -> None:
    """Whatever a person writes into the ConfigMap, the brokers put their records right and nothing crashes."""
    before = await restarts(site)
    await site.api.merge_patch(RECORDS, {"data": data})

    async def right() -> bool:
        found = await site.records()
        assert {node: found.get(node) for node in ("node1", "node2")} == await site.golden()
        return True

    await eventually(right, within=60, what="both records are right again", interval=0.2)
    strange = (await site.records()).keys() - {"node1", "node2"}
    await site.api.merge_patch(RECORDS, {"data": dict.fromkeys(strange)})
    await unharmed(site, before)


@pytest.mark.fault("O1")
async def test_a_config_map_that_is_no_longer_the_observer_s(site: Site) -> None:
    """A ConfigMap whose owner was taken away by hand is left alone and told of, and all is right once it is deleted."""
    before = await restarts(site)
    await site.api.merge_patch(RECORDS, {"metadata": {"ownerReferences": None}})
    await site.reason("node1", "publish", CONFIG_MAP)
    await site.api.delete(RECORDS)
    await unharmed(site, before)
