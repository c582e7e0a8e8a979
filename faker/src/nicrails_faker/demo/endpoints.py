"""Asking the services how they are, over HTTP, as probes and Prometheus do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
from prometheus_client.parser import text_string_to_metric_families

from nicrails_faker.demo.processes import Program
from nicrails_faker.demo.waiting import NotYetError

TIMEOUT = aiohttp.ClientTimeout(total=2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What ``/healthz`` says."""

    status: int
    report: dict[str, Any]

    @property
    def sentence(self) -> str:
        """The failing step and its reason, or the status alone."""
        step, reason = self.report.get("step"), self.report.get("reason")
        return f"{step}: {reason}" if step else str(self.report.get("status"))


class Endpoints:
    """The endpoints of all services.

    Args:
        session: For the requests.
    """

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def health(self, program: Program) -> Health:
        """Ask ``/healthz``.

        Raises:
            NotYetError: There is no answer.
        """
        status, body = await self._get(program, "/healthz")
        try:
            report = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise NotYetError(f"/healthz of the {program.name} is not JSON") from error
        return Health(status=status, report=report)

    async def alive(self, program: Program) -> bool:
        """Ask ``/livez``.

        Raises:
            NotYetError: There is no answer.
        """
        return (await self._get(program, "/livez"))[0] == 200

    async def metric(self, program: Program, name: str, **labels: str) -> float:
        """The sum of all samples of a metric that have these labels.

        Raises:
            NotYetError: There is no answer, or no such sample.
        """
        _, body = await self._get(program, "/metrics")
        values = [
            sample.value
            for family in text_string_to_metric_families(body.decode())
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        if not values:
            raise NotYetError(f"the {program.name} has no metric {name}")
        return sum(values)

    async def _get(self, program: Program, path: str) -> tuple[int, bytes]:
        address = program.address()
        if address is None:
            raise NotYetError(f"the {program.name} does not serve {path} yet")
        try:
            async with self._session.get(address + path, timeout=TIMEOUT) as response:
                return response.status, await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise NotYetError(f"no answer from {path} of the {program.name}") from error
