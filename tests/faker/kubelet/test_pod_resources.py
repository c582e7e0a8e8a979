from __future__ import annotations

from pathlib import Path

import pytest

from nicrails_faker.kubelet import Held, KubeletError, PodResources
from tests.faker.kubelet.double import FakePodResources

ONE = Held(resource="nvidia.com/gpu", device="GPU-1", namespace="a", pod="p", container="c")
TWO = Held(resource="nvidia.com/gpu", device="GPU-2", namespace="a", pod="p", container="c")
SLICE = Held(resource="nvidia.com/mig-1g.5gb", device="MIG-1", namespace="b", pod="q", container="d")


async def test_each_device_is_told_with_its_container(tmp_path: Path) -> None:
    """Every device of every container of every pod is one entry, in an order of its own."""
    fake = FakePodResources(tmp_path / "kubelet.sock")
    fake.held = [SLICE, TWO, ONE]
    await fake.start()
    try:
        assert await PodResources(fake.socket).list() == [ONE, TWO, SLICE]
        fake.held = []
        assert await PodResources(fake.socket).list() == []
    finally:
        await fake.stop()


async def test_a_kubelet_that_was_started_anew_is_asked_at_once(tmp_path: Path) -> None:
    """After a failure the next question does not wait for a pause of the channel."""
    fake = FakePodResources(tmp_path / "kubelet.sock")
    asking = PodResources(fake.socket)
    with pytest.raises(KubeletError, match="can not list the devices that pods hold: no kubelet listens"):
        await asking.list()
    for _ in range(2):
        await fake.start()
        assert await asking.list() == []
        await fake.stop()
