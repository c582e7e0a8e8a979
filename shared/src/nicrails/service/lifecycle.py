"""The life of a service process: start, main loop, a bounded end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

import structlog

DRAIN = 4.0
"""Seconds that tasks get to end after a signal; shorter than any pod's grace period."""


class ServiceError(Exception):
    """The service can not go on; the message is one sentence for the operator."""


@contextlib.contextmanager
def stop_on_signals() -> Iterator[asyncio.Event]:
    """An event that SIGTERM or SIGINT sets; a second signal ends the process at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)

    def received(number: int) -> None:
        if stop.is_set():
            os._exit(128 + number)
        structlog.get_logger().info("stopping", signal=signal.Signals(number).name)
        stop.set()

    for number in signals:
        loop.add_signal_handler(number, received, number)
    try:
        yield stop
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


async def run_until(
    stop: asyncio.Event,
    tasks: Mapping[str, Callable[[], Coroutine[Any, Any, None]]],
    *,
    on_stop: Callable[[], None],
    drain: float = DRAIN,
) -> None:
    """Run named tasks until the event is set, then cancel them and wait a bounded time for their end.

    Args:
        stop: Set from outside, for example by :func:`stop_on_signals`.
        tasks: They run for ever; one that returns or raises ends all.
        on_stop: Called once, before the tasks are cancelled.
        drain: Seconds for the tasks to end.

    Raises:
        ServiceError: A task ended by itself.
    """
    running = [asyncio.create_task(start(), name=name) for name, start in tasks.items()]
    running.append(asyncio.create_task(_wait(stop), name="stop"))
    try:
        done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    finally:
        on_stop()
        for task in running:
            task.cancel()
        _, late = await asyncio.wait(running, timeout=drain)
        for task in late:
            structlog.get_logger().warning("task-abandoned", task=task.get_name())
    for task in done:
        error = task.exception()
        if isinstance(error, ServiceError):
            raise error
        if error is not None or not stop.is_set():
            raise ServiceError(f"task {task.get_name()} ended by itself: {error!r}") from error


async def _wait(stop: asyncio.Event) -> None:
    await stop.wait()
