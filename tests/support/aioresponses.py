"""aioresponses for the aiohttp this project locks.

aioresponses 0.7.9 builds a ``ClientResponse`` without the ``stream_writer`` that aiohttp demands since 3.14 (``TypeError:
ClientResponse.__init__() missing 1 required keyword-only argument``). Here that argument has a default; when a release of
aioresponses passes it, that one is taken and this module can go.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import aiohttp
from aioresponses import CallbackResult, aioresponses
from yarl import URL

__all__ = ["CallbackResult", "mocked_api", "sent"]

_NOTHING_SENT = SimpleNamespace(output_size=0)


class _Response(aiohttp.ClientResponse):
    def __init__(self, method: str, url: URL, **given: Any) -> None:
        super().__init__(method, url, **{"stream_writer": _NOTHING_SENT, **given})


@contextlib.contextmanager
def mocked_api(**options: Any) -> Iterator[aioresponses]:
    """Answer every request of every ``aiohttp.ClientSession`` in this process by what is registered.

    Args:
        options: Those of ``aioresponses.aioresponses``, such as ``passthrough=["http://127.0.0.1"]``.

    Yields:
        The ``aioresponses`` object: ``api.get(url, payload=…)``, ``api.patch(url, status=409)``.
    """
    with patch("aioresponses.core.ClientResponse", _Response), aioresponses(**options) as api:
        yield api


def sent(api: aioresponses, method: str, url: str) -> list[dict[str, Any]]:
    """The keyword arguments of every request so far of this method to this URL, oldest first."""
    return [call.kwargs for call in api.requests.get((method, URL(url)), [])]
