"""Equal numbers are not enough: the device plugin says which devices it has handed over."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from nicrails_faker.mig import fingerprint
from nicrails_faker.topologies.config_maps import ADVERTISED_ANNOTATION
from tests.faker.migfaker.stage import ERROR, SEVEN, faking, make_node
from tests.faker.played import PlayedNode
from tests.faker.scene import Scene
from tests.support.waiting import eventually


@contextlib.asynccontextmanager
async def asked(scene: Scene, *, taken_within: float) -> AsyncIterator[PlayedNode]:
    """A Node whose allocatable is as its request wants it, and whose plugin has said something about former devices."""
    node = await make_node(scene)
    await say(scene, "of-former-devices")
    async with faking(scene, taken_within=taken_within):
        await node.advertise()
        await node.annotate(SEVEN)

        async def written() -> bool:
            return (await scene.topology("n")).gpus[0].mig_enabled

        await eventually(written, within=30, what="the slices are written")
        await node.advertise()
        yield node


async def say(scene: Scene, text: str) -> None:
    """Play what the device plugin says."""
    body = {"metadata": {"annotations": {ADVERTISED_ANNOTATION: text}}}
    await scene.world.api.merge_patch(scene.world.path("configmaps", "topology-n"), body)


async def test_right_numbers_alone_are_no_success(scene: Scene) -> None:
    """While the device plugin says that it has handed other devices over, a request is not met, however right the numbers are."""
    async with asked(scene, taken_within=3) as node:
        await node.until_state("failed")
        reason = (await node.annotations())[ERROR]
        assert "the device plugin has not taken these devices over yet" in reason


async def test_success_comes_with_the_devices(scene: Scene) -> None:
    """As soon as the device plugin says that it has handed these devices over, the request is met."""
    async with asked(scene, taken_within=60) as node:
        await node.until_state("pending")
        await say(scene, fingerprint(await scene.topology("n")))
        await node.until_state("success")
