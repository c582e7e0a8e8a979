"""Request shapes of a publication, and what each answer leads to."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aioresponses import aioresponses
from yarl import URL

from nicrails.kube import METADATA, KubeClient, KubeconfigAccess
from nicrails_broker.events import Publication
from nicrails_broker.failures import Pace, PublishError, Retry
from nicrails_broker.publisher import ConfigMapStore, Target
from tests.broker.test_operator_pod import API, kubeconfig
from tests.support.aioresponses import mocked_api

PATH = f"{API}/api/v1/namespaces/ns/configmaps/records"
PATCH = f"{PATH}?fieldManager=nicrails-broker"
OWNER = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "observer", "uid": "d1", "controller": True}
TARGET = Target(namespace="ns", config_map="records", key="n1", observer="observer")
UID_CAUSE = {"reason": "FieldValueInvalid", "message": "field is immutable", "field": "metadata.uid"}


def metadata(version: str, *, uid: str = "u1", **fields: Any) -> dict[str, Any]:
    """A ConfigMap as metadata only."""
    return {
        "kind": "PartialObjectMetadata",
        "metadata": {"name": "records", "uid": uid, "resourceVersion": version, "ownerReferences": [OWNER], **fields},
    }


def status(code: int, *causes: dict[str, str], message: str = "no") -> dict[str, Any]:
    """A Status."""
    return {"kind": "Status", "code": code, "message": message, "details": {"causes": list(causes)} if causes else {}}


class Bench:
    """A store in front of scripted answers."""

    def __init__(self, api: aioresponses, client: KubeClient) -> None:
        self.api = api
        self.store = ConfigMapStore(client=client, target=TARGET)

    def get(self, version: str, **fields: Any) -> None:
        """The next look finds this."""
        self.api.get(PATH, payload=metadata(version, **fields))

    def patched(self, version: str) -> None:
        """The next patch succeeds and makes this version."""
        self.api.patch(PATCH, payload=metadata(version))

    def refused(self, code: int, payload: Any = None, **options: Any) -> None:
        """The next patch is refused."""
        self.api.patch(PATCH, status=code, payload=payload, **options)

    def patches(self) -> list[dict[str, Any]]:
        """What was patched so far."""
        return [call.kwargs for call in self.api.requests.get(("PATCH", URL(PATCH)), [])]


@pytest_asyncio.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """A store in front of scripted answers; an answer that was not scripted is a refused connection."""
    with mocked_api() as api:
        async with KubeClient(KubeconfigAccess(kubeconfig(tmp_path)), user_agent="test/1") as client:
            yield Bench(api, client)


async def test_a_publication_is_a_look_and_a_merge_patch_of_the_own_key(bench: Bench) -> None:
    """Only metadata is asked for; the patch names the UID, empties managedFields and touches one key."""
    bench.get("5")
    bench.patched("6")
    assert await bench.store.put(b'{"a":1}') is Publication.WRITTEN
    look = bench.api.requests["GET", URL(PATH)][0].kwargs
    assert look["headers"]["Accept"] == METADATA
    (patch,) = bench.patches()
    assert json.loads(patch["data"]) == {
        "metadata": {"uid": "u1", "managedFields": [{}]},
        "data": {"n1": '{"a":1}'},
    }
    assert patch["headers"]["Content-Type"] == "application/merge-patch+json"
    assert patch["headers"]["Accept"] == METADATA
    assert patch["headers"]["User-Agent"] == "test/1"


async def test_nothing_to_record_removes_the_own_key(bench: Bench) -> None:
    """A removal is the same patch with ``null``."""
    bench.get("5")
    bench.patched("6")
    assert await bench.store.put(None) is Publication.REMOVED
    assert json.loads(bench.patches()[0]["data"])["data"] == {"n1": None}


async def test_equal_bytes_are_not_sent_again(bench: Bench) -> None:
    """The second of two equal publications is one look and no patch."""
    bench.get("5")
    bench.patched("6")
    bench.get("6")
    bench.get("6")
    await bench.store.put(b"1")
    assert await bench.store.put(b"1") is Publication.UNCHANGED
    assert await bench.store.holds(b"1")
    assert len(bench.patches()) == 1


async def test_other_bytes_are_sent(bench: Bench) -> None:
    """A changed record is patched at once."""
    for version in ("6", "7"):
        bench.get("5")
        bench.patched(version)
    await bench.store.put(b"1")
    assert await bench.store.put(b"2") is Publication.WRITTEN


@pytest.mark.fault("B4")
async def test_after_a_write_of_others_the_record_is_sent_again_once(bench: Bench) -> None:
    """B4: a ConfigMap that somebody else has changed may have lost the key, so the equal record is patched once more."""
    bench.get("5")
    bench.patched("6")
    await bench.store.put(b"1")
    bench.get("7")
    assert not await bench.store.holds(b"1")
    bench.get("7")
    bench.patched("7")
    assert await bench.store.put(b"1") is Publication.REPEATED
    bench.get("7")
    assert await bench.store.holds(b"1")
    assert len(bench.patches()) == 2


async def test_a_new_object_of_the_name_gets_the_record_at_once(bench: Bench) -> None:
    """B4: a ConfigMap with another UID has lost everything, so the record is sent without waiting."""
    bench.get("5")
    bench.patched("6")
    await bench.store.put(b"1")
    bench.get("9", uid="u2")
    assert not await bench.store.holds(b"1")
    bench.get("9", uid="u2")
    bench.patched("10")
    assert await bench.store.put(b"1") is Publication.WRITTEN
    assert json.loads(bench.patches()[1]["data"])["metadata"]["uid"] == "u2"


async def test_after_a_patch_of_unknown_outcome_the_record_is_always_sent(bench: Bench) -> None:
    """F3: when it is not known which of two records the ConfigMap holds, an equal one is not taken for sent."""
    bench.get("5")
    bench.patched("6")
    await bench.store.put(b"1")
    bench.get("6")
    bench.refused(504, body="gateway")
    with pytest.raises(PublishError, match="whether it was done is not known, so it is sent again"):
        await bench.store.put(b"2")
    bench.get("7")
    bench.patched("8")
    assert await bench.store.put(b"1") is Publication.WRITTEN


async def refusal(bench: Bench, match: str) -> PublishError:
    """The error of the next publication."""
    with pytest.raises(PublishError, match=match) as caught:
        await bench.store.put(b"1")
    return caught.value


@pytest.mark.fault("B1")
async def test_an_absent_config_map_is_never_made(bench: Bench) -> None:
    """B1: a missing ConfigMap is the observer's business: the sentence names its Deployment, and nothing is written."""
    bench.api.get(PATH, status=404, payload=status(404))
    error = await refusal(bench, "ConfigMap ns/records does not exist; the observer makes it.*Deployment observer")
    assert error.retry is Retry.SOON
    assert {method for method, _ in bench.api.requests} == {"GET"}


