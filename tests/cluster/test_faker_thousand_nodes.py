"""A thousand Nodes without a kubelet on a real API server, with the services as processes; the benchmark's own scenario."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import fake_nodes

pytestmark = pytest.mark.needs("control-plane")

NODES = 1000


@pytest.mark.timeout(600)
async def test_a_thousand_nodes_change_their_profile_at_once(tmp_path: Path) -> None:
    """Of 1,000 Nodes that change at once all are right within 30 s: numbers, labels, state, nothing old, no lost update."""
    result = await fake_nodes.measure(tmp_path, NODES)
    assert len(result.changes) == len(fake_nodes.CHANGES)
    assert max(result.changes) <= fake_nodes.LIMIT_S, result
