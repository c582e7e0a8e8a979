"""A played device plugin and kubelet: what a Node's topology says becomes what the Node advertises."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

from nicrails_faker.mig import DocumentError, advertised_resources
from tests.cluster.world import Json
from tests.faker.scene import Scene
from tests.support.waiting import eventually

MIG_NODE = {"node-role.kubernetes.io/runai-dynamic-mig": "true"}
CONFIG = "run.ai/mig.config"
STATE = "nvidia.com/mig.config.state"


def mig_config(devices: str, *, gpus: str = "[0]") -> str:
    """A request in mig-parted's form: ``mig_config('{"1g.5gb": 7}')``."""
    entry = f"{{devices: {gpus}, mig-enabled: true, mig-devices: {devices}}}"
    return f"version: v1\nmig-configs:\n  selected:\n  - {entry}\n"


class PlayedNode:
    """A Node whose topology a test looks at, and whose kubelet it plays.

    Attributes:
        name: Its name.
    """

    def __init__(self, scene: Scene, name: str, *, strict: bool = False) -> None:
        self.name = name
        self._scene = scene
        self._strict = strict
        self._path = f"/api/v1/nodes/{name}"

    async def object(self) -> Json:
        """The Node."""
        return await self._scene.world.api.get(self._path)

    async def annotate(self, config: str | None) -> None:
        """Ask for this; None removes the annotation."""
        await self._scene.world.api.merge_patch(self._path, {"metadata": {"annotations": {CONFIG: config}}})

    async def label(self, labels: Mapping[str, str | None]) -> None:
        """Set or remove labels."""
        await self._scene.world.api.merge_patch(self._path, {"metadata": {"labels": dict(labels)}})

    async def labels(self) -> dict[str, str]:
        """Its labels."""
        return dict((await self.object())["metadata"].get("labels", {}))

    async def annotations(self) -> dict[str, str]:
        """Its annotations."""
        return dict((await self.object())["metadata"].get("annotations", {}))

    async def allocatable(self) -> dict[str, str]:
        """What it advertises; a resource at 0 is none."""
        found = (await self.object()).get("status", {}).get("allocatable", {})
        return {key: value for key, value in found.items() if value != "0"}

    async def until_state(self, state: str | None, *, within: float = 30) -> None:
        """Wait until the state label says this; None is no label."""

        async def says() -> bool:
            found = (await self.labels()).get(STATE)
            assert found == state, (found, (await self.annotations()).get("nicrails.io/mig-config-error"))
            return True

        await eventually(says, within=within, what=f"{self.name} is {state}")

    async def until_label(self, key: str, value: str | None, *, within: float = 30) -> None:
        """Wait until a label says this; None is no label."""

        async def says() -> bool:
            found = (await self.labels()).get(key)
            assert found == value, found
            return True

        await eventually(says, within=within, what=f"{key} of {self.name} is {value}")

    async def advertise(self) -> bool:
        """Advertise what the topology says, as a kubelet does: resources never go, they become 0."""
        if await self._scene.object(self.name) is None:
            return False
        try:
            topology = await self._scene.topology(self.name)
        except DocumentError:
            return False  # the last good one stays
        wanted = {key: str(len(ids)) for key, ids in advertised_resources(topology, strict=self._strict).items()}
        status = (await self.object()).get("status", {})
        known = status.get("allocatable", {})
        changes = {key: wanted.get(key, "0") for key in wanted.keys() | known.keys()}
        if changes != known:
            await self._scene.world.api.merge_patch(
                f"{self._path}/status", {"status": {"capacity": changes, "allocatable": changes}}
            )
        return True

    @contextlib.asynccontextmanager
    async def kubelet(self) -> AsyncIterator[None]:
        """Advertise what the topology says for as long as the block runs."""

        async def run() -> None:
            while True:
                await self.advertise()
                await asyncio.sleep(0.02)

        task = asyncio.create_task(run(), name=f"played-kubelet-{self.name}")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.result()
