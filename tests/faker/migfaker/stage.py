"""What scenarios of the MIG faker start from: a Node with two whole GPUs, the service, and the Events about the Node."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from nicrails_faker.mig import NodeTopology
from nicrails_faker.migfaker import app
from nicrails_faker.migfaker.teller import Options
from tests.faker.played import MIG_NODE, PlayedNode, mig_config
from tests.faker.scene import Scene, Service
from tests.support.waiting import eventually

SEVEN, THREE = mig_config('{"1g.5gb": 7}'), mig_config('{"2g.10gb": 3}')
ERROR = "nicrails.io/mig-config-error"


@contextlib.asynccontextmanager
async def faking(scene: Scene, name: str = "n", **options: Any) -> AsyncIterator[Service]:
    """Run the service; ``plugin_selector`` and the rest are options of it."""
    selector = options.pop("plugin_selector", None)
    async with scene.service(
        app.DUTIES,
        lambda it: app.build(
            it,
            node=name,
            namespace=scene.world.namespace,
            name="topology",
            options=Options(**options),
            plugin_selector=selector,
        ),
    ) as service:
        yield service


async def make_node(scene: Scene, *, labels: dict[str, str] | None = None, strategy: str = "mixed") -> PlayedNode:
    """A Node with a topology of two whole GPUs."""
    await scene.world.node("n", labels=MIG_NODE if labels is None else labels)
    topology = NodeTopology.create(
        "n", gpu_product="NVIDIA-A100-SXM4-40GB", gpu_count=2, gpu_memory=40960, mig_strategy=strategy
    )
    await scene.store.create("n", topology, annotations={})
    return PlayedNode(scene, "n")


async def events(scene: Scene) -> list[tuple[str, str]]:
    """Reason and message of the Events about the Node, in order."""
    found = await scene.world.api.get("/api/v1/namespaces/default/events")
    items = sorted(found["items"], key=lambda item: int(item["metadata"]["resourceVersion"]))
    return [(item["reason"], item["message"]) for item in items if item["involvedObject"]["name"] == "n"]


async def until_event(scene: Scene, reason: str, count: int = 1) -> list[str]:
    """The messages of the Events of this reason, once there are so many; an Event comes after what it tells."""

    async def there() -> list[str]:
        messages = [message for name, message in await events(scene) if name == reason]
        assert len(messages) >= count, messages
        return messages

    return await eventually(there, within=30, what=f"{count} Events {reason}")
