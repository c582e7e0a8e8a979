"""With the chart's permissions each of the faker's services does its whole job, and without any single one it does not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.chart.faker_stage import FakerStage
from tests.chart.helm import Helm, Json
from tests.chart.permissions import FAKERS, RESTART, TABLE, Permission
from tests.chart.stage import Program
from tests.cluster.controlplane import ControlPlane
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs("helm", "control-plane")


@pytest.mark.parametrize(("name", "restart"), [*((name, False) for name in FAKERS), ("mig", True)])
async def test_each_service_does_its_whole_job(
    control_plane: ControlPlane, helm: Helm, tmp_path: Path, name: str, restart: bool
) -> None:
    """With its account's token and the rendered arguments each service does everything."""
    async with FakerStage.on(control_plane, helm, tmp_path, restart=restart) as stage, stage.service(name) as program:
        await stage.job(name, program)


async def complains(program: Program, permission: Permission) -> None:
    """Wait until a service says what it misses: in its health, or in its log where it can do without."""
    if permission.resource != "events":
        await program.refused(permission.verb, permission.resource.partition("/")[0].rstrip("s"))
        return

    def said() -> bool:
        lines = [line for line in program.daemon.tail().splitlines() if "event-not-made" in line]
        return any("403" in line and "events" in line for line in lines)

    await eventually(said, within=30, what="the log says that an Event could not be made")


@pytest.mark.parametrize("permission", [item for item in TABLE if item.program in FAKERS], ids=str)
async def test_every_permission_of_the_faker_is_needed(
    control_plane: ControlPlane, helm: Helm, tmp_path: Path, permission: Permission
) -> None:
    """Without this permission the service never has its job done, and says what it misses."""
    taken = 0

    def take(item: Json) -> None:
        nonlocal taken
        roles = item["kind"] in {"Role", "ClusterRole"}
        if not roles or item["metadata"]["name"].partition(".")[0] != f"nicrails-faker-{permission.program}":
            return
        for rule in item["rules"]:
            if permission.granted_by(rule):
                rule["verbs"].remove(permission.verb)
                taken += 1
        item["rules"] = [rule for rule in item["rules"] if rule["verbs"]]

    restart = RESTART in permission.when
    async with FakerStage.on(control_plane, helm, tmp_path, restart=restart, change=take) as stage:
        assert taken == 1
        async with stage.service(permission.program) as program, asyncio.TaskGroup() as group:
            job = group.create_task(stage.job(permission.program, program))
            await complains(program, permission)
            assert not job.done(), "it does its job all the same"
            job.cancel()
