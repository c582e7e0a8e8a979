from __future__ import annotations

import asyncio
import os
import signal

import aiohttp
import orjson
import pytest
from prometheus_client import CollectorRegistry, Gauge

from nicrails.service import (
    Health,
    LoopMonitor,
    ServiceError,
    application,
    registry,
    run_until,
    serving,
    stop_on_signals,
)
from tests.support.waiting import eventually


async def _for_ever() -> None:
    await asyncio.Event().wait()


async def test_a_signal_ends_the_service() -> None:
    """F10: SIGTERM cancels the tasks and marks the service as stopping first."""
    order: list[str] = []

    async def worker() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            order.append("worker ended")

    with stop_on_signals() as stop:
        await run_until(stop, {"worker": worker}, on_stop=lambda: order.append("stopping"))
    assert order == ["stopping", "worker ended"]


async def test_the_end_is_bounded() -> None:
    """A task that will not end does not keep the service from ending."""
    stop = asyncio.Event()
    release = asyncio.Event()

    async def stubborn() -> None:
        stop.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    await run_until(stop, {"stubborn": stubborn}, on_stop=lambda: None, drain=0.05)
    release.set()
    await asyncio.sleep(0)


async def test_a_task_that_fails_ends_the_service() -> None:
    """A task that ends by itself is an error that names it, and the others are cancelled."""
    cancelled = asyncio.Event()

    async def other() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def broken() -> None:
        raise KeyError("x")

    with pytest.raises(ServiceError, match="task broken ended by itself: KeyError"):
        await run_until(asyncio.Event(), {"broken": broken, "other": other}, on_stop=lambda: None)
    assert cancelled.is_set()


async def test_endpoints() -> None:
    """/livez depends on nothing, /healthz and /readyz on the duties, /metrics is Prometheus text."""
    health = Health(["record"])
    metrics = CollectorRegistry()
    Gauge("nicrails_example_bytes", "An example.", registry=metrics).set(7)
    async with (
        serving(application(health, metrics), address="127.0.0.1", port=0) as (address, port),
        aiohttp.ClientSession(f"http://{address}:{port}") as session,
    ):

        async def get(path: str) -> tuple[int, bytes]:
            async with session.get(path) as response:
                return response.status, await response.read()

        assert await get("/livez") == (200, b"ok\n")
        assert (await get("/healthz"))[0] == 503
        status, body = await get("/readyz")
        assert status == 503
        assert orjson.loads(body)["reason"] == "nothing has been done yet"
        health["record"].succeeded()
        assert (await get("/healthz"))[0] == 200
        assert b"nicrails_example_bytes 7.0" in (await get("/metrics"))[1]
        assert (await get("/other"))[0] == 404


async def test_port_in_use() -> None:
    """F13: a port that is taken is one sentence that says which setting to change."""
    app = application(Health([]), CollectorRegistry())
    async with serving(app, address="127.0.0.1", port=0) as (address, port):
        with pytest.raises(ServiceError, match=rf"can not listen on 127\.0\.0\.1 port {port}: .*server\.port"):
            async with serving(application(Health([]), CollectorRegistry()), address=address, port=port):
                pass


async def test_loop_monitor() -> None:
    """F11: a stall of the event loop shows in the metrics."""
    metrics = registry("nicrails")
    monitor = LoopMonitor(metrics)
    task = asyncio.create_task(monitor.run())
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    end = loop.time() + 0.7
    while loop.time() < end:
        pass
    await eventually(lambda: monitor.worst > 0, within=5, what="the monitor's next look")
    task.cancel()
    assert monitor.worst >= 0.15
    assert metrics.get_sample_value("nicrails_event_loop_lag_max_seconds") == monitor.worst
    assert metrics.get_sample_value("nicrails_build_info", {"component": "nicrails", "version": "0.1.0"}) == 1
