"""The images run as the chart runs them: read-only, without capabilities, as their own user."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.images.docker import PROGRAMS, RESTRICTED, ROOT, Images, docker, run
from tests.images.test_contents import VERSION
from tests.support.waiting import eventually_sync

pytestmark = [pytest.mark.needs("images"), pytest.mark.timeout(900)]

SERVICES = {
    "broker": ("8080", "/livez", {"NODE_NAME": "n1", "POD_NAMESPACE": "nicrails"}),
    "observer": ("8080", "/livez", {"POD_NAMESPACE": "nicrails"}),
    "faker": ("8001", "/readyz", {}),
}
GRACE = 10.0
"""Seconds from SIGTERM to the end; Kubernetes gives 30."""


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_tells_its_version_and_its_commands(images: Images, program: str) -> None:
    """``--version`` and ``--help`` need nothing at all."""
    version = images.run(program, "--version")
    assert (version.status, version.out.strip()) == (0, f"nicrails-{program} {VERSION}")
    told = images.run(program, "--help")
    assert told.status == 0
    assert f"usage: nicrails-{program}" in told.out


@pytest.mark.parametrize("program", ["broker", "observer"])
def test_without_settings_it_says_so(images: Images, program: str) -> None:
    """The image alone starts the service, and without its settings file that is bad configuration: status 2, a sentence."""
    done = images.run(program)
    assert done.status == 2
    assert "/etc/nicrails/settings.yaml: " in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_serves_and_ends_when_it_is_told(images: Images, program: str) -> None:
    """Each service answers its probe, though nothing may be written anywhere, and ends with status 0 soon after SIGTERM."""
    port, path, environment = SERVICES[program]
    options = [*RESTRICTED, f"--volume={ROOT}/tests/images/compose:/etc/nicrails:ro"]
    options += [f"--env={name}={value}" for name, value in environment.items()]
    arguments = ["api", "--address=127.0.0.1", f"--port={port}"] if program == "faker" else []
    probe = f"from urllib.request import urlopen; print(urlopen('http://127.0.0.1:{port}{path}', timeout=5).status)"
    with images.container(program, *arguments, options=options) as name:

        def serves() -> bool:
            assert docker("inspect", "--format={{.State.Running}}", name) == "true", run(["docker", "logs", name]).err
            answer = run(["docker", "exec", name, "python3", "-c", probe])
            assert answer.out == "200\n", answer.err[-500:]
            return True

        eventually_sync(serves, within=30, what=f"the {program} answers {path}", interval=0.2)
        began = time.monotonic()
        docker("stop", "--time=25", name)
        assert time.monotonic() - began < GRACE
        assert docker("inspect", "--format={{.State.ExitCode}} {{.State.OOMKilled}}", name) == "0 false"


def test_lldpctl_is_of_the_stated_version(images: Images) -> None:
    """The label says which lldpctl the broker's image has: by default that of the Dockerfile, and it is no set-user-ID program."""
    label = images.inspect("broker")["Config"]["Labels"]["nicrails.lldpctl.version"]
    assert f"ARG LLDPD_VERSION={label}\n" in Path(ROOT / "Dockerfile.broker").read_text()
    assert images.shell("broker", "lldpctl -v") == label
    assert images.shell("broker", "find /usr/sbin/lldp* -perm /6000") == ""
    assert images.shell("broker", "ls /usr/sbin/lldp*").split() == ["/usr/sbin/lldpcli", "/usr/sbin/lldpctl"]
