"""Taking a look at a running system over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from nicrails.text import excerpt
from nicrails_faker.checker.model import Answer, Look, Service
from nicrails_faker.demo.scenery import DEPLOYMENT, NAMESPACE
from nicrails_faker.demo.stage import CONFIG_MAP

MAX_BODY = 8 << 20
"""Bytes; the largest that is expected is a ConfigMap, of 1 MiB."""
_TIMEOUT = aiohttp.ClientTimeout(total=3.0)


class NoAnswerError(Exception):
    """The API can not be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """Where everything is, by base URL.

    Attributes:
        api: The Kubernetes API; nothing is said about who asks.
        observer: The observer's endpoints.
        brokers: The brokers' endpoints by the names of their Nodes.
    """

    api: str
    observer: str
    brokers: Mapping[str, str]


async def look(system: System, session: aiohttp.ClientSession) -> Look:
    """Look at everything.

    Raises:
        NoAnswerError: The API does not answer, or not as one does.
    """
    services = [_service(session, url) for url in (system.observer, *system.brokers.values())]
    observer, *brokers = await asyncio.gather(*services)
    config_map = await _object(session, f"{system.api}/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIG_MAP}")
    deployment = await _object(session, f"{system.api}/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{DEPLOYMENT}")
    nodes = await _object(session, f"{system.api}/api/v1/nodes")
    return Look(
        nodes={node["metadata"]["name"]: node["metadata"]["uid"] for node in nodes.get("items", [])},
        deployment=deployment.get("metadata", {}).get("uid", ""),
        config_map=config_map,
        observer=observer,
        brokers=dict(zip(system.brokers, brokers, strict=True)),
    )


async def _service(session: aiohttp.ClientSession, url: str) -> Service:
    livez, readyz, healthz, metrics = [
        await _get(session, url + path) for path in ("/livez", "/readyz", "/healthz", "/metrics")
    ]
    return Service(livez=livez, readyz=readyz, healthz=healthz, report=_json(healthz), metrics=metrics)


async def _object(session: aiohttp.ClientSession, url: str) -> dict[str, Any]:
    """An object of the API; empty if there is none."""
    answer = await _get(session, url)
    if answer.status == 404:
        return {}
    document = _json(answer)
    if answer.status != 200 or not document:
        raise NoAnswerError(f"{url} answers {answer.status or 'nothing'}: {excerpt(answer.body)}")
    return document


async def _get(session: aiohttp.ClientSession, url: str) -> Answer:
    try:
        async with session.get(url, timeout=_TIMEOUT) as response:
            body = bytearray()
            async for chunk in response.content.iter_chunked(1 << 16):
                body += chunk
                if len(body) > MAX_BODY:
                    return Answer(status=0, body=f"more than {MAX_BODY} bytes")
            content_type = response.headers.get("Content-Type", "")
            return Answer(status=response.status, content_type=content_type, body=body.decode("utf-8", "replace"))
    except (aiohttp.ClientError, TimeoutError) as error:
        return Answer(status=0, body=str(error) or "no answer in time")


def _json(answer: Answer) -> dict[str, Any]:
    try:
        document = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}
