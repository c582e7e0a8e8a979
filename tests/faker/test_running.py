from __future__ import annotations

import argparse
import asyncio
import os
import signal
import threading
from pathlib import Path

import pytest

from nicrails.kube import ApiError, ForbiddenError, InvalidError, KubeClient, KubeconfigAccess, UnreachableError
from nicrails.service import ServiceError
from nicrails_faker.arguments import ArgumentsError, add_arguments, add_node_argument, add_topology_arguments, node_of
from nicrails_faker.reporting import explain
from nicrails_faker.running import BAD_ARGUMENTS, FAILED, GOOD, ServiceApp, run_service
from tests.faker.scene import Scene
from tests.support.ports import release_port, reserve_port

_KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: it, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: it, user: {}}]
contexts: [{name: it, context: {cluster: it, user: it}}]
current-context: it
"""


def _arguments(*argv: str, environ: dict[str, str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_arguments(parser, port=8080)
    add_topology_arguments(parser, environ or {})
    add_node_argument(parser, environ or {})
    return parser.parse_args(argv)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """A kubeconfig of a server that is not there."""
    file = tmp_path / "kubeconfig"
    file.write_text(_KUBECONFIG)
    return file


def test_the_environment_gives_defaults() -> None:
    """The variables of fake-gpu-operator name the Node and the ConfigMap, and arguments go before them."""
    environ = {"NODE_NAME": "n1", "TOPOLOGY_CM_NAME": "gpus", "TOPOLOGY_CM_NAMESPACE": "ns"}
    found = _arguments(environ=environ)
    assert (found.node, found.topology_name, found.topology_namespace) == ("n1", "gpus", "ns")
    found = _arguments("--node", "n2", "--topology-name", "t", "--topology-namespace", "x", environ=environ)
    assert (found.node, found.topology_name, found.topology_namespace) == ("n2", "t", "x")


def test_without_environment_the_peers_names_hold() -> None:
    """Without variables the ConfigMap is ``topology`` in ``gpu-operator``; an empty variable is none."""
    for environ in ({}, {"TOPOLOGY_CM_NAME": "", "TOPOLOGY_CM_NAMESPACE": "", "NODE_NAME": ""}):
        found = _arguments(environ=environ)
        assert (found.topology_name, found.topology_namespace) == ("topology", "gpu-operator")
        with pytest.raises(ArgumentsError, match="set NODE_NAME"):
            node_of(found)


@pytest.mark.parametrize("port", ["-1", "65536", "http", "", "8 0"])
def test_a_port_is_checked(port: str) -> None:
    """What is no port is refused as an argument."""
    with pytest.raises(argparse.ArgumentError, match="no port"):
        _arguments("--port", port)


def test_arguments_that_do_not_fit_end_with_a_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Without a way to the API server, or when the service itself refuses, the exit code is 2 and a sentence says why."""

    def build(_: ServiceApp) -> None:
        raise ArgumentsError("not like that")

    assert run_service("it", _arguments(), ("duty",), build, environ={}) == BAD_ARGUMENTS
    assert "give --kubeconfig FILE" in capsys.readouterr().err
    missing = _arguments("--kubeconfig", str(tmp_path / "missing"))
    assert run_service("it", missing, ("duty",), build, environ={}) == BAD_ARGUMENTS
    assert "no such kubeconfig file" in capsys.readouterr().err
    pod = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}
    assert run_service("it", _arguments(), ("duty",), build, environ=pod) == BAD_ARGUMENTS
    assert capsys.readouterr().err == "nicrails-faker it: not like that\n"


def test_a_taken_port_ends_with_a_sentence(capsys: pytest.CaptureFixture[str], kubeconfig: Path) -> None:
    """An address that can not be bound ends the service with exit code 1."""
    arguments = _arguments("--kubeconfig", str(kubeconfig), "--address", "203.0.113.1", "--port", "0")
    assert run_service("it", arguments, ("duty",), lambda _: None, environ={}) == FAILED
    assert "can not listen on 203.0.113.1" in capsys.readouterr().err


def test_sigterm_ends_it_well(kubeconfig: Path) -> None:
    """A service that is told to end does so with exit code 0."""
    port = reserve_port()
    arguments = _arguments("--kubeconfig", str(kubeconfig), "--address", "127.0.0.1", "--port", str(port))

    def build(app: ServiceApp) -> None:
        async def until_serving() -> None:
            await app.serving.wait()
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()

        app.tasks["it"] = until_serving

    assert threading.current_thread() is threading.main_thread()
    assert run_service("it", arguments, ("duty",), build, environ={}) == GOOD
    release_port(port)


async def test_the_endpoints_say_how_it_goes(scene: Scene) -> None:
    """Health follows the duties, metrics count them, and liveness depends on neither."""

    def build(app: ServiceApp) -> None:
        app.report("duty")

    async with scene.service(("duty",), build) as service:
        report = service.app.report("duty")
        assert (await service.get("/livez"))[0] == 200
        assert (await service.get("/readyz"))[0] == 503
        report.succeeded()
        assert (await service.get("/healthz"))[0] == 200
        report.failed("step", "a reason")
        status, body = await service.get("/healthz")
        assert (status, body["step"], body["reason"]) == (503, "step", "a reason")
        assert report.reason == "a reason"
        _, metrics = await service.get("/metrics")
        assert 'nicrails_faker_failures_total{duty="duty"} 1.0' in metrics
        assert 'nicrails_build_info{component="nicrails-faker"' in metrics
        report.waits("step", "not yet")
        assert service.failure == "step: not yet"
        _, metrics = await service.get("/metrics")
        assert 'nicrails_faker_failures_total{duty="duty"} 1.0' in metrics, "waiting is no failure"


async def test_a_task_that_ends_ends_the_service(kubeconfig: Path) -> None:
    """No task may end silently: the service ends with its name."""

    async def short() -> None:
        pass

    app = ServiceApp("it", KubeClient(KubeconfigAccess(kubeconfig), user_agent="test/0"), ("duty",))
    app.tasks["short"] = short
    with pytest.raises(ServiceError, match="task short ended by itself"):
        await app.run(asyncio.Event())


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ForbiddenError("GET /x", "no", status=403), "give its Role the permission"),
        (UnreachableError("GET /x", "no"), "can be reached"),
        (InvalidError("GET /x", "no", status=422, causes=("data: bad",)), "will not take this: data: bad"),
        (ApiError("GET /x", "no", status=418), "tried again by itself"),
    ],
)
def test_an_error_says_what_to_do(error: ApiError, says: str) -> None:
    """Each kind of error of the API is told with what to do about it, and with the request."""
    assert says in explain(error)
    assert "GET /x" in explain(error)
