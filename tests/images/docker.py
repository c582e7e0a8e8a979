"""The project's images in a Docker engine, as tests use them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
PROGRAMS = ("broker", "observer", "faker")
RESTRICTED = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--network=none")
"""As the chart's pods, and without a network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A command that has ended.

    Attributes:
        status: Its exit status.
        out: Standard output.
        err: Standard error.
    """

    status: int
    out: str
    err: str


def run(
    argv: Sequence[str], *, within: float = 60, cwd: Path = ROOT, environment: Mapping[str, str] | None = None
) -> Done:
    """Run a command to its end, whatever that is.

    Args:
        argv: The command.
        within: Seconds.
        cwd: Where.
        environment: What is added to the environment.
    """
    done = subprocess.run(
        argv,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=within,
    )
    return Done(
        status=done.returncode, out=done.stdout.decode(errors="replace"), err=done.stderr.decode(errors="replace")
    )


def docker(*argv: str, within: float = 60) -> str:
    """The output of a Docker command.

    Raises:
        AssertionError: It failed.
    """
    done = run(["docker", *argv], within=within)
    assert done.status == 0, f"docker {' '.join(argv)[:500]}: status {done.status}: {done.err[-2000:]}"
    return done.out.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """The three images under one tag.

    Attributes:
        tag: The tag.
    """

    tag: str

    def name(self, program: str) -> str:
        """An image's name with its tag."""
        return f"nicrails-{program}:{self.tag}"

    def run(self, program: str, *argv: str, options: Sequence[str] = RESTRICTED) -> Done:
        """Run the image with these arguments."""
        return run(["docker", "run", "--rm", *options, self.name(program), *argv])

    def shell(self, program: str, script: str) -> str:
        """The output of a shell script, run as root in the image.

        Raises:
            AssertionError: It failed.
        """
        options = ["--rm", "--network=none", "--user=0:0", "--entrypoint=/bin/sh"]
        return docker("run", *options, self.name(program), "-euc", script)

    def python(self, program: str, script: str) -> str:
        """The output of a Python script, run by the image's interpreter as root."""
        options = ["--rm", "--network=none", "--user=0:0", "--entrypoint=python3"]
        return docker("run", *options, self.name(program), "-c", script)

    def inspect(self, program: str) -> Any:
        """What Docker says about the image."""
        return json.loads(docker("image", "inspect", self.name(program)))[0]

    @contextlib.contextmanager
    def container(self, program: str, *argv: str, options: Sequence[str] = RESTRICTED) -> Iterator[str]:
        """A container that runs, and is removed afterwards; its name."""
        name = f"nicrails-{program}-{uuid.uuid4().hex[:8]}"
        try:
            docker("run", "--detach", f"--name={name}", *options, self.name(program), *argv)
            yield name
        finally:
            run(["docker", "rm", "--force", name])


def build(tag: str, *programs: str, environment: Mapping[str, str] | None = None) -> Images:
    """Build images as a person does.

    Raises:
        AssertionError: They could not be built.
    """
    done = run(["scripts/images", "build", *programs], within=880, environment={"TAG": tag, **(environment or {})})
    assert done.status == 0, done.err
    return Images(tag=tag)


def remove(images: Images) -> None:
    """Take the tags away; the layers stay for the next build."""
    names = [images.name(program) for program in PROGRAMS]
    run(["docker", "rmi", "--force", "--no-prune", *names])
