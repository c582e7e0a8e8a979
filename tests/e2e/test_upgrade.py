"""`helm upgrade` with other values, `helm rollback`, `helm uninstall`."""

from __future__ import annotations

import re

import pytest

from nicrails import decode
from tests.chart.combinations import ANNOTATIONS, MAPPING, POLICIES
from tests.chart.helm import Json, at, merged
from tests.e2e.site import CONFIG_MAP, NAMESPACE, OPERATOR, Site
from tests.support.waiting import eventually

ANNOTATION = "topograph.run/lldp-chassis-id"


async def rails_are(site: Site, pattern: str, name: str = CONFIG_MAP) -> None:
    """Wait until all rails of both records have names of this form."""

    async def condition() -> bool:
        found = await site.records(name)
        assert found.keys() == {"node1", "node2"}
        for text in found.values():
            record = decode(text)
            names = {str(rail) for rails in record.nics.values() for rail in rails}
            assert all(re.fullmatch(pattern, one) for one in names), names
        return True

    await eventually(condition, within=90, what=f"all rails are called {pattern}", interval=0.2)


async def test_another_rail_name(site: Site) -> None:
    """Another `railID` gives every record other rail names; `helm rollback` brings the golden records back."""
    before = site.revision()
    site.install(at(f"{MAPPING}.railSource.hostLLDP.railID", "fabric-$1"))
    await rails_are(site, r"fabric-[0-9]+")
    site.rollback(before)
    await site.settled()


async def test_another_config_map(site: Site) -> None:
    """Records appear under the new name; the ConfigMap of the old one stays as it was, for readers that still have it."""
    before = await site.records()
    site.install(at(f"{MAPPING}.configMapName", "other-rails"))
    await site.ready()
    await site.stand(name="other-rails")
    old = await site.config_map()
    assert old is not None
    assert old["data"] == before
    # Whose it is did not change, so it goes with the release.
    new = await site.config_map("other-rails")
    assert new is not None
    assert old["metadata"]["ownerReferences"] == new["metadata"]["ownerReferences"]
    await site.api.delete(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIG_MAP}")


@pytest.mark.fault("B9")
async def test_no_interface_matches(site: Site) -> None:
    """An `interfaceRegex` that matches nothing takes the keys away and leaves the brokers healthy."""
    site.install(at(f"{MAPPING}.railSource.hostLLDP.interfaceRegex", "^no-such-interface$"))

    async def empty() -> bool:
        assert await site.records() == {}
        return True

    await eventually(empty, within=90, what="no record is left", interval=0.2)
    await site.ready()
    assert await site.config_map() is not None


async def test_provider_annotations(site: Site) -> None:
    """With the provider `lldp` every Node has the chassis of its neighbour as annotation, and the records stay."""
    site.install(ANNOTATIONS, at("nodeMetadata.provider.lldp.interfaceRegex", "^eth_r0_p0$"))

    async def annotated() -> bool:
        for name, node in site.cluster.nodes.items():
            found = await site.api.get(f"/api/v1/nodes/{name}")
            (neighbour,) = {
                chassis["id"][0]["value"]
                for interface in node.lab.host.show()["lldp"][0]["interface"]
                for chassis in interface["chassis"]
            }
            assert found["metadata"]["annotations"].get(ANNOTATION) == f"mac:{neighbour}"
        return True

    await eventually(annotated, within=90, what="both Nodes are annotated", interval=0.2)
    await site.settled()


async def test_nothing_is_left(bare: Site) -> None:
    """After `helm uninstall` no object of any kind is there that was not there before the installation."""
    before = await everything(bare)
    bare.install(ANNOTATIONS, POLICIES, {"stormControl": {"enabled": True}, "networkPolicy": {"enabled": True}})
    await bare.settled()
    bare.test()
    assert await everything(bare) - before
    bare.uninstall()

    async def gone() -> bool:
        left = await everything(bare) - before
        assert not left, left
        return True

    await eventually(gone, within=60, what="all objects of the release are gone", interval=0.5)


# What the cluster itself writes down of what happened, and replaces by itself.
_JOURNAL = {"events", "leases", "componentstatuses", "endpointslices", "controllerrevisions"}


async def everything(site: Site) -> set[str]:
    """Every object of every kind that can be listed, as path; pods of the GPU Operator by their DaemonSet."""
    groups = (await site.api.get("/apis"))["groups"]
    found: set[str] = set()
    for root in ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]:
        for kind in (await site.api.get(root))["resources"]:
            plural = kind["name"]
            if "list" not in kind["verbs"] or "/" in plural or plural in _JOURNAL:
                continue
            for item in (await site.api.get(f"{root}/{plural}"))["items"]:
                metadata: Json = item["metadata"]
                if plural == "pods" and metadata["namespace"] == OPERATOR:
                    continue
                found.add(f"{root}/{metadata.get('namespace', '')}/{plural}/{metadata['name']}")
    return found


async def test_features_come_and_go(site: Site) -> None:
    """Turning records off takes brokers, observer and ConfigMap away; turning them on again brings the same records."""
    site.install(at(f"{MAPPING}.enabled", value=False))

    async def gone() -> bool:
        assert await site.config_map() is None
        assert [*await site.pods("broker"), *await site.pods("observer")] == []
        return True

    await eventually(gone, within=90, what="nothing of the feature is left", interval=0.2)
    site.install(merged())
    await site.settled()
