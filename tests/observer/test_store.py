from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from aioresponses import aioresponses
from prometheus_client import CollectorRegistry

from nicrails.kube import (
    JSON_PATCH,
    METADATA,
    ForbiddenError,
    InvalidError,
    KubeClient,
    TooManyRequestsError,
    UnreachableError,
)
from nicrails_observer.metrics import Metrics
from nicrails_observer.store import NotOursError, RecordStore
from nicrails_observer.verdicts import Removal, Verdict, patch
from tests.observer.answers import CONFIG_MAP, MISSING, REFUSED, config_map, prepared, status
from tests.support.aioresponses import sent

PATCH = f"{CONFIG_MAP}?fieldManager=nicrails-observer"
PATH = "/api/v1/namespaces/ns/configmaps/topograph-nic-rails"


class _Stored(RecordStore):
    """A store with metrics of its own."""

    def __init__(self, client: KubeClient, *, ours: bool = True, batch_size: int = 500) -> None:
        self.registry = CollectorRegistry()
        super().__init__(client, PATH, is_ours=lambda _: ours, batch_size=batch_size, metrics=Metrics(self.registry))

    def counted(self, name: str, **labels: str) -> float:
        value = self.registry.get_sample_value(f"nicrails_observer_{name}", labels)
        assert value is not None
        return value

    async def removed(self, *removals: Removal) -> tuple[list[str], list[str]]:
        """Names of what went and of what had changed."""
        gone: list[str] = []
        changed: list[str] = []
        async for went, stayed in self.remove("cm-1", removals):
            gone += [removal.node for removal in went]
            changed += [removal.node for removal in stayed]
        return gone, changed


def _gone(node: str, document: str | None = None) -> Removal:
    return Removal(node=node, document=document or f"old-{node}", verdict=Verdict.NODE_GONE)


def _old(*nodes: str) -> dict[str, str]:
    return {node: f"old-{node}" for node in nodes}


def _patched(api: aioresponses) -> Sequence[list[str]]:
    """The names in each patch that was sent."""
    bodies = [json.loads(call["data"]) for call in sent(api, "PATCH", PATCH)]
    return [[operation["path"][6:] for operation in body if operation["op"] == "remove"] for body in bodies]


async def test_reads_records_and_their_size() -> None:
    """All records come from one read of the whole ConfigMap; the size counts values in bytes, binary ones too."""
    async with prepared() as (client, api):
        document = config_map({"a": "x", "b": "é"}) | {"binaryData": {"c": "AAAA"}}
        api.get(CONFIG_MAP, payload=document)
        snapshot = await _Stored(client).read()
        (call,) = sent(api, "GET", CONFIG_MAP)
    assert call["headers"]["Accept"] == "application/json"
    assert (snapshot.uid, snapshot.records) == ("cm-1", {"a": "x", "b": "é"})
    assert snapshot.size() == 1 + 2 + 3


@pytest.mark.parametrize("data", [{}, {"data": None}])
async def test_a_configmap_without_data_has_no_records(data: dict[str, None]) -> None:
    """``data`` may be absent or null."""
    async with prepared() as (client, api):
        api.get(CONFIG_MAP, payload=config_map() | data)
        assert (await _Stored(client).read()).records == {}


async def test_a_configmap_that_is_not_ours_is_not_read_further() -> None:
    """A foreign or missing ConfigMap has no records for us."""
    async with prepared() as (client, api):
        api.get(CONFIG_MAP, payload=config_map({}))
        with pytest.raises(NotOursError, match="not this observer's"):
            await _Stored(client, ours=False).read()
        api.get(CONFIG_MAP, **MISSING)
        with pytest.raises(NotOursError, match="gone"):
            await _Stored(client).read()


async def test_a_404_that_is_not_the_api_servers_means_nothing() -> None:
    """A proxy's 404 page is no word on the ConfigMap."""
    async with prepared() as (client, api):
        api.get(CONFIG_MAP, status=404, body="<html>not found</html>")
        with pytest.raises(UnreachableError, match="404 that is not the API server's"):
            await _Stored(client).read()


async def test_removes_by_one_patch_of_tests_and_removals() -> None:
    """Method, content type, field manager, body and the small answer that is asked for are as the API wants them."""
    async with prepared() as (client, api):
        api.patch(PATCH, payload=config_map())
        store = _Stored(client)
        assert await store.removed(_gone("a"), _gone("b")) == (["a", "b"], [])
        (call,) = sent(api, "PATCH", PATCH)
    assert call["headers"]["Content-Type"] == JSON_PATCH
    assert call["headers"]["Accept"] == METADATA
    assert json.loads(call["data"]) == patch("cm-1", [_gone("a"), _gone("b")])
    assert store.counted("removals_total", reason="node-gone") == 2
    assert store.counted("patches_total", outcome="done") == 1


