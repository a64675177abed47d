"""Spans over OTLP/HTTP: what servers really send is read exactly, and whatever else is sent ends at a limit."""

import asyncio
import gzip
import io
import json
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from agent.config import Config, Pool, Target, Traces
from agent.errors import ConfigError
from agent.model import Observation, Span, SpansObservation
from agent.sources.traces import BYTES_PER_SECOND, MOST_SPANS_OF_A_BODY, TraceReceiver
from agent.sources.traces_body import BodyReader
from agent.sources.traces_json import LARGEST_BODY_BYTES
from agent.sources.traces_protobuf import LARGEST_MESSAGE_BYTES, MOST_FIELDS
from tests.sources.loopback import TurnedClock
from tests.sources.otlp_bodies import (
    JSON,
    PROTOBUF,
    attributes_of,
    json_body,
    message_of,
    protobuf_body,
    request_of,
)
from tests.spans import decode_span, prefill_span

POOLS = (
    Pool("prefill", "prefill", (Target("prefill-0"), Target("prefill-1"))),
    Pool("decode", "decode", (Target("decode-0"),)),
)
NOW = 1_795_980_000.0


class Receiving:
    """A receiver behind a real server, and what it has emitted."""

    def __init__(self, traces: Traces) -> None:
        self.seen: list[SpansObservation] = []
        self.clock = TurnedClock(wall=NOW)
        self.receiver = TraceReceiver(Config(pools=POOLS, traces=traces), self._emit, self.clock)
        self.url = ""
        self.session: aiohttp.ClientSession

    def _emit(self, observation: Observation) -> None:
        assert isinstance(observation, SpansObservation)
        self.seen.append(observation)

    @property
    def spans(self) -> list[Span]:
        return [span for observation in self.seen for span in observation.spans]

    async def post(self, body: bytes, content_type: str = PROTOBUF, **headers: str) -> tuple[int, bytes, str]:
        """Status, body and content type of the answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.post(
            self.url, data=io.BytesIO(body), headers={"Content-Type": content_type, **named}
        ) as answer:
            return answer.status, await answer.read(), answer.content_type

    async def raw(self, data: bytes) -> bytes:
        """What comes back on a connection of its own, until it is closed or nothing comes for a while."""
        reader, writer = await asyncio.open_connection("127.0.0.1", int(self.url.split(":")[2].split("/")[0]))
        writer.write(data)
        await writer.drain()
        answer = await asyncio.wait_for(reader.read(1000), 10)
        writer.close()
        return answer


@asynccontextmanager
async def receiving(**traces: Any) -> AsyncIterator[Receiving]:
    work = Receiving(Traces(**traces))
    app = web.Application()
    app.add_routes(work.receiver.routes())
    runner = web.AppRunner(app, access_log=None, auto_decompress=False, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    work.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/traces"
    async with aiohttp.ClientSession() as session:
        work.session = session
        yield work
    await runner.cleanup()


def close_to(span: Span) -> Any:
    """The span as it comes out of nanoseconds."""
    times: dict[str, Any] = {name: pytest.approx(getattr(span, name), abs=1e-6) for name in ("start", "end")}
    return replace(span, **times)


# -- what servers send -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "content_type"), [(protobuf_body, PROTOBUF), (json_body, JSON)])
@pytest.mark.parametrize("encoding", ["", "gzip", "deflate"])
async def test_a_span_is_read_exactly_in_every_encoding(make: Any, content_type: str, encoding: str):
    body = make("decode-0", decode_span(), decode_span("chatcmpl-b"))
    packed = {"": body, "gzip": gzip.compress(body), "deflate": zlib.compress(body)}[encoding]
    async with receiving() as work:
        headers = {"Content_Encoding": encoding} if encoding else {}
        status, answer, answer_type = await work.post(packed, content_type, **headers)
    assert (status, answer_type) == (200, content_type)
    assert answer in (b"", b"{}")
    (observation,) = work.seen
    assert (observation.t, observation.target) == (NOW, "decode-0")
    assert observation.spans == (close_to(decode_span()), close_to(decode_span("chatcmpl-b")))


async def test_the_sdks_own_exporter_delivers_and_only_requests_are_taken():
    span = prefill_span()
    async with receiving() as work:
        exporter = OTLPSpanExporter(endpoint=work.url, compression=Compression.Gzip)
        resource = Resource.create({"service.name": "prefill-1", "vllm.process_id": "4711"})
        provider = TracerProvider(resource=resource)
        provider.add_span_processor(BatchSpanProcessor(exporter))
        tracer = provider.get_tracer("vllm.llm_engine")
        tracer.start_span("Load model", start_time=1_000).end(2_000)
        made = tracer.start_span("llm_request", start_time=round(span.start * 1e9), attributes=attributes_of(span))
        made.end(round(span.end * 1e9))
        trace = f"{made.get_span_context().trace_id:032x}"
        await asyncio.to_thread(provider.shutdown)
    assert [observation.target for observation in work.seen] == ["prefill-1"]
    assert work.spans == [close_to(replace(span, trace=trace))]
    assert (work.receiver.counts.spans, work.receiver.counts.others) == (1, 1)


async def test_a_collectors_batch_of_many_servers_is_taken_apart():
    merged = protobuf_body("prefill-0", prefill_span()) + protobuf_body("decode-0", decode_span())
    async with receiving() as work:
        await work.post(merged)
    assert [observation.target for observation in work.seen] == ["prefill-0", "decode-0"]


async def test_a_resource_that_is_written_after_its_spans_still_names_them():
    whole = request_of({"service.name": "decode-0"}, message_of(decode_span())).resource_spans[0]
    resource, scope = whole.resource.SerializeToString(), whole.scope_spans[0].SerializeToString()
    turned = b"\x12" + varint(len(scope)) + scope + b"\x0a" + varint(len(resource)) + resource
    async with receiving() as work:
        await work.post(b"\x0a" + varint(len(turned)) + turned)
    assert [observation.target for observation in work.seen] == ["decode-0"]


@pytest.mark.parametrize(
    ("resource", "target"),
    [
        ({"service.name": "decode-0"}, "decode-0"),
        ({"service.name": "decode"}, "decode-0"),
        ({"service.name": "prefill"}, "prefill"),
        ({"service.name": "prefill", "host.name": "prefill-1"}, "prefill-1"),
        ({"service.name": "vllm", "service.instance.id": "prefill-0"}, "prefill-0"),
        ({"service.name": "vllm", "k8s.pod.name": "p-7f9c"}, "prefill-1"),
        ({"service.name": "vllm-decoders"}, "decode-0"),
    ],
)
async def test_whose_span_it_is_follows_from(resource: dict[str, str], target: str):
    services = (("p-7f9c", "prefill-1"), ("vllm-decoders", "decode"))
    async with receiving(services=services) as work:
        await work.post(request_of(resource, message_of(prefill_span())).SerializeToString())
    assert [observation.target for observation in work.seen] == [target]


async def test_spans_of_an_unknown_service_are_counted_by_name_and_the_sender_is_told():
    async with receiving() as work:
        for number in range(149):
            await work.post(protobuf_body(f"other-{number}", prefill_span()))
        status, answer, _ = await work.post(protobuf_body("other-149", prefill_span()))
    assert status == 200
    partial = ExportTraceServiceResponse.FromString(answer).partial_success
    assert partial.rejected_spans == 0
    assert "'other-149' is no target" in partial.error_message
    assert work.seen == []
    assert work.receiver.counts.unknown_service == 150
    assert len(work.receiver.names.unknown) == 100


def test_a_service_that_leads_nowhere_is_an_error_at_the_start():
    with pytest.raises(ConfigError, match=r"traces\.services\.vllm: 'decode-9' is neither a target nor a pool"):
        TraceReceiver(Config(pools=POOLS, traces=Traces(services=(("vllm", "decode-9"),))), lambda _: None)


@pytest.mark.parametrize(
    ("attributes", "unknown"),
    [
        ({"gen_ai.usage.prompt_tokens": "many"}, "prompt_tokens"),
        ({"gen_ai.usage.completion_tokens": -1}, "completion_tokens"),
        ({"gen_ai.usage.completion_tokens": 1.5}, "completion_tokens"),
        ({"gen_ai.latency.e2e": float("nan")}, "e2e_seconds"),
        ({"gen_ai.latency.time_in_queue": float("inf")}, "queue_seconds"),
        ({"gen_ai.latency.time_to_first_token": True}, "ttft_seconds"),
    ],
)
async def test_an_attribute_of_the_wrong_type_is_unknown_and_the_rest_is_taken(
    attributes: dict[str, Any], unknown: str
):
    async with receiving() as work:
        message = message_of(decode_span(), **attributes)
        await work.post(request_of({"service.name": "decode-0"}, message).SerializeToString())
    (span,) = work.spans
    assert getattr(span, unknown) is None
    assert replace(span, **{unknown: getattr(decode_span(), unknown)}) == close_to(decode_span())


async def test_an_endless_request_id_is_cut_alike_on_both_legs():
    long = "cmpl-" + "x" * 5000
    async with receiving() as work:
        await work.post(protobuf_body("decode-0", decode_span(long), decode_span(long), decode_span(long + "y")))
    first, second, other = work.spans
    assert first.request == second.request != other.request
    assert len(first.request) < 128


# -- what else is sent -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "content_type", "headers"),
    [
        pytest.param(400, b"\x0a\xff", PROTOBUF, {}, id="a message cut off"),
        pytest.param(400, b"\x0a\x04\x0a\x02\xff\xff", PROTOBUF, {}, id="a broken resource"),
        pytest.param(400, b"\x0b\x0c", PROTOBUF, {}, id="groups"),
        pytest.param(400, b"\xff" * 20, PROTOBUF, {}, id="an endless number"),
        pytest.param(400, b"<html></html>", PROTOBUF, {}, id="a page"),
        pytest.param(400, b"{", JSON, {}, id="half a JSON"),
        pytest.param(400, b"[" * 100_000, JSON, {}, id="deep JSON"),
        pytest.param(400, b'{"a":' * 50_000, JSON, {}, id="deep JSON of objects"),
        pytest.param(400, b"1" * 10_000, JSON, {}, id="an endless integer"),
        pytest.param(400, b"[]", JSON, {}, id="a list"),
        pytest.param(400, b'{"resourceSpans": 7}', JSON, {}, id="a number for a list"),
        pytest.param(400, b'{"resourceSpans": [7]}', JSON, {}, id="a number for an object"),
        pytest.param(400, b'{"resourceSpans": [{"resource": []}]}', JSON, {}, id="a list for an object"),
        pytest.param(400, b'{"resourceSpans": [{"scopeSpans": {}}]}', JSON, {}, id="an object for a list"),
        pytest.param(400, b"\xff\xfe\x00", JSON, {}, id="no UTF-8"),
        pytest.param(400, b" " * (LARGEST_BODY_BYTES + 1), JSON, {}, id="too much JSON"),
        pytest.param(400, b"plain", PROTOBUF, {"Content_Encoding": "gzip"}, id="no gzip"),
        pytest.param(400, gzip.compress(b"")[:-4], PROTOBUF, {"Content_Encoding": "gzip"}, id="half a gzip"),
        pytest.param(400, gzip.compress(b"") + b"x", PROTOBUF, {"Content_Encoding": "gzip"}, id="more than a gzip"),
        pytest.param(413, gzip.compress(bytes(9 << 20)), PROTOBUF, {"Content_Encoding": "gzip"}, id="a gzip bomb"),
        pytest.param(413, bytes(9 << 20), PROTOBUF, {}, id="too large"),
        pytest.param(415, b"", "text/plain", {}, id="another type"),
        pytest.param(415, b"", PROTOBUF, {"Content_Encoding": "zstd"}, id="another compression"),
    ],
)
async def test_is_refused(status: int, body: bytes, content_type: str, headers: dict[str, str]):
    async with receiving() as work:
        answered, answer, answer_type = await work.post(body, content_type, **headers)
        assert (answered, work.receiver.counts.refused) == (status, {status: 1})
        assert answer_type == (JSON if content_type == JSON else PROTOBUF)
        text = json.loads(answer)["message"] if answer_type == JSON else answer[2:].decode()
        assert len(text) > 10
        assert work.receiver._reader.held_bytes == 0
        assert (await work.post(protobuf_body("decode-0", decode_span())))[0] == 200  # and life goes on
    assert len(work.spans) == 1


async def test_a_gigabyte_that_is_only_claimed_is_refused_before_it_is_sent():
    head = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
    async with receiving() as work:
        assert b" 413 " in await work.raw(head + b"Content-Length: 1000000000\r\n\r\n" + bytes(1000))
        assert b" 413 " in await work.raw(
            head + b"Transfer-Encoding: chunked\r\n\r\n" + (b"100000\r\n" + bytes(1 << 20) + b"\r\n") * 9
        )
    assert work.receiver.counts.refused == {413: 2}


async def test_a_sender_that_leaves_in_the_middle_costs_nothing():
    head = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 100\r\n\r\n"
    async with receiving() as work:
        _, writer = await asyncio.open_connection("127.0.0.1", int(work.url.split(":")[2].split("/")[0]))
        writer.write(head + b"12345")
        await writer.drain()
        await until(lambda: work.receiver._reader.held_bytes > 0)
        writer.close()
        await until(lambda: bool(work.receiver.counts.refused))
    assert work.receiver._reader.held_bytes == 0


async def test_a_body_that_comes_too_slowly_is_given_up():
    class Endless:
        async def readany(self) -> bytes:
            await asyncio.sleep(0)
            return b"x"

    with pytest.raises(Exception, match=r"not complete within 0\.01 s") as refused:
        await BodyReader(1 << 30, 1 << 30, 0.01).read(Endless(), None)
    assert refused.value.status == 408  # type: ignore[attr-defined]


async def test_too_many_bodies_on_their_way_at_once_are_sent_back():
    class Half:
        def __init__(self) -> None:
            self.chunks = [bytes(60)]
            self.wait = asyncio.Event()

        async def readany(self) -> bytes:
            if self.chunks:
                return self.chunks.pop()
            await self.wait.wait()
            return b""

    reader = BodyReader(most_bytes=100, most_held_bytes=100, timeout_seconds=10)
    first = Half()
    holding = asyncio.create_task(reader.read(first, None))
    await asyncio.sleep(0)
    with pytest.raises(Exception, match="too many bodies") as refused:
        await reader.read(Half(), None)
    assert refused.value.status == 429  # type: ignore[attr-defined]
    first.wait.set()
    assert len(await holding) == 60
    assert reader.held_bytes == 0


@pytest.mark.parametrize("unit", [b"\x0a\x00", b"\x12\x00"])
@pytest.mark.parametrize("inside", [False, True])
async def test_millions_of_empty_messages_are_refused_in_little_memory(unit: bytes, inside: bool):
    body = unit * (2 << 20)
    if inside:  # of one resource: scopes, or resources
        body = b"\x0a" + varint(len(body)) + body
    async with receiving() as work:
        tracemalloc.start()
        status, _, _ = await work.post(body)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert status == 400
    assert peak < 6 * len(body)


async def test_a_span_of_millions_of_attributes_is_not_even_parsed():
    large = message_of(decode_span(), **{f"key-{number}": "x" * 100 for number in range(1000)})
    assert large.ByteSize() > LARGEST_MESSAGE_BYTES
    async with receiving() as work:
        body = request_of({"service.name": "decode-0"}, large, message_of(decode_span("cmpl-b-0"))).SerializeToString()
        _, answer, _ = await work.post(body)
    assert ExportTraceServiceResponse.FromString(answer).partial_success.rejected_spans == 1
    assert [span.request for span in work.spans] == ["cmpl-b-0"]


async def test_unusable_spans_are_left_out_and_told():
    rows = json.loads(json_body("decode-0", decode_span()))
    spans = rows["resourceSpans"][0]["scopeSpans"][0]["spans"]
    good = spans[0]
    spans += [7, {**good, "startTimeUnixNano": "soon"}, {**good, "endTimeUnixNano": None}, {**good, "attributes": 3}]
    spans += [{**good, "startTimeUnixNano": 0}, {"name": "Load model"}]
    async with receiving() as work:
        _, answer, _ = await work.post(json.dumps(rows).encode(), JSON)
    assert json.loads(answer)["partialSuccess"]["rejectedSpans"] == "5"
    assert (len(work.spans), work.receiver.counts.malformed, work.receiver.counts.others) == (1, 5, 1)


async def test_half_characters_from_json_become_whole_ones():
    rows = json_body("decode-0", decode_span()).replace(b"cmpl-a-0", b"cmpl-\\ud800-0")
    async with receiving() as work:
        assert (await work.post(rows, JSON))[0] == 200
        assert (await work.post(rows.replace(b'"decode-0"', b'"\\ud800"'), JSON))[0] == 200
    assert work.spans[0].request == "cmpl-?-0"
    assert list(work.receiver.names.unknown) == ["?"]


async def test_spans_over_the_rate_are_dropped_counted_and_told_and_the_rate_recovers():
    spans = [decode_span(f"cmpl-{number}-0") for number in range(100)]
    async with receiving(spans_per_second=10.0) as work:
        status, answer, _ = await work.post(protobuf_body("decode-0", *spans))
        assert status == 200
        assert ExportTraceServiceResponse.FromString(answer).partial_success.rejected_spans == 60
        assert len(work.spans) == 40
        work.clock.turn(2.0)
        await work.post(protobuf_body("decode-0", *spans))
        assert len(work.spans) == 60
    assert work.receiver.counts.over_rate == 140


async def test_a_flood_of_bombs_is_sent_back_with_the_time_to_wait():
    bomb = gzip.compress(bytes(9 << 20))
    async with receiving() as work:
        answers = [await work.post(bomb, Content_Encoding="gzip") for _ in range(10)]
        assert [status for status, _, _ in answers] == [413] * 5 + [429] * 5
        async with work.session.post(work.url, data=b"", headers={"Content-Type": PROTOBUF}) as answer:
            assert answer.status == 429
            assert int(answer.headers["Retry-After"]) >= 1
        work.clock.turn(5 * 2 * (8 << 20) / BYTES_PER_SECOND)
        assert (await work.post(protobuf_body("decode-0", decode_span())))[0] == 200


async def test_without_the_token_nothing_is_let_in(tmp_path: Path):
    token = tmp_path / "token"
    token.write_text("secret\n")
    body = protobuf_body("decode-0", decode_span())
    async with receiving(bearer_token_file=str(token)) as work:
        assert (await work.post(body))[0] == 401
        assert (await work.post(body, Authorization="Bearer wrong"))[0] == 401
        assert (await work.post(body, Authorization="Bearer sécret"))[0] == 401
        assert (await work.post(body, Authorization="Bearer secret"))[0] == 200
        token.unlink()
        assert (await work.post(body, Authorization="Bearer secret"))[0] == 503
    assert len(work.spans) == 1


async def until(holds: Callable[[], bool]) -> None:
    """Lets everybody else go on until it holds."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0)


def varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*made, value))


def test_the_limit_of_fields_leaves_room_for_the_largest_batches():
    assert MOST_FIELDS > 2 * MOST_SPANS_OF_A_BODY
