"""From nothing to nothing: sets the stage, plays, and leaves neither a process nor a file behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from nicrails_faker.api import EmbeddedCluster
from nicrails_faker.demo.endpoints import Endpoints
from nicrails_faker.demo.processes import Programs
from nicrails_faker.demo.scenery import NAMESPACE
from nicrails_faker.demo.screen import Screen
from nicrails_faker.demo.stage import CONFIG_MAP, Commands, Stage
from nicrails_faker.demo.story import Story
from nicrails_faker.machines import Machine, names, shipped

INTERRUPTED = 130
SIGNALS_OF_PATIENCE = 1
"""Signals that end everything in order; one more ends it at once."""


def run(
    *,
    keep: bool = False,
    screen: Screen | None = None,
    commands: Commands | None = None,
    machines: Sequence[Machine] | None = None,
) -> int:
    """Play the demonstration.

    Args:
        keep: Leave everything running afterwards, until SIGINT or SIGTERM.
        screen: Where it is told; standard output by default.
        commands: The programs of the services.
        machines: By default all that are shipped; those that the acts are about must be among them.

    Returns:
        0 if every promise held, 1 if not, 130 if it was interrupted before its end.
    """
    return asyncio.run(
        _run(
            screen or Screen(),
            commands or Commands(),
            [shipped(name) for name in names()] if machines is None else machines,
            keep=keep,
        )
    )


async def _run(screen: Screen, commands: Commands, machines: Sequence[Machine], *, keep: bool) -> int:
    folder = Path(tempfile.mkdtemp(prefix="nicrails-demo-"))
    try:
        async with EmbeddedCluster() as cluster, aiohttp.ClientSession(trust_env=False) as session:
            stage = Stage(cluster, folder, commands)
            story = Story(stage, screen, Endpoints(session))
            with _stop_on_signals(stage.programs, folder) as stop:
                try:
                    return await _played(story, stage, screen, machines, stop, keep=keep)
                finally:
                    await stage.programs.stop(*stage.programs.running)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _played(
    story: Story, stage: Stage, screen: Screen, machines: Sequence[Machine], stop: asyncio.Event, *, keep: bool
) -> int:
    if not await _unless(stop, story.play(machines)):
        return _interrupted(screen)
    if keep:
        screen.summary()
        _invite(stage, screen)
        await stop.wait()
        stop.clear()
    if not await _unless(stop, story.end()):
        return _interrupted(screen)
    return screen.summary(timed=not keep)


async def _unless(stop: asyncio.Event, act: Coroutine[Any, Any, None]) -> bool:
    """Whether an act came to its end before the event was set; it is cancelled if not."""
    playing = asyncio.create_task(act, name="act")
    waiting = asyncio.create_task(stop.wait(), name="interrupted")
    try:
        await asyncio.wait({playing, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not playing.done():
            return False
        await playing
        return True
    finally:
        for task in (playing, waiting):
            task.cancel()
        await asyncio.gather(playing, waiting, return_exceptions=True)


def _interrupted(screen: Screen) -> int:
    screen.lines("", "Interrupted; stopping all processes.")
    return INTERRUPTED


@contextlib.contextmanager
def _stop_on_signals(programs: Programs, folder: Path) -> Iterator[asyncio.Event]:
    """An event that a signal sets; a second signal ends everything at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    received = 0

    def receive() -> None:
        nonlocal received
        received += 1
        if received > SIGNALS_OF_PATIENCE:
            programs.kill()
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(INTERRUPTED)
        stop.set()

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in signals:
        loop.add_signal_handler(number, receive)
    try:
        yield stop
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def _invite(stage: Stage, screen: Screen) -> None:
    """Tell what runs and what can be tried."""
    screen.title("Everything keeps running; Ctrl-C ends it")
    for program in stage.programs.running:
        address = program.address() or "it has ended"
        screen.lines(f"  {program.name:28}  {address}/healthz  /metrics  pid {program.pid}")
    first = next(iter(actor for actor in stage.actors.values() if actor.machine.machine.gpus), None)
    screen.lines(
        "",
        f"  kubeconfig   {stage.kubeconfig}",
        f"  API          {stage.cluster.url}",
        f"  folder       {stage.folder} (machines, settings, logs)",
        "",
        "  Try, in another terminal:",
        "",
        "  # all records, by curl or by kubectl",
        f"  curl -s {stage.cluster.url}/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIG_MAP}",
        f"  kubectl --kubeconfig {stage.kubeconfig} get nodes",
    )
    if first is not None:
        topo = first.machine.answers / "topo.txt"
        screen.lines(
            f"  # damage what nvidia-smi of {first.name} prints, see why its broker complains, and heal it",
            f"  topo={topo}",
            "  mv $topo $topo.away",
            f"  curl -s {first.broker.address()}/healthz",
            "  mv $topo.away $topo",
            "  # delete a Node and see its record go",
            f"  curl -s -X DELETE {stage.cluster.url}/api/v1/nodes/{first.name}",
        )
