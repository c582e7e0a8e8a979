"""What ``helm test`` runs, as the chart renders it, with a broker's token on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from yarl import URL

from tests.chart import paths
from tests.chart.combinations import ANNOTATIONS, MAPPING, POLICIES
from tests.chart.helm import Helm, Json, at, is_hook
from tests.chart.stage import ANNOTATION, Stage
from tests.cluster.controlplane import ControlPlane
from tests.cluster.kubelet import FakeKubelet
from tests.cluster.pki import Authority
from tests.cluster.world import reference
from tests.observer.documents import record
from tests.support.proxy import FaultProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs("helm", "control-plane")


class Verification:
    """The hook's program in the place of its pod, on the first Node of a stage."""

    def __init__(self, stage: Stage, folder: Path, node: Json) -> None:
        self.stage = stage
        self.folder = folder
        self.node = node["metadata"]["name"]
        self.uid = node["metadata"]["uid"]
        self.server = stage.plane.endpoint.url
        self.authority = stage.plane.authority.file

    async def run(self, time_limit: str = "0") -> tuple[int, str]:
        """Run it; its exit status and all that it writes."""
        (hook,) = [item for item in self.stage.objects if is_hook(item)]
        (container,) = hook["spec"]["containers"]
        python, option, script = container["command"]
        assert (python, option) == ("python3", "-c")
        host = URL(self.server)
        told = {"NODE_NAME": self.node, "POD_NAMESPACE": self.stage.world.namespace}
        environment = {
            **os.environ,
            **{entry["name"]: entry.get("value") or told[entry["name"]] for entry in container["env"]},
            "TIME_LIMIT": time_limit,
            "KUBERNETES_SERVICE_HOST": str(host.host),
            "KUBERNETES_SERVICE_PORT": str(host.port),
            "CREDENTIALS": str(self.folder),
        }
        (self.folder / "token").write_text(await self.stage.token(self.node))
        (self.folder / "ca.crt").write_bytes(self.authority.read_bytes())
        running = await asyncio.create_subprocess_exec(
            *(sys.executable, option, script),
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await asyncio.wait_for(running.communicate(), 40)
        assert running.returncode is not None
        return running.returncode, output.decode()

    async def good(self) -> str:
        """Run it until it is content: policies are in force a moment after they were made."""
        said = ""

        async def condition() -> bool:
            nonlocal said
            status, said = await self.run()
            assert status == 0, said
            return True

        await eventually(condition, within=30, what="the verification is content")
        return said

    async def failed(self, *words: str) -> None:
        """Run it; it must fail with these words, in one line."""
        status, said = await self.run()
        assert (status, said.count("\n")) == (1, 1), said
        assert said.startswith("FAILED: ")
        for word in words:
            assert word in said, said

    async def records(self, data: Json | None) -> None:
        """Make the records these, or change them."""
        world = self.stage.world
        if await self.stage.records() is None:
            made = await world.api.get(world.path("deployments", "nicrails-observer", group="apis/apps/v1"))
            metadata = {"name": "topograph-nic-rails", "ownerReferences": [reference("apps/v1", "Deployment", made)]}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
            await world.api.create(world.path("configmaps"), body)
        await world.api.merge_patch(self.stage.config_map, {"data": data})

    async def annotate(self, value: str | None) -> None:
        """Annotate the Node as its broker does."""
        await self.stage.world.api.merge_patch(
            f"/api/v1/nodes/{self.node}", {"metadata": {"annotations": {ANNOTATION: value}}}
        )


@contextlib.asynccontextmanager
async def looked_at(verification: Verification) -> AsyncIterator[FaultProxy]:
    """Let the program's requests go through a proxy, which sees them."""
    authority = Authority(verification.folder)
    pair = authority.issue("server", common_name="server", addresses=["127.0.0.1"])
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.certificate, pair.key)
    async with FaultProxy(verification.stage.plane.endpoint, tls=tls) as proxy:
        verification.server, verification.authority = proxy.url, authority.file
        yield proxy


@pytest_asyncio.fixture
async def verification(
    request: pytest.FixtureRequest, control_plane: ControlPlane, helm: Helm, kubelet: FakeKubelet, tmp_path: Path
) -> AsyncIterator[Verification]:
    """The hook of a release with everything on that it looks at."""
    folder = tmp_path / "service-account"
    folder.mkdir()
    change = getattr(request, "param", lambda item: None)
    async with Stage.on(control_plane, helm, kubelet, tmp_path, ANNOTATIONS, POLICIES, change=change) as stage:
        yield Verification(stage, folder, await stage.node("a"))


