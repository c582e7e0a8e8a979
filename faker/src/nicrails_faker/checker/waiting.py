"""Looking at a system until it is right, or until it is too late."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

import aiohttp

from nicrails import NodeRecord, decode
from nicrails_faker.checker.judging import Promise, WrongRecordError, judge
from nicrails_faker.checker.looking import NoAnswerError, System, look
from nicrails_faker.machines import find

LOOKS = 3
"""So many looks in a row must find everything right: one look is not atomic, and what comes and goes is not right."""
INTERVAL = 1.0
"""Seconds between two looks."""


def expected(server: str, observer: str, brokers: Sequence[str]) -> tuple[System, dict[str, NodeRecord]]:
    """What the command line names.

    Args:
        server: The URL of the API.
        observer: The URL of the observer's endpoints.
        brokers: ``MACHINE=URL`` for each broker.

    Returns:
        Where everything is, and the golden record of each machine by its Node's name.

    Raises:
        ValueError: An argument has another form, or the machine no golden record.
        KeyError: There is no such machine.
    """
    urls: dict[str, str] = {}
    golden: dict[str, NodeRecord] = {}
    for value in brokers:
        name, _, url = value.partition("=")
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"--broker {value!r}: expected MACHINE=URL, such as cpu-rails=http://127.0.0.1:8080")
        machine = find(name)
        if machine.record is None:
            raise ValueError(f"--broker {value!r}: the machine has no golden record to compare with")
        urls[machine.name] = url.rstrip("/")
        golden[machine.name] = decode(machine.record)
    return System(api=server.rstrip("/"), observer=observer.rstrip("/"), brokers=urls), golden


def check(system: System, golden: Mapping[str, NodeRecord], within: float, say: Callable[[str], None]) -> bool:
    """Wait until everything is right.

    Args:
        system: Where everything is.
        golden: The golden records by Node name.
        within: Seconds.
        say: Is told, line by line, what is waited for and the outcome.
    """
    return asyncio.run(_check(system, golden, within, say))


async def _check(system: System, golden: Mapping[str, NodeRecord], within: float, say: Callable[[str], None]) -> bool:
    deadline = time.monotonic() + within
    right, waiting = 0, ""
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                promises = await _promises(system, golden, session)
            except WrongRecordError as error:
                say(f"[FAILED] {error}")
                return False
            faults = [f"{promise.text}: {fault}" for promise in promises for fault in promise.faults]
            right = 0 if faults else right + 1
            if right == LOOKS:
                for promise in promises:
                    say(f"[ok] {promise.text}")
                return True
            if faults and time.monotonic() > deadline:
                for fault in faults:
                    say(f"[FAILED] {fault}")
                say(f"not right within {within:g} s")
                return False
            if faults and faults[0] != waiting:
                waiting = faults[0]
                say(f"waiting: {waiting}")
            await asyncio.sleep(INTERVAL)


async def _promises(
    system: System, golden: Mapping[str, NodeRecord], session: aiohttp.ClientSession
) -> Sequence[Promise]:
    try:
        return judge(await look(system, session), golden)
    except NoAnswerError as error:
        return (Promise(text="the API answers", faults=(str(error),)),)
