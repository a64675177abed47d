"""Spans over OTLP/gRPC, the extra `grpc`. In: TraceService/Export. Out: what `TraceReceiver` makes of the same body.

Only the way in differs from HTTP: gRPC hands over one message as bytes, which then go the way of every body. Whoever
may not come in is sent away before the message is read, a message is never unpacked by gRPC itself (which sets no limit
to that), and few are read at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NoReturn

import grpc
import grpc.aio

from agent.config import listen_address
from agent.errors import ConfigError
from agent.sources import traces_protobuf
from agent.sources.listener_tls import Certificates, ListenerCertificates
from agent.sources.traces import BODY_TIMEOUT_SECONDS, HELD_BODIES, TraceReceiver
from agent.sources.traces_body import BodyRefused

SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"
MOST_CALLS = 64
"""Exports that may be open at once, most of them waiting for one of the `HELD_BODIES` places in which to be read."""
STOP_SECONDS = 1.0

_STATUS = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    413: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.UNAVAILABLE,
    503: grpc.StatusCode.UNAVAILABLE,
}
"""HTTP -> gRPC. Exporters send again after UNAVAILABLE, later and later, and not after INVALID_ARGUMENT (OTLP)."""

_MAGIC = {b"\x1f\x8b": "gzip", b"\x78": "deflate"}
"""How packed messages begin. No export does: as a field's tag the first is impossible, the second not OTLP's."""


class GrpcTraces:
    """A gRPC server for one receiver. `listening` is host:port, once started."""

    def __init__(self, receiver: TraceReceiver, listen: str, tls: ListenerCertificates | None = None) -> None:
        self.listening = ""
        self._receiver = receiver
        self._listen = listen
        self._tls = tls
        self._places = asyncio.Semaphore(HELD_BODIES)
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Begins to listen. Raises ConfigError where the address cannot be had."""
        self._server = server = grpc.aio.server(
            options=(
                ("grpc.max_receive_message_length", self._receiver.most_bytes),
                ("grpc.per_message_decompression", 0),
                ("grpc.so_reuseport", 0),  # an address that is taken must be an error
            ),
            maximum_concurrent_rpcs=MOST_CALLS,
        )
        # On the wire one message is a stream of one: as a stream, the call is seen before its message is read.
        export: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_unary_rpc_method_handler(self._export)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Export": export}),))
        host, port = listen_address(self._listen)
        host = host or "[::]"
        address = f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"
        try:
            if self._tls is None:
                taken = server.add_insecure_port(address)
            else:
                taken = server.add_secure_port(address, _credentials(self._tls))
        except RuntimeError:
            raise ConfigError(
                f"traces.grpc_listen: {self._listen} cannot be listened on; is it taken, or no address of this host?"
            ) from None
        await server.start()
        self.listening = f"{address.rpartition(':')[0]}:{taken}"

    async def stop(self) -> None:
        """Ends what is open within `STOP_SECONDS`."""
        if self._server is not None:
            await self._server.stop(STOP_SECONDS)

    async def _export(self, messages: AsyncIterator[bytes], context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        try:
            self._receiver.let_in(_authorization(context))
            body = await self._read(messages)
            rejected, message = await self._receiver.take(body, _encoding(body), traces_protobuf)
        except BodyRefused as refused:
            self._receiver.counts.refused[refused.status] += 1
            await _refuse(context, refused)
        return traces_protobuf.response(rejected, message)

    async def _read(self, messages: AsyncIterator[bytes]) -> bytes:
        try:
            async with asyncio.timeout(BODY_TIMEOUT_SECONDS), self._places:
                return await anext(messages)
        except TimeoutError:
            raise BodyRefused(408, f"the message was not complete within {BODY_TIMEOUT_SECONDS:g} s") from None
        except StopAsyncIteration:
            raise BodyRefused(400, "the call has no message") from None


def _authorization(context: grpc.aio.ServicerContext[bytes, bytes]) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == "authorization" and isinstance(value, str):
            return value
    return ""


def _encoding(body: bytes) -> str:
    return next((name for magic, name in _MAGIC.items() if body.startswith(magic)), "")


async def _refuse(context: grpc.aio.ServicerContext[bytes, bytes], refused: BodyRefused) -> NoReturn:
    await context.abort(_STATUS[refused.status], refused.message)
    raise AssertionError("abort always raises")


def _credentials(tls: ListenerCertificates) -> grpc.ServerCredentials:
    used = tls.current()

    def changed() -> grpc.ServerCertificateConfiguration | None:
        """Asked before every handshake; None: nothing changed."""
        nonlocal used
        held = tls.current()
        if held is used:
            return None
        used = held
        return _configuration(held)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(used),
        changed,  # type: ignore[arg-type]  # gRPC's documentation allows None, its stubs do not
        tls.needs_client,
    )


def _configuration(held: Certificates) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(held.key, held.chain)], held.client_ca)
