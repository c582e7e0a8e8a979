"""An installation: records, probes, the hook of ``helm test``."""

from __future__ import annotations

from nicrails import decode
from tests.e2e.site import CONFIG_MAP, Site


async def test_both_records_are_the_golden_ones(bare: Site) -> None:
    """After `helm install` both Nodes' records stand, byte for byte, and all pods are Ready by their real probes."""
    bare.install()
    await bare.ready()
    await bare.stand()
    found = await bare.config_map()
    assert found is not None
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Deployment", "nicrails-observer", True)


async def test_helm_test_passes(site: Site) -> None:
    """`helm test` finds a record of this release and says so."""
    said = site.test()
    assert CONFIG_MAP in said
    assert "Succeeded" in said


async def test_records_can_be_read_by_a_consumer(site: Site) -> None:
    """The typed reader decodes what a real broker published."""
    for name, text in (await site.records()).items():
        record = decode(text.encode())
        node = await site.api.get(f"/api/v1/nodes/{name}")
        assert record.node_uid == node["metadata"]["uid"]
        assert record.gpus


async def test_pods_are_restricted(site: Site) -> None:
    """The running observer has no capability and no writable root file system; the broker only what lldpd's socket needs."""
    (observer,) = await site.pods("observer")
    broker = await site.broker("node1")
    for pod, capabilities in ((observer, 0), (broker, 1 << 1)):  # CAP_DAC_OVERRIDE is number 1
        status = dict(
            line.split(":", 1) for line in site.run_in(pod, "cat", "/proc/1/status").splitlines() if ":" in line
        )
        assert int(status["CapEff"], 16) == capabilities
        assert int(status["NoNewPrivs"]) == 1
        assert int(status["Seccomp"]) == 2
        mounts = site.run_in(pod, "cat", "/proc/1/mounts").splitlines()
        (root,) = [line.split() for line in mounts if line.split()[1] == "/"]
        assert "ro" in root[3].split(",")
