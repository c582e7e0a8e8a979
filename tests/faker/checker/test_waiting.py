"""``nicrails-faker check`` on a system that is played by a web server."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from nicrails_faker.__main__ import main
from nicrails_faker.checker import looking, run, waiting
from nicrails_faker.checker.looking import System
from nicrails_faker.cli import _parser
from tests.faker.checker.looks import (
    MACHINE,
    OWNER,
    UID,
    broker_metrics,
    config_map,
    document,
    observer_metrics,
    report,
)

API = "/api/v1/namespaces/nicrails/configmaps/topograph-nic-rails"


@dataclass(slots=True)
class Played:
    """Answers by path; each look asks for all of them.

    Attributes:
        answers: A JSON document or a text by path; a list is given in turn, its last one for ever.
        asked: How often each path was asked for.
    """

    answers: dict[str, Any] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)

    async def answer(self, request: web.Request) -> web.Response:
        """Answer."""
        self.asked[request.path] = self.asked.get(request.path, 0) + 1
        if request.path not in self.answers:
            raise web.HTTPNotFound
        answer = self.answers[request.path]
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if isinstance(answer, str):
            return web.Response(text=answer, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})
        return web.json_response(answer)


def right() -> Played:
    """Everything is right."""
    return Played(
        {
            API: config_map(),
            "/apis/apps/v1/namespaces/nicrails/deployments/nicrails-observer": {"metadata": {"uid": OWNER}},
            "/api/v1/nodes": {"items": [{"metadata": {"name": MACHINE, "uid": UID}}]},
            **{f"/{who}/{probe}": "ok" for who in ("observer", "broker") for probe in ("livez", "readyz")},
            "/observer/healthz": report("configmap", "nodes", "garbage-collection"),
            "/observer/metrics": observer_metrics(),
            "/broker/healthz": report("rails-record"),
            "/broker/metrics": broker_metrics(),
        }
    )


@contextlib.asynccontextmanager
async def serving(played: Played) -> AsyncIterator[str]:
    """Serve it; its URL."""
    application = web.Application()
    application.router.add_get("/{path:.*}", played.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No second between two looks."""
    monkeypatch.setattr(waiting, "INTERVAL", 0.01)


async def check(played: Played, within: float = 10.0) -> tuple[bool, list[str]]:
    """Run the checker; its verdict and what it said."""
    lines: list[str] = []
    async with serving(played) as url:
        system, golden = waiting.expected(url, f"{url}/observer/", [f"{MACHINE}={url}/broker/"])
        verdict = await asyncio.to_thread(waiting.check, system, golden, within, lines.append)
    return verdict, lines


async def test_a_right_system_is_right() -> None:
    """Everything must be right in several looks in a row; then each promise is told."""
    played = right()
    verdict, lines = await check(played)
    assert verdict, lines
    assert played.asked[API] == waiting.LOOKS
    assert len(lines) == 7
    assert all(line.startswith("[ok] ") for line in lines)


async def test_what_comes_is_waited_for() -> None:
    """A record that is not there yet is waited for, and what is waited for is told once."""
    played = right()
    played.answers[API] = [config_map() | {"data": {}}] * 3 + [config_map()]
    verdict, lines = await check(played)
    assert verdict
    assert lines[0] == f"waiting: the record of {MACHINE} is the golden one: there is none"
    assert sum(line.startswith("waiting") for line in lines) == 1
    assert played.asked[API] == 3 + waiting.LOOKS


async def test_what_comes_and_goes_is_not_right() -> None:
    """A look that finds a fault begins the row anew."""
    played = right()
    good, bad = config_map(), config_map() | {"data": {}}
    played.answers[API] = [good, good, bad, good]
    verdict, _ = await check(played)
    assert verdict
    assert played.asked[API] == 3 + waiting.LOOKS


async def test_what_does_not_come_in_time_fails() -> None:
    """At the end of the time every fault is told, and the verdict is negative."""
    played = right()
    played.answers["/broker/metrics"] = "x"
    del played.answers["/observer/readyz"]
    verdict, lines = await check(played, within=0.2)
    assert not verdict
    assert any(line.startswith("[FAILED] the observer is healthy: /readyz answers 404") for line in lines)
    assert any(line.startswith(f"[FAILED] the metrics of the broker of {MACHINE} tell this") for line in lines)
    assert lines[-1] == "not right within 0.2 s"


async def test_a_wrong_record_fails_at_once() -> None:
    """A wrong record is not waited upon, whatever time there is."""
    played = right()
    played.answers[API] = config_map() | {"data": {MACHINE: document().replace("rail0", "rail9")}}
    verdict, lines = await asyncio.wait_for(check(played, within=3600), 30)
    assert not verdict
    assert lines[-1].startswith(f"[FAILED] the record of {MACHINE} is another than the golden one")
    assert played.asked[API] == 1


@pytest.mark.parametrize("answer", ["not JSON", {}, ["list"]])
async def test_an_api_that_talks_nonsense_is_told(answer: object) -> None:
    """An API that answers anything but an object is a fault of its own."""
    played = right()
    played.answers["/api/v1/nodes"] = [answer] if isinstance(answer, list) else answer
    verdict, lines = await check(played, within=0.1)
    assert not verdict
    assert any("the API answers" in line for line in lines)


async def test_nobody_there_is_told() -> None:
    """Without any server the checker ends with what it could not reach."""
    system = System(api="http://127.0.0.1:1", observer="http://127.0.0.1:1", brokers={MACHINE: "http://127.0.0.1:1"})
    lines: list[str] = []
    _, golden = waiting.expected("http://x", "http://x", [f"{MACHINE}=http://x"])
    assert not await asyncio.to_thread(waiting.check, system, golden, 0.1, lines.append)
    assert any("the API answers" in line for line in lines)


async def test_a_flood_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that never ends is not kept in memory."""
    monkeypatch.setattr(looking, "MAX_BODY", 1000)
    played = right()
    played.answers["/broker/metrics"] = "x" * 100_000
    verdict, lines = await check(played, within=0.1)
    assert not verdict
    assert any("more than 1000 bytes" in line for line in lines)


@pytest.mark.parametrize(
    ("broker", "said"),
    [
        (f"{MACHINE}", "expected MACHINE=URL"),
        (f"{MACHINE}=ftp://x", "expected MACHINE=URL"),
        ("nope=http://x", "no machine 'nope' is shipped"),
        ("./nope=http://x", "there is no such file"),
    ],
)
def test_arguments_that_cannot_be_used_are_told(capsys: pytest.CaptureFixture[str], broker: str, said: str) -> None:
    """A machine that is unknown or a URL that is none: one sentence, exit code 2."""
    assert main(["check", "--server", "http://x", "--observer", "http://x", "--broker", broker]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("nicrails-faker check: ")
    assert said in output.err


async def test_the_command_says_what_it_finds() -> None:
    """The command's exit code is the verdict, and its lines go to standard output."""
    async with serving(right()) as url:
        arguments = _parser().parse_args(
            ["check", "--server", url, "--observer", f"{url}/observer", "--broker", f"{MACHINE}={url}/broker"]
        )
        output = io.StringIO()
        assert await asyncio.to_thread(run, arguments, output) == 0
        assert output.getvalue().count("[ok]") == 7
        arguments.observer = f"{url}/nobody"
        arguments.within = 0.1
        assert await asyncio.to_thread(run, arguments, output) == 1
