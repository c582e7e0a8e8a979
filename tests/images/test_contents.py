"""What is in the images, and what is not."""

from __future__ import annotations

import json
import re
import tomllib

import pytest

from tests.images.docker import PROGRAMS, ROOT, Images, docker

pytestmark = [pytest.mark.needs("images"), pytest.mark.timeout(900), pytest.mark.parametrize("program", PROGRAMS)]

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
TOOLS = (
    "pip",
    "pip3",
    "uv",
    "hatchling",
    "gcc",
    "cc",
    "g++",
    "c++",
    "clang",
    "as",
    "ld",
    "make",
    "curl",
    "wget",
    "git",
)
OURS = {"broker": {"nicrails", "nicrails-broker"}, "observer": {"nicrails", "nicrails-observer"}}
OURS["faker"] = {"nicrails", "nicrails-faker"}


def test_it_runs_as_nobody_in_particular(images: Images, program: str) -> None:
    """The image names a user that is neither root nor anybody of Debian's, by number, so that Kubernetes can check it."""
    assert images.inspect(program)["Config"]["User"] == "65532:65532"
    assert "65532" not in images.shell(program, "cat /etc/passwd /etc/group")


def test_it_says_what_it_is(images: Images, program: str) -> None:
    """Labels give title, text, version, licence and base; the stop signal, the command and the port are stated."""
    config = images.inspect(program)["Config"]
    labels = {name.removeprefix("org.opencontainers.image."): value for name, value in config["Labels"].items()}
    assert labels["title"] == f"nicrails-{program}"
    assert labels["description"].endswith(".")
    assert labels["version"] == VERSION
    assert labels["licenses"] == "Apache-2.0"
    assert re.fullmatch(r"\S+:trixie\S*", labels["base.name"])
    assert config["StopSignal"] == "SIGTERM"
    assert config["Entrypoint"] == [f"nicrails-{program}"]
    assert config["Cmd"] == (["--help"] if program == "faker" else ["run", "--config", "/etc/nicrails/settings.yaml"])
    assert list(config.get("ExposedPorts") or {}) == ([] if program == "faker" else ["8080/tcp"])


def test_it_has_no_tools_of_the_build(images: Images, program: str) -> None:
    """Neither a package installer of Python nor a compiler nor a downloader is in the image."""
    assert images.shell(program, f"for tool in {' '.join(TOOLS)}; do command -v $tool || true; done") == ""
    script = (
        "import importlib.util as u; print(*(n for n in ('pip', 'ensurepip', 'setuptools', 'uv') if u.find_spec(n)))"
    )
    # Debian's ensurepip is a stub that says so; its wheels would be here.
    assert images.python(program, script) in {"", "ensurepip"}
    assert images.shell(program, "find / -xdev '(' -name '*.whl' -o -name 'pip*' ')' -not -path '/proc/*'") == ""


def test_its_packages_are_those_of_the_lock_file(images: Images, program: str) -> None:
    """Every installed distribution is ours or has the version of ``uv.lock``."""
    script = "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in m.distributions()}))"
    found = {
        name.lower().replace("_", "-"): version for name, version in json.loads(images.python(program, script)).items()
    }
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    locked = {package["name"]: package["version"] for package in lock["package"]}
    assert {name: version for name, version in found.items() if locked.get(name) != version} == {}
    assert {name for name in found if name.startswith("nicrails")} == OURS[program]
    assert {"aiohttp", "orjson", "kubernetes-asyncio", "structlog"} <= found.keys()
    assert not {"pytest", "mypy", "ruff", "grpcio-tools"} & found.keys()


def test_nothing_of_the_build_s_machine_is_in_it(images: Images, program: str) -> None:
    """Certificates and settings that the build needed are neither in the history nor in the files."""
    name = images.name(program)
    history = docker("history", "--no-trunc", "--format", "{{.CreatedBy}}", name) + json.dumps(images.inspect(program))
    for word in ("BEGIN CERTIFICATE", "CA_CERTIFICATES", "PIP_", "proxy", "PROXY"):
        assert word not in history
    # The packages bring bundles of public authorities of their own.
    names = "-name '*.pem' -o -name '*.crt' -o -name pip.conf"
    assert images.shell(program, f"find / -xdev -not -path '/opt/nicrails/*' '(' {names} ')'") == ""


def test_its_own_user_can_change_nothing(images: Images, program: str) -> None:
    """No file of the programs belongs to the user that they run as, or can be written by it."""
    script = "find /opt/nicrails /usr /etc ! -type l '(' -perm -o+w -o ! -user 0 ')' ! -perm -1000"
    assert images.shell(program, script) == ""


def test_every_module_is_compiled(images: Images, program: str) -> None:
    """Each module has its byte code, which is used without a look at the source: nothing is compiled at every start."""
    script = """
import importlib.util as u, pathlib
for file in pathlib.Path('/opt/nicrails').rglob('*.py'):
    code = pathlib.Path(u.cache_from_source(str(file)))
    if not code.exists() or code.read_bytes()[4:8] != b'\\x01\\0\\0\\0':
        print(file)
"""
    assert images.python(program, script) == ""


def test_what_is_left_out_is_not_missed(images: Images, program: str) -> None:
    """Of the Kubernetes library only the generated API is left out; every way to a cluster is still there."""
    script = """
import nicrails.kube
from kubernetes_asyncio.config import exec_provider, google_auth, incluster_config, kube_config, openid
from kubernetes_asyncio.client import api_client, configuration, exceptions, rest
from kubernetes_asyncio.stream import ws_client
import kubernetes_asyncio.client.models as models, pathlib
print(len(list(pathlib.Path(models.__path__[0]).glob('*.py'))))
"""
    assert images.python(program, script) == "1"
