"""The Compose file: right when everything is, and never otherwise."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from nicrails_faker.machines import names, shipped
from tests.images.docker import ROOT, Done, Images, docker, run

pytestmark = [pytest.mark.needs("compose"), pytest.mark.timeout(900)]

FILE = ROOT / "docker-compose.test.yml"
SETTINGS = ROOT / "tests/images/compose/settings.yaml"
BROKEN = "broker-cpu-rails"


def compose_test(images: Images, *files: Path, project: str | None = None) -> Done:
    """Run ``scripts/compose-test run`` on the images of the work tree with further files."""
    arguments = [word for file in files for word in ("-f", str(file))]
    environment = {"TAG": images.tag, **({"PROJECT": project} if project else {})}
    return run(["scripts/compose-test", "run", *arguments], within=300, environment=environment)


def override(folder: Path, services: Mapping[str, object]) -> Path:
    """A further Compose file."""
    file = folder / "override.yml"
    file.write_text(yaml.safe_dump({"services": {"checker": {"command": checker(within=12)}, **services}}))
    return file


def checker(within: int) -> list[str]:
    """The checker's arguments with less patience."""
    command = yaml.safe_load(FILE.read_text())["services"]["checker"]["command"]
    return [*(word for word in command if not word.startswith("--within")), f"--within={within}"]


def settings(folder: Path, old: str, new: str) -> dict[str, object]:
    """Other settings for one broker."""
    place = folder / "settings"
    shutil.copytree(SETTINGS.parent, place)
    text = SETTINGS.read_text()
    assert old in text
    (place / "settings.yaml").write_text(text.replace(old, new))
    place.chmod(0o755)
    return {BROKEN: {"volumes": [f"{place}:/etc/nicrails:ro"]}}


def left(project: str) -> list[str]:
    """The containers, volumes and networks of a Compose project."""
    kinds = ["ps --all --quiet", "volume ls --quiet", "network ls --quiet"]
    label = f"label=com.docker.compose.project={project}"
    return [found for kind in kinds for found in docker(*kind.split(), "--filter", label).splitlines()]


def test_a_right_system_passes(images: Images) -> None:
    """Every machine's record, the health and the metrics are right, every service ends by itself, and nothing stays behind."""
    project = f"right-{images.tag}"
    done = compose_test(images, project=project)
    assert done.status == 0, done.out[-3000:] + done.err[-3000:]
    records = [name for name in names() if shipped(name).record is not None]
    for name in records:
        assert f"[ok] the record of {name} is the golden one" in done.out
        assert f"[ok] the metrics of the broker of {name} tell this" in done.out
    assert "[ok] the observer is healthy" in done.out
    assert "every service ended by itself" in done.out
    assert left(project) == []


def test_it_fails_without_lldp(images: Images, tmp_path: Path) -> None:
    """A broker that cannot ask its lldpd: the test fails, says which, and what is missing."""
    done = compose_test(images, override(tmp_path, settings(tmp_path, "/host/bin/lldpctl", "/bin/false")))
    assert done.status == 1
    assert "[FAILED] the record of cpu-rails is the golden one: there is none" in done.out
    assert "[FAILED] the broker of cpu-rails is healthy" in done.out
    assert "[FAILED] the broker of gb200-4gpu" not in done.out
    assert "the checker ended with status 1" in done.err


def test_it_fails_with_a_wrong_record(images: Images, tmp_path: Path) -> None:
    """A broker that names its rails otherwise: the test fails at the first sight of the record."""
    done = compose_test(images, override(tmp_path, settings(tmp_path, "rail$1", "plane$1")))
    assert done.status == 1
    assert "[FAILED] the record of cpu-rails is another than the golden one" in done.out
    assert '"plane0"' in done.out


def test_it_fails_without_an_observer(images: Images, tmp_path: Path) -> None:
    """Without an observer there is no ConfigMap, and the test fails."""
    done = compose_test(images, override(tmp_path, {"observer": {"command": ["--version"]}}))
    assert done.status == 1
    assert "there is no ConfigMap" in done.out


def test_it_fails_when_a_service_does_not_end_well(images: Images, tmp_path: Path) -> None:
    """All was right, but a service ended with another status than 0: the test fails and names it."""
    script = 'nicrails-broker run --config /etc/nicrails/settings.yaml & trap "kill $$!; wait; exit 7" TERM; wait'
    broken = {BROKEN: {"entrypoint": ["/bin/sh", "-c", script]}}
    done = compose_test(images, override(tmp_path, broken))
    assert done.status == 1
    assert "[ok] the broker of cpu-rails is healthy" in done.out
    assert f"{BROKEN}" in done.err
    assert "ended with status 7" in done.err


def test_the_file_builds_the_images_itself(images: Images) -> None:
    """``build`` by Compose makes the same programs from the three Dockerfiles under the given tag."""
    tag = f"{images.tag}-composed"
    done = run(["scripts/compose-test", "build"], within=880, environment={"TAG": tag})
    assert done.status == 0, done.err
    composed = Images(tag=tag)
    for program in ("broker", "observer", "faker"):
        assert composed.run(program, "--version").status == 0
        docker("rmi", "--no-prune", composed.name(program))


def test_no_service_is_forgotten() -> None:
    """There is one broker for each shipped machine with a record; the cluster has all of them and the checker asks for all."""
    document = yaml.safe_load(FILE.read_text())
    machines = {name for name in names() if shipped(name).record is not None}
    services = document["services"]
    assert {name.removeprefix("broker-") for name in services if name.startswith("broker-")} == machines
    assert {
        word.removeprefix("--machine=") for word in services["cluster"]["command"] if "--machine=" in word
    } == machines
    assert {word.split("=")[1] for word in services["checker"]["command"] if "--broker=" in word} == machines
    assert set(document["volumes"]) == machines