async def test_it_is_content_with_a_good_release(verification: Verification) -> None:
    """Records, annotation and all three policies are looked at, each found good in a line; nothing was changed."""
    await verification.records({verification.node: record(verification.uid)})
    await verification.annotate("mac:44:38:39:00:00:01")
    said = await verification.good()
    assert [line.partition(" ")[0] for line in said.splitlines()] == ["good:"] * 5
    for words in (
        f"1 records can be read, of Nodes that exist: {verification.node}",
        "a key of another Node is denied, the own key is not",
        f"{ANNOTATION} is mac:44:38:39:00:00:01",
        "a change of the Node beside the annotation is denied",
        "another command than the two is denied",
    ):
        assert words in said
    assert await verification.stage.records() == {verification.node: record(verification.uid)}
    assert verification.stage.kubelet.asked == []


async def test_it_says_what_is_wrong(verification: Verification) -> None:
    """Without the ConfigMap, without a record, with a bad or stale one, or without the annotation it fails and says so."""
    await verification.failed("ConfigMap topograph-nic-rails does not exist", "observer")
    await verification.records({})
    await verification.failed("has no record", "interfaceRegex", "/healthz")
    await verification.records({verification.node: "nonsense"})
    await verification.failed(f"the record of Node {verification.node} can not be read")
    await verification.records({verification.node: record("00000000-0000-0000-0000-000000000000")})
    await verification.failed(f"the record of Node {verification.node} is of a former Node")
    await verification.records({verification.node: record(verification.uid), "gone": record(verification.uid)})
    await verification.failed("record of Node gone, which does not exist")
    await verification.records({"gone": None})
    foreign = {"metadata": {"ownerReferences": None}}
    await verification.annotate("mac:44:38:39:00:00:01")
    await verification.good()
    await verification.annotate(None)
    await verification.failed(f"Node {verification.node} has no annotation {ANNOTATION}")
    await verification.stage.world.api.merge_patch(verification.stage.config_map, foreign)
    await verification.failed("controlled by nobody, not by Deployment nicrails-observer")


@pytest.mark.parametrize("policy", ["record", "exec", "node"])
async def test_a_policy_that_is_not_there_is_noticed(verification: Verification, policy: str) -> None:
    """A policy without its binding denies nothing, and the verification says which one."""
    await verification.records({verification.node: record(verification.uid)})
    await verification.annotate("mac:44:38:39:00:00:01")
    await verification.good()
    bindings = verification.stage.objects.all("ValidatingAdmissionPolicyBinding")
    (binding,) = [item for item in bindings if f"-{policy}." in item["metadata"]["name"]]
    await verification.stage.world.api.delete(paths.path(binding))

    async def noticed() -> bool:
        await verification.failed(f"ValidatingAdmissionPolicy {binding['metadata']['name']} does not deny")
        return True

    await eventually(noticed, within=20, what="the missing policy is noticed")


def of_another_account(item: Json) -> None:
    """A policy that names an account that nobody has."""
    if item["kind"] == "ValidatingAdmissionPolicy" and "-record." in item["metadata"]["name"]:
        (condition,) = item["spec"]["matchConditions"]
        condition["expression"] = condition["expression"].replace("nicrails-broker", "nicrails-borker")


@pytest.mark.parametrize("verification", [of_another_account], indirect=True)
async def test_a_policy_that_names_a_wrong_account_is_noticed(verification: Verification) -> None:
    """A policy for an account that is not the brokers' enforces nothing silently; the verification is not silent."""
    await verification.records({verification.node: record(verification.uid)})
    await verification.failed("does not deny a broker's token changing a key of another Node: it was allowed")


@pytest_asyncio.fixture
async def plain(
    control_plane: ControlPlane, helm: Helm, kubelet: FakeKubelet, tmp_path: Path
) -> AsyncIterator[Verification]:
    """The hook of a release of records alone."""
    folder = tmp_path / "service-account"
    folder.mkdir()
    async with Stage.on(control_plane, helm, kubelet, tmp_path, at(f"{MAPPING}.gpuSource.gpuNode", "never")) as stage:
        yield Verification(stage, folder, await stage.node("a"))


async def test_what_is_off_is_not_looked_at(plain: Verification) -> None:
    """Without policies, annotations and a GPU source the records alone are looked at."""
    await plain.records({plain.node: record(plain.uid)})
    assert (await plain.good()).count("good: ") == 1


async def test_it_waits_for_what_comes_in_time(plain: Verification) -> None:
    """Right after an installation there is no record yet: within its time limit the verification waits for it."""
    await plain.records({})
    async with looked_at(plain) as proxy, asyncio.TaskGroup() as group:
        running = group.create_task(plain.run("30"))
        await eventually(lambda: len(proxy.requests("GET", "configmaps")) > 1, within=30, what="it looks a second time")
        await plain.records({plain.node: record(plain.uid)})
    assert running.result()[0] == 0, running.result()[1]
