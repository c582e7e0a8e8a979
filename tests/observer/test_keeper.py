from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator

import pytest
from aioresponses import aioresponses
from prometheus_client import CollectorRegistry

from nicrails.kube import METADATA, KubeClient
from nicrails.service import Health
from nicrails_observer.duties import CONFIG_MAP as DUTY
from nicrails_observer.duties import DUTIES, Report
from nicrails_observer.keeper import Keeper
from nicrails_observer.metrics import Metrics
from nicrails_observer.ownership import Action
from nicrails_observer.settings import Identity
from tests.observer.answers import (
    CONFIG_MAP,
    CONFIG_MAPS,
    DEPLOYMENT,
    MISSING,
    config_map,
    deployment,
    prepared,
    status,
)
from tests.support.aioresponses import sent
from tests.support.waiting import eventually

CREATE = f"{CONFIG_MAPS}?fieldManager=nicrails-observer"


class _Kept(Keeper):
    """A keeper with a health report of its own, and a count of the changes that it told."""

    def __init__(self, client: KubeClient, *, interval: float = 60.0) -> None:
        self.health = Health([DUTY])
        self.registry = CollectorRegistry()
        self.changes = 0
        metrics = Metrics(self.registry, duties=DUTIES)
        super().__init__(
            client,
            Identity(namespace="ns", deployment="nicrails-observer"),
            "topograph-nic-rails",
            report=Report(self.health[DUTY], metrics),
            metrics=metrics,
            changed=self._count,
            interval=interval,
            rng=random.Random(1),
        )

    def _count(self) -> None:
        self.changes += 1

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run it within the block."""
        task = asyncio.create_task(self.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @property
    def failing(self) -> str:
        failure = self.health[DUTY].failure
        return f"{failure.step}: {failure.reason}" if failure else ""


def _urls(api: aioresponses) -> list[tuple[str, str]]:
    return [(method, str(url)) for (method, url), calls in api.requests.items() for _ in calls]


async def test_creates_the_configmap_as_its_deployments() -> None:
    """The ConfigMap is made by POST, with labels and a controller reference to the Deployment as it is at that moment."""
    async with prepared() as (client, api):
        api.get(CONFIG_MAP, **MISSING)
        api.get(DEPLOYMENT, payload=deployment("d-7"))
        api.post(CREATE, status=201, payload=config_map(owner="d-7"))
        keeper = _Kept(client)
        assert (await keeper.ensure()).action is Action.KEEP
        (call,) = sent(api, "POST", CREATE)
        (look,) = sent(api, "GET", CONFIG_MAP)
    assert look["headers"]["Accept"] == call["headers"]["Accept"] == METADATA
    assert json.loads(call["data"]) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "topograph-nic-rails",
            "namespace": "ns",
            "labels": {
                "app.kubernetes.io/managed-by": "nicrails-observer",
                "app.kubernetes.io/part-of": "nicrails",
            },
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "name": "nicrails-observer",
                    "uid": "d-7",
                    "controller": True,
                }
            ],
        },
    }
    assert keeper.owned is not None
    assert (keeper.owned.owner_uid, keeper.owned.uid) == ("d-7", "cm-1")
    assert keeper.changes == 1
    assert keeper.registry.get_sample_value("nicrails_observer_configmap_creations_total") == 1


@pytest.mark.fault("O3")
async def test_another_observer_was_faster() -> None:
    """O3: after 409 AlreadyExists the object is read and judged like any other."""
    async with prepared() as (client, api):
        api.get(CONFIG_MAP, **MISSING)
        api.get(DEPLOYMENT, payload=deployment(), repeat=True)
        api.post(CREATE, **status(409, "AlreadyExists"))
        api.get(CONFIG_MAP, payload=config_map())
        keeper = _Kept(client)
        assert (await keeper.ensure()).action is Action.KEEP
        assert len(sent(api, "POST", CREATE)) == 1
        api.get(CONFIG_MAP, **MISSING)
        api.post(CREATE, **status(409, "AlreadyExists"))
        api.get(CONFIG_MAP, payload={"metadata": {"name": "topograph-nic-rails", "uid": "foreign"}})
        assert (await keeper.ensure()).action is Action.REFUSE
    assert keeper.owned is None


async def test_gives_up_for_a_while_when_others_are_faster_each_time() -> None:
    """A ConfigMap that comes and goes is not chased in a loop."""
    async with prepared() as (client, api):
        api.get(CONFIG_MAP, **MISSING, repeat=True)
        api.get(DEPLOYMENT, payload=deployment(), repeat=True)
        api.post(CREATE, **status(409, "AlreadyExists"), repeat=True)
        assert (await _Kept(client).ensure()).action is Action.WAIT
        assert len(sent(api, "POST", CREATE)) == 3


@pytest.mark.parametrize(
    ("found", "owner", "action"),
    [
        ({"payload": config_map(owner="d-0")}, {"payload": deployment("d-1")}, Action.WAIT),
        ({"payload": config_map(owner="d-0")}, MISSING, Action.WAIT),
        (MISSING, MISSING, Action.WAIT),
        (MISSING, {"payload": deployment(deletionTimestamp="2026-01-01T00:00:00Z")}, Action.WAIT),
        ({"payload": {"metadata": {"name": "topograph-nic-rails", "uid": "x"}}}, MISSING, Action.REFUSE),
    ],
)
@pytest.mark.fault("O2")
@pytest.mark.fault("O5")
async def test_only_reads_what_is_not_to_be_touched(
    found: dict[str, object], owner: dict[str, object], action: Action
) -> None:
    """O2, O5: a dying or foreign object, a dying or missing Deployment: nothing is created, patched or deleted."""
    async with prepared() as (client, api):
        api.get(CONFIG_MAP, **found)
        api.get(DEPLOYMENT, **owner)
        keeper = _Kept(client)
        assert (await keeper.ensure()).action is action
        assert {method for method, _ in _urls(api)} == {"GET"}
    assert keeper.owned is None


async def test_tells_a_change_but_not_the_absence_of_one() -> None:
    """Whoever looks at the records is told when the ConfigMap has another version, and only then."""
    async with prepared() as (client, api):
        api.get(DEPLOYMENT, payload=deployment(), repeat=True)
        keeper = _Kept(client)
        for version, changes in (("1", 1), ("1", 1), ("2", 2), ("2", 2)):
            api.get(CONFIG_MAP, payload=config_map(version=version))
            await keeper.ensure()
            assert keeper.changes == changes


async def test_an_unreachable_server_changes_nothing() -> None:
    """While nothing can be known the ConfigMap counts as what it was last; the duty fails until it can be seen again."""
    async with prepared() as (client, api):
        api.get(DEPLOYMENT, payload=deployment(), repeat=True)
        api.get(CONFIG_MAP, payload=config_map())
        keeper = _Kept(client, interval=0.05)
        api.get(CONFIG_MAP, status=503, body="<html>")
        api.get(CONFIG_MAP, payload=config_map(), repeat=True)
        async with keeper.running():
            await eventually(lambda: "503" in keeper.failing, within=5, what="the duty fails")
            assert keeper.failing.startswith("ensure-configmap: ")
            assert keeper.owned is not None
            await eventually(lambda: not keeper.failing, within=5, what="the duty is done again")


@pytest.mark.fault("O6")
async def test_a_terminating_namespace_is_left_in_peace() -> None:
    """O6: where the namespace is being deleted there is one try, and its refusal is not counted as a failure."""
    causes = [{"reason": "NamespaceTerminating", "message": "is being terminated", "field": "metadata.namespace"}]
    async with prepared() as (client, api):
        api.get(CONFIG_MAP, **MISSING, repeat=True)
        api.get(DEPLOYMENT, payload=deployment(), repeat=True)
        api.post(CREATE, **status(403, "Forbidden", details={"causes": causes}), repeat=True)
        keeper = _Kept(client, interval=0.05)
        async with keeper.running():
            await eventually(lambda: "is being deleted" in keeper.failing, within=5, what="the duty says so")
            await asyncio.sleep(0.3)
            assert len(sent(api, "POST", CREATE)) == 1
    assert keeper.registry.get_sample_value("nicrails_observer_failures_total", {"duty": DUTY}) == 0


async def test_a_word_from_elsewhere_shortens_the_interval() -> None:
    """Somebody who finds the ConfigMap changed makes the keeper look at once."""
    async with prepared() as (client, api):
        api.get(DEPLOYMENT, payload=deployment(), repeat=True)
        api.get(CONFIG_MAP, payload=config_map(), repeat=True)
        keeper = _Kept(client, interval=600)
        async with keeper.running():
            await eventually(lambda: keeper.owned is not None, within=5, what="the first look")
            looks = len(sent(api, "GET", CONFIG_MAP))
            keeper.look_again()
            await eventually(lambda: len(sent(api, "GET", CONFIG_MAP)) == looks + 1, within=5, what="the second look")
