"""Two versions side by side."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from nicrails import decode
from tests.cluster.api import Json
from tests.e2e.images import ROOT, TAG
from tests.e2e.site import NAMESPACE, Site
from tests.support.waiting import eventually

NEXT = f"{TAG}-next"

# The next version writes something into its records that this one does not know, as a later minor release may.
DOCKERFILE = f"""
FROM nicrails-broker:{TAG}
USER 0:0
RUN python3 -c "import nicrails.codec as c, pathlib, shutil; p = pathlib.Path(c.__file__); t = p.read_text(); \\
n = t.replace('\\"schemaVersion\\":', '\\"addedLater\\": [1], \\"schemaVersion\\":'); assert n != t; \\
shutil.rmtree(p.parent / '__pycache__'); p.write_text(n)"
USER 65532:65532
"""


@pytest.fixture(scope="module")
def following(standing: Site, tmp_path_factory: pytest.TempPathFactory) -> None:
    """An image of a broker of the next version, known to both Nodes."""
    archive = tmp_path_factory.mktemp("next") / "broker.tar"
    command = (
        f'docker build --quiet --tag nicrails-broker:{NEXT} - <"$1" && docker save --output "$2" nicrails-broker:{NEXT}'
    )
    dockerfile = archive.with_name("Dockerfile")
    dockerfile.write_text(DOCKERFILE)
    done = subprocess.run(
        ["scripts/images", "engine", "sh", "-ec", command, "sh", str(dockerfile), str(archive)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    standing.cluster.import_image(Path(archive))


async def test_no_record_is_lost_in_a_rollout(site: Site, following: None) -> None:
    """While brokers are exchanged one by one, at every moment both records stand, can be read, and say the same."""
    states: list[dict[str, str]] = []
    ended = asyncio.Event()

    async def watch() -> None:
        while not ended.is_set():
            states.append(await site.records())
            await asyncio.sleep(0.05)

    watching = asyncio.create_task(watch())
    expected = {name: decode(text) for name, text in (await site.golden()).items()}
    site.install({"broker": {"image": {"tag": NEXT}}})

    async def exchanged() -> bool:
        pods: list[Json] = await site.pods("broker")
        assert {pod["spec"]["containers"][0]["image"] for pod in pods} == {f"nicrails-broker:{NEXT}"}
        await site.ready(within=5)
        assert all("addedLater" in text for text in (await site.records()).values())
        return True

    await eventually(exchanged, within=120, what="all brokers are of the next version", interval=0.2)
    mixed = [state for state in states if len({"addedLater" in text for text in state.values()}) == 2]
    assert mixed, "the two versions never stood side by side"
    # And back again, by a rollback.
    site.install()
    await site.settled()
    ended.set()
    await watching
    for state in states:
        assert {name: decode(text) for name, text in state.items()} == expected
    (observer,) = await site.pods("observer")
    status, body = await site.endpoint(observer, "/healthz")
    assert status == 200, json.loads(body)
    assert observer["metadata"]["namespace"] == NAMESPACE
