"""OTLP bodies in protobuf. In: bytes. Out: batches of spans, bit by bit, and the answers in the same encoding.

A body of two-byte messages would grow a hundredfold if it were parsed whole. So the outer three levels are walked in
place, and only what names a request is parsed, one message at a time and none larger than a limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from agent.model import Span
from agent.sources.traces_spans import BATCH_SPANS, SPAN_NAME, WANTED, Batch, UndecodableBody, Value, span_of

CONTENT_TYPE = "application/x-protobuf"
LARGEST_MESSAGE_BYTES = 1 << 16
MOST_FIELDS = 25_000
"""Fields that are walked over in one body; a batch of spans has a few per span."""

_NAME = SPAN_NAME.encode()
_LENGTH_DELIMITED = 2
_FIXED_BYTES = {1: 8, 5: 4}


def decode(body: bytes) -> Iterator[Batch]:
    """Batches of a few hundred spans. Raises UndecodableBody, perhaps after some batches."""
    walk = _Walk(body)
    for start, end in walk.messages(0, len(body), 1):  # resource_spans
        inner = list(walk.fields(start, end))
        resource = _resource(body, [place for number, *place in inner if number == 1])
        batch = Batch(resource)
        for number, scope_start, scope_end in inner:
            if number != 2:  # scope_spans
                continue
            for span_start, span_end in walk.messages(scope_start, scope_end, 2):  # spans
                _look_at(body, span_start, span_end, batch)
                if batch.looked_at >= BATCH_SPANS:
                    yield batch
                    batch = Batch(resource)
        if batch.looked_at:
            yield batch


def response(rejected: int, message: str) -> bytes:
    """The answer to a body that was taken: how many of its spans were not, and what there is to say."""
    if not rejected and not message:
        return b""
    partial = ExportTracePartialSuccess(rejected_spans=rejected, error_message=message)
    return bytes(ExportTraceServiceResponse(partial_success=partial).SerializeToString())


def refusal(message: str) -> bytes:
    """The answer to a body that was refused: google.rpc.Status with its message alone."""
    text = message.encode()[:100]
    return bytes((0x12, len(text))) + text


def _resource(body: bytes, places: list[list[int]]) -> dict[str, Value]:
    if not places:
        return {}
    start, end = places[-1]
    if end - start > LARGEST_MESSAGE_BYTES:
        return {}
    try:
        message = Resource.FromString(body[start:end])
    except DecodeError:
        raise UndecodableBody("the resource of some spans cannot be read") from None
    return _attributes(message.attributes)


def _look_at(body: bytes, start: int, end: int, batch: Batch) -> None:
    if body.find(_NAME, start, end) < 0:
        batch.others += 1
        return
    span = None
    if end - start <= LARGEST_MESSAGE_BYTES:
        try:
            message = SpanMessage.FromString(body[start:end])
        except DecodeError:
            message = None
        if message is not None and message.name != SPAN_NAME:
            batch.others += 1
            return
        span = _span(message) if message is not None else None
    if span is None:
        batch.malformed += 1
    else:
        batch.spans.append(span)


def _span(message: SpanMessage) -> Span | None:
    trace = message.trace_id.hex() if len(message.trace_id) == 16 else ""
    attributes = _attributes(message.attributes, WANTED)
    return span_of(trace, message.start_time_unix_nano, message.end_time_unix_nano, attributes)


def _attributes(pairs: Iterable[KeyValue], wanted: frozenset[str] | None = None) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for pair in pairs:
        key = pair.key
        if wanted is not None and key not in wanted:
            continue
        value = pair.value
        match value.WhichOneof("value"):
            case "double_value":
                found[key] = value.double_value
            case "int_value":
                found[key] = value.int_value
            case "string_value":
                found[key] = value.string_value
    return found


class _Walk:
    """Steps over the fields of messages in place (protobuf encoding, "Message structure")."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = MOST_FIELDS

    def messages(self, start: int, end: int, wanted: int) -> Iterator[tuple[int, int]]:
        """Where each length-delimited field of this number lies."""
        return ((begin, stop) for number, begin, stop in self.fields(start, end) if number == wanted)

    def fields(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """(number, begin, end) of each length-delimited field. Raises UndecodableBody."""
        at = start
        while at < end:
            self._left -= 1
            if self._left < 0:
                raise UndecodableBody(f"more than {MOST_FIELDS} messages in one body; send smaller batches")
            tag, at = self._varint(at, end)
            kind = tag & 7
            if tag < 8:
                raise UndecodableBody("field 0 has no place in any message")
            if kind == _LENGTH_DELIMITED:
                length, at = self._varint(at, end)
                if length > end - at:
                    raise UndecodableBody("a message reaches past the end of the one around it")
                yield tag >> 3, at, at + length
                at += length
            elif kind == 0:
                _, at = self._varint(at, end)
            elif kind in _FIXED_BYTES:
                at += _FIXED_BYTES[kind]
            else:
                raise UndecodableBody(f"wire type {kind} has no place in OTLP")
        if at > end:
            raise UndecodableBody("a field reaches past the end of its message")

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        data = self._data
        result = shift = 0
        while at < end and shift < 64:
            byte = data[at]
            at += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result, at
            shift += 7
        raise UndecodableBody("a number is cut off")