async def test_an_absent_config_map_has_no_record_to_remove(bench: Bench) -> None:
    """A Node without rails is content with a ConfigMap that is not there."""
    for _ in range(2):
        bench.api.get(PATH, status=404, payload=status(404))
    assert await bench.store.put(None) is Publication.UNCHANGED
    assert await bench.store.holds(None)


@pytest.mark.parametrize(
    ("owners", "whose"),
    [
        ([], "controlled by nobody"),
        ([OWNER | {"name": "other"}], "controlled by Deployment other"),
        ([OWNER | {"kind": "ReplicaSet"}], "controlled by ReplicaSet observer"),
        ([OWNER | {"controller": False}], "controlled by nobody"),
    ],
)
async def test_a_foreign_config_map_is_left_alone(bench: Bench, owners: list[dict[str, Any]], whose: str) -> None:
    """An object of the name that the observer does not control is refused and never patched."""
    bench.get("5", ownerReferences=owners)
    error = await refusal(bench, f"{whose}.*, not by Deployment observer, so it is left alone")
    assert error.retry is Retry.SLOWLY
    assert bench.patches() == []


async def test_a_dying_config_map_is_not_patched(bench: Bench) -> None:
    """B4: a ConfigMap that is being deleted is waited for."""
    bench.get("5", deletionTimestamp="2026-01-01T00:00:00Z")
    await refusal(bench, "is being deleted")
    assert bench.patches() == []


