"""Spans over OTLP/gRPC: read exactly as over HTTP, behind the same token, limits and certificate."""

import asyncio
import gzip
import sys
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
import trustme
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult

from agent.config import Config, ListenTls, Pool, Target, Traces
from agent.errors import ConfigError
from agent.model import Observation, Span, SpansObservation
from agent.sources import traces_grpc
from agent.sources.listener_tls import ListenerCertificates
from agent.sources.traces import TraceReceiver
from agent.sources.traces_grpc import SERVICE, GrpcTraces
from agent.sources.traces_listeners import grpc_listening
from tests.sources.loopback import TurnedClock
from tests.sources.otlp_bodies import attributes_of, protobuf_body
from tests.spans import decode_span

POOLS = (Pool("decode", "decode", (Target("decode-0"),)),)
METHOD = f"/{SERVICE}/Export"


class Receiving:
    """A receiver behind a real gRPC server, and what it has emitted."""

    def __init__(self, traces: Traces, tls: ListenTls | None = None) -> None:
        self.seen: list[SpansObservation] = []
        self.clock = TurnedClock(wall=1.8e9)
        self.receiver = TraceReceiver(Config(pools=POOLS, traces=traces), self._emit, self.clock)
        certificates = ListenerCertificates(tls) if tls is not None else None
        self.server = GrpcTraces(self.receiver, "127.0.0.1:0", certificates)

    def _emit(self, observation: Observation) -> None:
        assert isinstance(observation, SpansObservation)
        self.seen.append(observation)

    @property
    def spans(self) -> list[Span]:
        return [span for observation in self.seen for span in observation.spans]

    async def export(self, body: bytes, **metadata: str) -> tuple[grpc.StatusCode, str]:
        """The status and what is said: details, or the partial success."""
        async with grpc.aio.insecure_channel(self.server.listening) as channel:
            call: Any = channel.unary_unary(METHOD)
            try:
                answer = await call(body, metadata=tuple(metadata.items()), timeout=10)
            except grpc.aio.AioRpcError as error:
                return error.code(), error.details() or ""
        return grpc.StatusCode.OK, ExportTraceServiceResponse.FromString(answer).partial_success.error_message


@asynccontextmanager
async def receiving(tls: ListenTls | None = None, **traces: Any) -> AsyncIterator[Receiving]:
    work = Receiving(Traces(**traces), tls)
    await work.server.start()
    try:
        yield work
    finally:
        await work.server.stop()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zlib.compress])
async def test_a_message_goes_the_way_of_every_body(pack: Any) -> None:
    body = protobuf_body("decode-0", decode_span(), decode_span("chatcmpl-b"))
    async with receiving() as work:
        # As a compressing exporter: what gRPC packed arrives packed, because it is not unpacked by gRPC.
        assert await work.export(pack(body)) == (grpc.StatusCode.OK, "")
    assert [span.request for span in work.spans] == [decode_span().request, "chatcmpl-b"]
    assert [seen.target for seen in work.seen] == ["decode-0"]
    assert (work.receiver.counts.bodies, work.receiver.counts.spans) == (1, 2)


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
async def test_what_the_sdk_of_opentelemetry_sends_is_taken(compression: grpc.Compression) -> None:
    span = decode_span()
    async with receiving() as work:

        def send() -> SpanExportResult:
            exporter = OTLPSpanExporter(endpoint=work.server.listening, insecure=True, compression=compression)
            provider = TracerProvider(resource=Resource.create({"service.name": "decode-0"}), shutdown_on_exit=False)
            sent = provider.get_tracer("vllm").start_span("llm_request", start_time=round(span.start * 1e9))
            sent.set_attributes(attributes_of(span))
            sent.end(round(span.end * 1e9))
            assert isinstance(sent, ReadableSpan)
            result = exporter.export([sent])
            exporter.shutdown()
            return result

        assert await asyncio.to_thread(send) is SpanExportResult.SUCCESS
    assert [(each.request, each.ttft_seconds) for each in work.spans] == [(span.request, span.ttft_seconds)]


async def test_what_is_left_out_is_told_to_the_sender() -> None:
    async with receiving() as work:
        status, says = await work.export(protobuf_body("somebody", decode_span()))
    assert (status, work.spans) == (grpc.StatusCode.OK, [])
    assert "somebody" in says


