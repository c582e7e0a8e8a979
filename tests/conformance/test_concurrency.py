"""Many at once, and all or nothing."""

from __future__ import annotations

import asyncio

import pytest

from tests.conformance.speaking import JSON_PATCH, PARTIAL, Answer, Api

RETRIED = {429, 500, 504}
"""Answers after which a publisher tries again: the real server gives up on a contended write after a while."""


async def publish(kube: Api, path: str, key: str, value: str) -> Answer:
    """A merge patch of one key, repeated while the server is too busy."""
    while True:
        answer = await kube.merge(path, {"data": {key: value}}, accept=PARTIAL)
        if answer.status not in RETRIED:
            return answer
        await asyncio.sleep(0.2)


@pytest.mark.timeout(150)  # the real server tries contended writes for half a minute before it gives up
async def test_two_hundred_publishers_at_once_all_stand(kube: Api) -> None:
    """200 concurrent merge patches of one ConfigMap: every record stands, to the byte."""
    await kube.config_map("a")
    path = kube.path("configmaps", "a")
    records = {f"node-{number:03}": f'{{"n":{number}}}' * 20 for number in range(200)}
    async with asyncio.TaskGroup() as group:
        sent = [group.create_task(publish(kube, path, key, value)) for key, value in records.items()]
    assert {task.result().status for task in sent} == {200}
    assert (await kube.get(path)).json["data"] == records


async def test_one_stale_test_rejects_a_whole_batch(kube: Api) -> None:
    """300 tests and removals in one JSON patch apply together; with one stale test among them none applies."""
    data = {f"node-{number:03}": f"record-{number}" for number in range(300)}
    await kube.config_map("a", data={**data, "stays": "x"})
    path = kube.path("configmaps", "a")
    batch = [
        operation
        for key, value in data.items()
        for operation in (
            {"op": "test", "path": f"/data/{key}", "value": value},
            {"op": "remove", "path": f"/data/{key}"},
        )
    ]
    await kube.merge(path, {"data": {"node-299": "a newer record"}})
    before = (await kube.get(path)).json
    refused = await kube.ask("PATCH", path, batch, content_type=JSON_PATCH)
    assert (refused.code_and_reason, refused.json["details"]) == ((422, "Invalid"), {})
    assert (await kube.get(path)).json == before
    applied = await kube.ask("PATCH", path, batch[:-2], content_type=JSON_PATCH)
    assert applied.json["data"] == {"node-299": "a newer record", "stays": "x"}


async def test_a_record_is_removed_only_as_it_was_seen(kube: Api) -> None:
    """Of a removal that tests the old value and a publication, sent together, the publication always stands."""
    path = kube.path("configmaps", "a")
    await kube.config_map("a", data={"node": "old"})
    for _ in range(20):
        assert (await kube.merge(path, {"data": {"node": "old"}})).status == 200
        removal = kube.json_patch(
            path, {"op": "test", "path": "/data/node", "value": "old"}, {"op": "remove", "path": "/data/node"}
        )
        removed, published = await asyncio.gather(removal, publish(kube, path, "node", "new"))
        assert published.status == 200
        assert removed.status in {200, 422}
        assert (await kube.get(path)).json["data"] == {"node": "new"}


async def test_an_object_is_created_once_by_many(kube: Api) -> None:
    """Of 50 POSTs of one name one is a 201, the others are 409s."""
    document = {"metadata": {"name": "a"}}
    answers = await asyncio.gather(*(kube.ask("POST", kube.path("configmaps"), document) for _ in range(50)))
    assert sorted(answer.status for answer in answers) == [201] + [409] * 49


async def test_of_many_replacements_of_one_version_one_wins(kube: Api) -> None:
    """Of 50 PUTs of the same version one applies, the others are conflicts."""
    made = await kube.config_map("a", data={"x": "0"})
    path = kube.path("configmaps", "a")
    answers = await asyncio.gather(
        *(kube.ask("PUT", path, {**made, "data": {"x": str(number)}}) for number in range(1, 51))
    )
    assert sorted(answer.status for answer in answers) == [200] + [409] * 49
    (winner,) = (answer for answer in answers if answer.status == 200)
    assert (await kube.get(path)).json == winner.json