async def test_what_was_published_meanwhile_stays_and_the_rest_goes() -> None:
    """O8: a refused test means that somebody has published: that record is left, the others are tried again."""
    async with prepared() as (client, api):
        api.patch(PATCH, **REFUSED)
        api.get(CONFIG_MAP, payload=config_map(_old("a", "c") | {"b": "new"}))
        api.patch(PATCH, payload=config_map())
        store = _Stored(client)
        assert await store.removed(_gone("a"), _gone("b"), _gone("c")) == (["a", "c"], ["b"])
        assert _patched(api) == [["a", "b", "c"], ["a", "c"]]
    assert store.counted("refused_removals_total") == 1
    assert store.counted("patches_total", outcome="refused") == 1
    assert store.counted("removals_total", reason="node-gone") == 2


@pytest.mark.fault("O14")
async def test_a_refusal_that_is_not_explained_is_narrowed_down() -> None:
    """O14: where nothing has changed and the patch is refused all the same, halves are tried until the bad one is alone."""
    async with prepared() as (client, api):
        api.get(CONFIG_MAP, payload=config_map(_old("a", "b", "c", "d")), repeat=True)
        for answer in (REFUSED, {"payload": config_map()}, REFUSED, {"payload": config_map()}, REFUSED):
            api.patch(PATCH, **answer)
        store = _Stored(client)
        with pytest.raises(InvalidError):
            await store.removed(_gone("a"), _gone("b"), _gone("c"), _gone("d"))
        assert _patched(api) == [["a", "b", "c", "d"], ["c", "d"], ["a", "b"], ["b"], ["a"]]
    assert store.counted("removals_total", reason="node-gone") == 3


async def test_a_permanent_objection_is_not_repeated() -> None:
    """A 422 with causes is told at once; it is a ConfigMap that was made immutable, for example."""
    causes = {"causes": [{"reason": "FieldValueForbidden", "message": "is immutable", "field": "data"}]}
    async with prepared() as (client, api):
        api.patch(PATCH, **status(422, "Invalid", details=causes))
        store = _Stored(client)
        with pytest.raises(InvalidError) as caught:
            await store.removed(_gone("a"), _gone("b"))
        assert len(_patched(api)) == 1
    assert caught.value.causes == ("data: is immutable (FieldValueForbidden)",)
    assert store.counted("patches_total", outcome="failed") == 1


@pytest.mark.parametrize("answer", [MISSING, REFUSED, status(409, "Conflict")])
async def test_another_configmap_of_the_same_name_is_left_alone(answer: dict[str, object]) -> None:
    """When the ConfigMap was deleted or replaced, nothing more is removed from whatever has its name now."""
    async with prepared() as (client, api):
        api.patch(PATCH, **answer)
        api.get(CONFIG_MAP, payload=config_map(_old("a", "b"), uid="cm-2"))
        with pytest.raises(NotOursError, match="replaced"):
            await _Stored(client).removed(_gone("a"), _gone("b"))
        assert len(_patched(api)) == 1


@pytest.mark.fault("F3")
async def test_an_unknown_outcome_is_settled_by_reading() -> None:
    """F3: after a 504 the ConfigMap is read: what is gone was removed and counted, and the error is told for a retry."""
    async with prepared() as (client, api):
        api.patch(PATCH, status=504, body="upstream timed out")
        api.get(CONFIG_MAP, payload=config_map(_old("b")))
        store = _Stored(client)
        with pytest.raises(Exception, match="504"):
            await store.removed(_gone("a"), _gone("b"))
    assert store.counted("patches_total", outcome="unknown") == 1
    assert store.counted("removals_total", reason="node-gone") == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"status": 429, "body": "busy", "headers": {"Retry-After": "1"}}, TooManyRequestsError),
        (status(403, "Forbidden"), ForbiddenError),
    ],
)
async def test_what_was_not_executed_is_told_without_another_look(
    answer: dict[str, object], error: type[Exception]
) -> None:
    """A 429 or 403 has changed nothing for certain, so there is nothing to look up."""
    async with prepared() as (client, api):
        api.patch(PATCH, **answer)
        store = _Stored(client)
        with pytest.raises(error):
            await store.removed(_gone("a"))
        assert sent(api, "GET", CONFIG_MAP) == []
    assert store.counted("patches_total", outcome="failed") == 1


@pytest.mark.fault("O16")
async def test_many_removals_are_few_patches() -> None:
    """O16: patches are filled to the batch size."""
    async with prepared() as (client, api):
        api.patch(PATCH, payload=config_map(), repeat=True)
        gone, _ = await _Stored(client, batch_size=250).removed(*(_gone(f"n{number}") for number in range(1000)))
        assert [len(names) for names in _patched(api)] == [250] * 4
    assert len(gone) == 1000
