"""Metrics of both programs after they have done all that they can, judged by Prometheus's own tool."""

from __future__ import annotations

import asyncio
import subprocess

import pytest

from nicrails_faker.machines.programs import Answer
from tests.chart.combinations import ANNOTATIONS
from tests.e2e.site import Site

pytestmark = pytest.mark.needs("promtool")


def complaints(text: str) -> tuple[int, str]:
    """Exit status and words of promtool about a metrics page."""
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False, timeout=30
    )
    return done.returncode, done.stdout + done.stderr


async def test_promtool_finds_nothing(site: Site) -> None:
    """`promtool check metrics` passes for broker and observer after successes, failures, a removal and annotations."""
    site.install(ANNOTATIONS)
    await site.settled()
    machine = site.machines["node1"]
    machine.answer(Answer.TOPO, None)
    try:
        await site.reason("node1", "discover-gpus")
    finally:
        machine.heal()
    await site.settled()
    (observer,) = await site.pods("observer")
    for pod in (await site.broker("node1"), observer):
        status, text = await site.endpoint(pod, "/metrics")
        assert status == 200
        assert "nicrails_" in text
        assert await asyncio.to_thread(complaints, text) == (0, "")
