"""Building and saving the images."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest

from tests.images.docker import PROGRAMS, ROOT, Images, docker, run

pytestmark = [pytest.mark.needs("images"), pytest.mark.timeout(900)]


def test_the_first_steps_are_common() -> None:
    """All three Dockerfiles begin the build stage with the same steps, so that they are done once."""
    found = set()
    for program in PROGRAMS:
        text = (ROOT / f"Dockerfile.{program}").read_text()
        begin, end = text.index(" AS build\n"), text.index("RUN /opt/tools/bin/uv export")
        found.add(text[begin:end])
    assert len(found) == 1


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_dockerfile_needs_nothing_of_this_machine(program: str) -> None:
    """The base image is an ordinary public one, every other argument may be missing, and every index is the user's."""
    text = (ROOT / f"Dockerfile.{program}").read_text()
    assert text.splitlines()[1 + (program == "faker")] == "ARG BASE_IMAGE=debian:trixie-slim"
    assert not re.search(r"https?://", text)
    images = set(re.findall(r"^FROM (\S+)", text, re.MULTILINE))
    assert images <= {"${BASE_IMAGE}", "${LLDPCTL_IMAGE:-${BASE_IMAGE}}"}


def test_another_lldpctl_than_stated_is_refused(images: Images) -> None:
    """A broker whose lldpctl is not of the stated version is not built, and the error says what to set."""
    done = run(
        ["scripts/images", "build", "broker"],
        within=880,
        environment={"TAG": f"{images.tag}-refused", "LLDPD_VERSION": "1.0.4"},
    )
    assert done.status == 1
    assert re.search(r"this is lldpctl 1\.\S+: set LLDPD_VERSION=1\.\S+, or LLDPCTL_IMAGE to an image", done.err)
    assert "nicrails-broker could not be built" in done.err


def test_a_package_with_another_hash_is_refused(images: Images, tmp_path: Path) -> None:
    """What is not the file of the lock file is not installed."""
    for name in ("shared", "broker", "observer", "faker", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "requirements-build.txt", "LICENSE", ".dockerignore", "Dockerfile.observer"):
        shutil.copy(ROOT / name, tmp_path / name)
    lock = (ROOT / "uv.lock").read_text()
    begin = lock.index('[[package]]\nname = "aiosignal"\n')
    end = lock.index("[[package]]", begin + 1)
    tampered = re.sub(r"sha256:[0-9a-f]{64}", f"sha256:{'0' * 64}", lock[begin:end])
    (tmp_path / "uv.lock").write_text(lock[:begin] + tampered + lock[end:])
    done = run(
        [str(tmp_path / "scripts/images"), "build", "observer"],
        within=880,
        environment={"TAG": f"{images.tag}-refused"},
    )
    assert done.status == 1
    assert "DO NOT MATCH THE HASHES" in done.err


def test_what_is_said_of_an_image_is_true(images: Images) -> None:
    """``build`` says for each image its name, the start of its ID, its size, its base, and the version of lldpctl."""
    done = run(["scripts/images", "build"], within=880, environment={"TAG": images.tag})
    lines = done.out.splitlines()
    assert len(lines) == len(PROGRAMS)
    for program, line in zip(PROGRAMS, lines, strict=True):
        about = images.inspect(program)
        assert line.startswith(f"{images.name(program)} {about['Id'][7:19]}: {about['Size'] / 1e6:.0f} MB on ")
        assert ("lldpctl 1." in line) == (program == "broker")


def test_archives_are_written_once(images: Images, tmp_path: Path) -> None:
    """``save`` writes an archive for each image, under its tag, and leaves one alone that is of the same image."""
    command = ["scripts/images", "save", str(tmp_path / "out")]
    done = run(command, environment={"TAG": images.tag})
    assert done.status == 0, done.err
    assert done.out.count(" written: ") == len(PROGRAMS)
    for program in PROGRAMS:
        with tarfile.open(tmp_path / f"out/{program}.tar") as archive:
            manifest = archive.extractfile("manifest.json")
            assert manifest is not None
            assert json.load(manifest)[0]["RepoTags"] == [images.name(program)]
    (tmp_path / "out/observer.tar").write_text("not touched")
    (tmp_path / "out/faker.id").write_text("another")
    done = run(command, environment={"TAG": images.tag})
    assert done.out.count(" is up to date\n") == 2
    assert (tmp_path / "out/observer.tar").read_text() == "not touched"
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == sorted(
        f"{program}.{kind}" for program in PROGRAMS for kind in ("tar", "id")
    )


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["build", "nope"], 1, "there is no image of that name: nope; known: broker observer faker"),
        (["save"], 1, "save: name the folder"),
        (["save", "/tmp/nicrails-nothing"], 1, "there is no image nicrails-broker:nowhere: scripts/images build"),
        (["engine"], 1, "engine: name the command"),
        (["nope"], 2, "scripts/images build [NAME…]"),
        ([], 2, "scripts/images build [NAME…]"),
    ],
)
def test_faults_are_told(images: Images, arguments: list[str], status: int, said: str) -> None:
    """A wrong call is one sentence, or the usage, on standard error."""
    done = run(["scripts/images", *arguments], environment={"TAG": "nowhere"})
    assert (done.status, done.out) == (status, "")
    assert said in done.err


def test_a_base_image_is_found(images: Images) -> None:
    """``base-image find`` names an image of the asked release that is there, or says which ones would do."""
    found = run(["scripts/base-image", "find"])
    assert found.status == 0
    assert docker(
        "run", "--rm", "--network=none", found.out.strip(), "sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME"
    ) == ("trixie")
    missing = run(["scripts/base-image", "find", "potato"])
    assert (missing.status, missing.err) == (
        1,
        "neither debian:potato-slim nor nicrails-base:potato is on this machine\n",
    )