@pytest.mark.parametrize(("code", "payload"), [(409, status(409)), (404, status(404)), (422, status(422, UID_CAUSE))])
async def test_an_object_that_was_replaced_meanwhile_is_looked_at_again(
    bench: Bench, code: int, payload: dict[str, Any]
) -> None:
    """A precondition that fails, in each way in which servers say so, is no permanent refusal."""
    bench.get("5")
    bench.refused(code, payload)
    assert (await refusal(bench, "was replaced at this moment")).retry is Retry.SOON


@pytest.mark.parametrize(
    ("cause", "advice"),
    [
        ({"reason": "FieldValueTooLong", "message": "Too long", "field": "[]"}, "pass 1 MiB"),
        (
            {"reason": "FieldValueForbidden", "message": "field is immutable when `immutable` is set", "field": "data"},
            "delete it",
        ),
        (
            {"reason": "FieldValueInvalid", "message": "a valid config key must", "field": "data[n 1]"},
            "somebody has to",
        ),
    ],
)
@pytest.mark.fault("B3")
async def test_a_permanent_refusal_is_told_exactly_and_tried_rarely(
    bench: Bench, cause: dict[str, str], advice: str
) -> None:
    """B3: a 422 with causes is told with the server's causes and what to do, and waits five minutes at least."""
    bench.get("5")
    bench.refused(422, status(422, cause))
    error = await refusal(bench, re.escape(cause["message"]) + ".*" + advice)
    assert error.retry is Retry.RARELY
    assert Pace().at_least(error) == 300


async def test_a_refusal_without_causes_is_tried_slowly(bench: Bench) -> None:
    """A 422 of an admission policy is not taken for permanent."""
    bench.get("5")
    bench.refused(422, status(422, message="denied by policy x"))
    assert (await refusal(bench, "denied by policy x")).retry is Retry.SLOWLY


@pytest.mark.fault("F2")
async def test_a_429_is_waited_out_and_its_outcome_is_known(bench: Bench) -> None:
    """F2: the wait is at least what the server asks for, and a 429 is not taken for an unknown outcome."""
    bench.get("5")
    bench.refused(429, body="slow down", headers={"Retry-After": "7"}, content_type="text/plain")
    error = await refusal(bench, "429 Too Many Requests: slow down$")
    assert (error.retry, error.retry_after, Pace().at_least(error)) == (Retry.SOON, 7, 7)


@pytest.mark.fault("F5")
async def test_a_403_says_what_to_grant_and_is_tried_slowly(bench: Bench) -> None:
    """F5: a missing permission is told with the verb and the resource."""
    bench.get("5")
    bench.refused(403, status(403, message="forbidden"))
    error = await refusal(bench, "403 Forbidden: forbidden; the broker's ServiceAccount needs patch on that ConfigMap")
    assert error.retry is Retry.SLOWLY


@pytest.mark.parametrize("code", [500, 502, 503, 504])
@pytest.mark.fault("F3")
async def test_html_and_text_of_gateways_are_cut_and_shown(bench: Bench, code: int) -> None:
    """F3: an error page is never parsed as JSON; its beginning is shown."""
    bench.get("5")
    bench.refused(code, body="<html>\n" + "x" * 5000, content_type="text/html")
    error = await refusal(bench, f"{code} .*<html> xxx")
    assert len(str(error)) < 700