async def test_without_the_token_nothing_is_read() -> None:
    body = protobuf_body("decode-0", decode_span())
    async with receiving(bearer_token="secret") as work:
        assert (await work.export(body))[0] is grpc.StatusCode.UNAUTHENTICATED
        assert (await work.export(body, authorization="Bearer other"))[0] is grpc.StatusCode.UNAUTHENTICATED
        assert (await work.export(body, authorization="Bearer secret"))[0] is grpc.StatusCode.OK
    assert (len(work.spans), work.receiver.counts.refused) == (1, {401: 2})


async def test_hostile_messages_are_refused_and_the_next_good_one_is_taken() -> None:
    most = 1 << 14
    bomb = gzip.compress(bytes(20 << 20))
    assert len(bomb) > most
    async with receiving(max_body_bytes=most) as work:
        refused = {
            name: (await work.export(body))[0]
            for name, body in {
                "not protobuf": b"\x0a\xff\xff",
                "too large": bytes(most + 1),
                "a bomb within the limit": gzip.compress(bytes(4 << 20)),
                "a bomb past it": bomb,
                "half a stream": gzip.compress(b"\x0a" * 100)[:-5],
            }.items()
        }
        assert (await work.export(protobuf_body("decode-0", decode_span())))[0] is grpc.StatusCode.OK
    invalid, exhausted = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refused == {
        "not protobuf": invalid,
        "too large": exhausted,
        "a bomb within the limit": invalid,
        "a bomb past it": exhausted,
        "half a stream": invalid,
    }
    assert len(work.spans) == 1


async def test_whoever_sends_too_much_is_told_to_come_again() -> None:
    async with receiving() as work:
        work.receiver._bytes.charge(1e9, work.clock.steady())
        status, _ = await work.export(protobuf_body("decode-0", decode_span()))
    assert status is grpc.StatusCode.UNAVAILABLE


async def test_a_message_that_never_comes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces_grpc, "BODY_TIMEOUT_SECONDS", 0.05)
    async with receiving() as work, grpc.aio.insecure_channel(work.server.listening) as channel:

        async def nothing() -> AsyncIterator[bytes]:
            await asyncio.sleep(60)
            yield b""

        call: Any = channel.stream_unary(METHOD)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(nothing(), timeout=10)
    assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert work.receiver.counts.refused == {408: 1}


async def test_a_call_without_a_message_is_refused() -> None:
    async with receiving() as work, grpc.aio.insecure_channel(work.server.listening) as channel:

        async def nothing() -> AsyncIterator[bytes]:
            for never in list[bytes]():
                yield never

        call: Any = channel.stream_unary(METHOD)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(nothing(), timeout=10)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def certified(authority: trustme.CA, folder: Path) -> ListenTls:
    """Writes a certificate for localhost into the folder's two files."""
    issued = authority.issue_cert("localhost", "127.0.0.1")
    issued.private_key_pem.write_to_path(folder / "key.pem")
    (folder / "cert.pem").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    return ListenTls(str(folder / "cert.pem"), str(folder / "key.pem"))


async def exported_over_tls(address: str, authority: trustme.CA) -> bool:
    credentials = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
    options = (("grpc.use_local_subchannel_pool", 1),)  # no connection of an earlier test step is used again
    async with grpc.aio.secure_channel(address, credentials, options=options) as channel:
        call: Any = channel.unary_unary(METHOD)
        try:
            await call(protobuf_body("decode-0", decode_span()), timeout=5)
        except grpc.aio.AioRpcError as error:
            return error.code() is not grpc.StatusCode.UNAVAILABLE
    return True


async def test_a_rotated_certificate_is_shown_to_the_next_client(tmp_path: Path) -> None:
    first, second = trustme.CA(), trustme.CA()
    async with receiving(certified(first, tmp_path)) as work:
        assert await exported_over_tls(work.server.listening, first)
        assert not await exported_over_tls(work.server.listening, second)
        certified(second, tmp_path)
        assert await exported_over_tls(work.server.listening, second)
        assert not await exported_over_tls(work.server.listening, first)


async def test_a_taken_address_ends_the_start_with_a_sentence() -> None:
    async with receiving() as work:
        again = GrpcTraces(work.receiver, work.server.listening)
        with pytest.raises(ConfigError, match=r"traces\.grpc_listen: .* cannot be listened on"):
            await again.start()


async def test_without_the_extra_the_setting_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "agent.sources.traces_grpc")
    monkeypatch.setitem(sys.modules, "grpc", None)
    config = Config(pools=POOLS, traces=Traces(grpc_listen="127.0.0.1:0"))
    receiver = TraceReceiver(config, lambda _: None, TurnedClock())
    with pytest.raises(ConfigError, match=r"traces\.grpc_listen: .*install pdwatch\[grpc\]"):
        async with grpc_listening(receiver, config, None):
            pass
