"""Methods of a gRPC service with the types of their messages.

gRPC's own generated code for services has no types, and is bound to versions of gRPC; it is not used.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import grpc
from google.protobuf.message import Message
from grpc import aio

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)

MAX_MESSAGE = 16 * 1024 * 1024
"""Bytes of a message; the kubelet's own clients take as much."""

CHANNEL_OPTIONS = (
    # Connections are not shared: a socket that was made anew under the same path is another server.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.enable_http_proxy", 0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Method(Generic[Q, A]):
    """A method of a service.

    Attributes:
        service: Its full name, such as ``v1beta1.Registration``.
        name: The method's.
        request: The type of the message that is sent.
        answer: The type of the message that comes back, or of each of them.
    """

    service: str
    name: str
    request: type[Q]
    answer: type[A]

    async def call(self, channel: aio.Channel, request: Q, *, timeout: float) -> A:  # noqa: ASYNC109  (gRPC's own)
        """Ask once.

        Args:
            channel: To the server.
            request: What is asked.
            timeout: Seconds.

        Raises:
            aio.AioRpcError: It failed.
        """
        method = channel.unary_unary(self._path, self._bytes, self.answer.FromString)
        answer: A = await method(request, timeout=timeout)
        return answer

    async def stream(self, channel: aio.Channel, request: Q) -> AsyncGenerator[A, None]:
        """Ask, and get answers until the server ends or the iterator is closed.

        Raises:
            aio.AioRpcError: It failed.
        """
        call = channel.unary_stream(self._path, self._bytes, self.answer.FromString)(request)
        try:
            async for answer in call:
                yield answer
        finally:
            call.cancel()

    def unary(
        self, answer: Callable[[Q, aio.ServicerContext[Q, A]], Awaitable[A]]
    ) -> tuple[str, grpc.RpcMethodHandler[Any, Any]]:
        """A server's part of a method with one answer."""
        return self.name, grpc.unary_unary_rpc_method_handler(answer, self.request.FromString, self._bytes)

    def streaming(
        self, answers: Callable[[Q, aio.ServicerContext[Q, A]], AsyncIterator[A]]
    ) -> tuple[str, grpc.RpcMethodHandler[Any, Any]]:
        """A server's part of a method with a stream of answers."""
        return self.name, grpc.unary_stream_rpc_method_handler(answers, self.request.FromString, self._bytes)

    @property
    def _path(self) -> str:
        return f"/{self.service}/{self.name}"

    @staticmethod
    def _bytes(message: Message) -> bytes:
        return message.SerializeToString()


def service(name: str, methods: Mapping[str, grpc.RpcMethodHandler[Any, Any]]) -> grpc.GenericRpcHandler[Any, Any]:
    """A service of a server.

    Args:
        name: Its full name.
        methods: By name.
    """
    return grpc.method_handlers_generic_handler(name, dict(methods))


def channel(socket: Path) -> aio.Channel:
    """A channel to a server on a Unix socket; close it."""
    return aio.insecure_channel(f"unix:{socket.absolute()}", options=CHANNEL_OPTIONS)
