"""A TCP relay that counts what goes through it, bytes as they are on the wire."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

import yaml


class Relay:
    """Joins connections to one server and counts the bytes of both directions, TLS and headers included.

    Attributes:
        port: Where it listens on 127.0.0.1.
        count: Bytes so far.
    """

    def __init__(self, port: int) -> None:
        self._to = port
        self.port = 0
        self.count = 0

    @classmethod
    @contextlib.asynccontextmanager
    async def to(cls, port: int) -> AsyncIterator[Self]:
        """A relay to a port of 127.0.0.1."""
        relay = cls(port)
        server = await asyncio.start_server(relay._join, "127.0.0.1", 0)
        relay.port = server.sockets[0].getsockname()[1]
        async with server:
            yield relay
            server.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._to)
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await asyncio.gather(self._pump(reader, server_writer), self._pump(server_reader, writer))
        for end in (writer, server_writer):
            end.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            self.count += len(data)
            writer.write(data)
            await writer.drain()
        writer.close()

    def kubeconfig(self, original: Path, path: Path) -> Path:
        """A kubeconfig like another, but through the relay."""
        document = yaml.safe_load(original.read_text())
        document["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self.port}"
        path.write_text(yaml.safe_dump(document))
        return path
