"""The provider annotation on a real API server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import pytest_asyncio

from nicrails_broker.annotations import CHASSIS_ID
from nicrails_faker.machines import Answer
from tests.broker.site import Site, chassis_provider, cpu_site
from tests.broker.test_host_lldp import json0
from tests.cluster.controlplane import ControlPlane
from tests.cluster.world import World
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs("control-plane")


@pytest_asyncio.fixture
async def site(control_plane: ControlPlane, world: World, tmp_path: Path) -> Site:
    """A Node with rails and without GPUs, and the observer's ConfigMap."""
    site = await cpu_site(control_plane, world, tmp_path)
    await site.make_config_map()
    return site


async def annotation(site: Site) -> str | None:
    """The Node's annotation."""
    node = await site.world.api.get(f"/api/v1/nodes/{site.name}")
    value: str | None = node["metadata"].get("annotations", {}).get(CHASSIS_ID)
    return value


async def test_by_default_nothing_is_annotated(site: Site) -> None:
    """The provider ``none`` is the default and leaves the Node alone."""
    before = await site.world.api.get(f"/api/v1/nodes/{site.name}")
    async with site.running() as broker:
        await broker.healthy()
        _, report = await broker.health()
    assert list(report["duties"]) == ["rails-record"]
    assert await site.world.api.get(f"/api/v1/nodes/{site.name}") == before


async def test_several_switches_are_not_guessed_between(site: Site) -> None:
    """With neighbours of several chassis the duty fails and lists them; rails are published all the same."""
    site.machine.answer(Answer.LLDP, _two_switches())
    async with site.running(provider=chassis_provider()) as broker:
        await broker.unhealthy(
            "choose-chassis", "2 different chassis", "mac:44:38:39:00:00:01 on eth_r0_p0", "mac:44:38:39:00:00:02"
        )
        _, report = await broker.health()
        assert report["duties"]["rails-record"]["status"] == "done"
        assert await annotation(site) is None
        await site.published()
        metrics = await broker.metrics()
        assert metrics['nicrails_broker_source_state{kind="chassis",source="lldp",state="failed"}'] == 1
        site.machine.answer(Answer.LLDP, json0("eth_r0_p0", "eth_r1_p0"))
        await broker.healthy()
        assert await annotation(site) == "mac:44:38:39:00:00:01"


def _two_switches() -> bytes:
    one, other = (json.loads(json0(*port)) for port in (["eth_r0_p0"], ["eth_r1_p0"]))
    (entry,) = other["lldp"][0]["interface"]
    entry["chassis"][0]["id"][0]["value"] = "44:38:39:00:00:02"
    one["lldp"][0]["interface"].append(entry)
    return json.dumps(one).encode()


async def test_the_expression_selects_the_ports(site: Site) -> None:
    """Only the neighbours of the selected interfaces count."""
    site.machine.answer(Answer.LLDP, _two_switches())
    async with site.running(provider=chassis_provider("^eth_r1_")) as broker:
        await broker.healthy()
    assert await annotation(site) == "mac:44:38:39:00:00:02"


async def test_a_hostile_chassis_never_gets_on_the_node(site: Site) -> None:
    """An ID that is no plain text is refused with its escaped beginning."""
    site.machine.answer(Answer.LLDP, json0("eth_r0_p0", "eth_r1_p0", chassis="\x1b[2J" + "x" * 100))
    async with site.running(provider=chassis_provider()) as broker:
        await broker.unhealthy("choose-chassis", "no plain text", r"\x1b[2J")
        assert await annotation(site) is None
        await site.published()


@pytest.mark.fault("F5")
async def test_a_missing_permission_fails_the_annotation_alone(
    control_plane: ControlPlane, site: Site, tmp_path: Path
) -> None:
    """F5: without ``patch`` on nodes the annotation fails with what to grant, and the record is published."""
    rules = [{"apiGroups": [""], "resources": ["nodes", "configmaps"], "verbs": ["get"]}]
    rules += [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}]
    await site.world.service_account("broker", cluster_rules=rules)
    token = await asyncio.to_thread(control_plane.service_account_token, site.world.namespace, "broker")
    kubeconfig = control_plane.kubeconfig(tmp_path / "broker", token=token)
    async with site.running(kubeconfig=kubeconfig, provider=chassis_provider("^eth_r0_")) as broker:
        await broker.unhealthy("annotate-node", "403", "needs patch on nodes")
        await site.published()
        grant = [*rules, {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}]
        role = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{site.world.unique('broker')}"
        await site.world.api.merge_patch(role, {"rules": grant})
        await broker.healthy()
    assert await annotation(site) is not None


async def test_a_node_without_neighbours_keeps_its_annotation(site: Site) -> None:
    """Without a neighbour there is nothing to set: the duty is done, and what is there stays."""
    site.machine.answer(Answer.LLDP, b'{"lldp": [{}]}')
    await site.world.api.merge_patch(
        f"/api/v1/nodes/{site.name}", {"metadata": {"annotations": {CHASSIS_ID: "mac:old"}}}
    )
    async with site.running(provider=chassis_provider()) as broker:
        await broker.healthy()
        state = 'nicrails_broker_source_state{kind="chassis",source="lldp",state="nothing"}'

        async def looked() -> bool:
            return (await broker.metrics()).get(state) == 1

        await eventually(looked, within=10, what="the broker has looked")
    assert await annotation(site) == "mac:old"
