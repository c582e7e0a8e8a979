"""A release's life by the real Helm on a real API server: installed, changed, rolled back, removed without a trace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.chart import paths
from tests.chart.combinations import ANNOTATIONS, MAPPING, POLICIES, RECORDS
from tests.chart.helm import CHART, RELEASE, Helm, Json, at, is_hook, merged
from tests.cluster.controlplane import ControlPlane
from tests.cluster.world import World, reference
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs("helm", "control-plane")


class Release:
    """A release in a world of its own."""

    def __init__(self, helm: Helm, world: World, operator: World) -> None:
        self.helm = helm
        self.world = world
        self.usual = merged(RECORDS, at(f"{MAPPING}.gpuSource.gpuOperatorNamespace", operator.namespace))

    async def run(self, verb: str, *arguments: str, values: Json | None = None) -> str:
        """Run a command on the release."""
        return await asyncio.to_thread(
            self.helm.run, verb, RELEASE, *arguments, "--namespace", self.world.namespace, values=values
        )

    async def objects(self, values: Json) -> list[Json]:
        """What the chart renders with these values, but for the hook."""
        rendered = await asyncio.to_thread(self.helm.template, values, namespace=self.world.namespace)
        return [item for item in rendered if not is_hook(item)]

    async def exist(self, items: list[Json]) -> set[str]:
        """The kinds and names of those that the API server has."""
        found = [await self.world.api.get_or_none(paths.path(item)) for item in items]
        return {f"{item['kind']} {item['metadata']['name']}" for item, there in zip(items, found, strict=True) if there}


def names(items: list[Json]) -> set[str]:
    """The kinds and names of objects."""
    return {f"{item['kind']} {item['metadata']['name']}" for item in items}


@pytest_asyncio.fixture
async def release(control_plane: ControlPlane, world: World, tmp_path: Path) -> AsyncIterator[Release]:
    """The chart, not yet installed."""
    folder = tmp_path / "helm"
    folder.mkdir()
    helm = Helm(folder, control_plane.kubeconfig(tmp_path / "kubeconfig"))
    async with World.on(control_plane.endpoint) as operator:
        yield Release(helm, world, operator)


async def test_features_come_and_go_with_upgrades(release: Release) -> None:
    """Each upgrade makes what its values need and removes what they no longer need; a rollback brings the old state back."""
    more = merged(
        release.usual, ANNOTATIONS, POLICIES, at("stormControl.enabled", value=True), at("observer.replicas", 2)
    )
    less = merged(release.usual, at(f"{MAPPING}.gpuSource", None))
    nothing = at(f"{MAPPING}.enabled", value=False)
    everything = await release.objects(more)
    try:
        await release.run("install", str(CHART), values=release.usual)
        usual = names(await release.objects(release.usual))
        assert await release.exist(everything) == usual
        for values in (more, less, nothing, more):
            await release.run("upgrade", str(CHART), "--reset-values", values=values)
            assert await release.exist(everything) == names(await release.objects(values))
        await release.run("rollback", "1")
        assert await release.exist(everything) == usual
    finally:
        await release.run("uninstall")
    assert await release.exist(everything) == set()


async def test_a_setting_that_changes_reaches_the_pods(release: Release) -> None:
    """An upgrade with another rail name changes the settings and both pod templates, and a rollback changes them back."""
    world = release.world

    async def state() -> tuple[str, list[str]]:
        settings = await world.api.get(world.path("configmaps", "nicrails-settings"))
        workloads = [
            await world.api.get(world.path(*kind, group="apis/apps/v1"))
            for kind in (("daemonsets", "nicrails-broker"), ("deployments", "nicrails-observer"))
        ]
        sums = [item["spec"]["template"]["metadata"]["annotations"]["checksum/settings"] for item in workloads]
        return settings["data"]["settings.yaml"], sums

    await release.run("install", str(CHART), values=release.usual)
    try:
        before = await state()
        other = merged(release.usual, at(f"{MAPPING}.railSource.hostLLDP.railID", "fabric$1"))
        await release.run("upgrade", str(CHART), values=other)
        after = await state()
        assert "railID: fabric$1" in after[0]
        assert not set(after[1]) & set(before[1])
        await release.run("rollback")
        assert await state() == before
    finally:
        await release.run("uninstall")


@pytest.mark.needs("garbage-collector")
async def test_nothing_stays_behind(release: Release) -> None:
    """An uninstallation leaves no object of the release; the ConfigMaps that the observer made, also the one of a former name, go too."""
    world = release.world
    await release.run("install", str(CHART), values=release.usual)
    deployment = await world.api.get(world.path("deployments", "nicrails-observer", group="apis/apps/v1"))
    for name in ("topograph-nic-rails", "of-a-former-name"):
        metadata = {"name": name, "ownerReferences": [reference("apps/v1", "Deployment", deployment)]}
        await world.api.create(
            world.path("configmaps"),
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"n": "x"}},
        )
    renamed = merged(release.usual, at(f"{MAPPING}.configMapName", "another-name"))
    await release.run("upgrade", str(CHART), values=renamed)
    role = await world.api.get(world.path("roles", "nicrails-broker", group="apis/rbac.authorization.k8s.io/v1"))
    assert role["rules"][0]["resourceNames"] == ["another-name"]
    # The old one keeps its last records until the release goes, or somebody deletes it.
    assert (await world.api.get(world.path("configmaps", "topograph-nic-rails")))["data"] == {"n": "x"}
    await release.run("uninstall")

    async def gone() -> bool:
        config_maps = await world.api.get(world.path("configmaps"))
        secrets = await world.api.get(world.path("secrets"))
        assert [item["metadata"]["name"] for item in [*config_maps["items"], *secrets["items"]]] in (
            [],
            ["kube-root-ca.crt"],
        )
        return True

    await eventually(gone, within=30, what="all ConfigMaps of the release and Helm's own record of it are gone")
    assert await release.exist(await release.objects(release.usual)) == set()


async def test_the_notes_say_how_to_verify(release: Release) -> None:
    """After an installation a person reads how to see health and records, and what was left insecure, without a placeholder."""
    said = await release.run("install", str(CHART), "--dry-run=client", values=merged(release.usual, ANNOTATIONS))
    notes = said.partition("NOTES:")[2]
    namespace = release.world.namespace
    for words in (
        f"kubectl -n {namespace} rollout status daemonset/nicrails-broker",
        f"kubectl -n {namespace} rollout status deployment/nicrails-observer",
        f"kubectl -n {namespace} port-forward POD 8080 & curl -s http://127.0.0.1:8080/healthz",
        f"kubectl -n {namespace} get configmap topograph-nic-rails -o json | jq",
        f"helm test nicrails --namespace {namespace}",
        "'^eth_r([0-9]+)_p[0-9]+$'",
        "topograph\\.run/lldp-chassis-id",
        "stat -c %g /run/lldpd/lldpd.socket",
        "admissionPolicies.enabled=true prevents that",
    ):
        assert words in notes
    secured = merged(release.usual, POLICIES, at("broker.lldpdGroup", 105))
    notes = (await release.run("install", str(CHART), "--dry-run=client", values=secured)).partition("NOTES:")[2]
    assert "run as root" not in notes
    assert "prevents that" not in notes
    off = (await release.run("install", str(CHART), "--dry-run=client")).partition("NOTES:")[2]
    assert "Nothing is installed" in off
    assert "enabled: true" in off
    for text in (notes, off):
        assert "<no value>" not in text
        assert "{{" not in text
