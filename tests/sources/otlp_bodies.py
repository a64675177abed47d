"""OTLP bodies made by the protocol's own library, as vLLM's SDK sends them; and an application that receives them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from agent.model import Span

PROTOBUF, JSON = "application/x-protobuf", "application/json"


def attributes_of(span: Span) -> dict[str, Any]:
    """VLLM's attributes of a request span."""
    values: dict[str, Any] = {
        "gen_ai.request.id": span.request,
        "gen_ai.request.max_tokens": 128,
        "gen_ai.usage.prompt_tokens": span.prompt_tokens,
        "gen_ai.usage.completion_tokens": span.completion_tokens,
        "gen_ai.latency.time_to_first_token": span.ttft_seconds,
        "gen_ai.latency.e2e": span.e2e_seconds,
        "gen_ai.latency.time_in_queue": span.queue_seconds,
        "gen_ai.latency.time_in_model_prefill": span.prefill_seconds,
        "gen_ai.latency.time_in_model_decode": span.decode_seconds,
        "gen_ai.latency.time_in_model_inference": 1.5,
    }
    return {name: value for name, value in values.items() if value is not None}


def key_values(values: Mapping[str, Any]) -> list[KeyValue]:
    made = []
    for key, value in values.items():
        if isinstance(value, bool):
            any_value = AnyValue(bool_value=value)
        elif isinstance(value, str):
            any_value = AnyValue(string_value=value)
        elif isinstance(value, int):
            any_value = AnyValue(int_value=value)
        else:
            any_value = AnyValue(double_value=value)
        made.append(KeyValue(key=key, value=any_value))
    return made


def message_of(span: Span, name: str = "llm_request", **more: Any) -> SpanMessage:
    return SpanMessage(
        trace_id=bytes.fromhex(span.trace),
        span_id=b"12345678",
        name=name,
        kind=SpanMessage.SPAN_KIND_SERVER,
        start_time_unix_nano=round(span.start * 1e9),
        end_time_unix_nano=round(span.end * 1e9),
        attributes=key_values({**attributes_of(span), **more}),
    )


def request_of(resource: Mapping[str, Any], *spans: SpanMessage) -> ExportTraceServiceRequest:
    scope = ScopeSpans(spans=spans)
    return ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(resource=Resource(attributes=key_values(resource)), scope_spans=[scope])]
    )


def protobuf_body(service: str, *spans: Span) -> bytes:
    """As one server sends it."""
    return bytes(request_of({"service.name": service}, *map(message_of, spans)).SerializeToString())


def json_body(service: str, *spans: Span) -> bytes:
    """The same in JSON."""
    rows = [
        {
            "traceId": span.trace,
            "spanId": "3132333435363738",
            "name": "llm_request",
            "kind": 2,
            "startTimeUnixNano": str(round(span.start * 1e9)),
            "endTimeUnixNano": str(round(span.end * 1e9)),
            "attributes": [{"key": key, "value": _json_value(value)} for key, value in attributes_of(span).items()],
        }
        for span in spans
    ]
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": rows}]}]}).encode()


def _json_value(value: object) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"doubleValue": value}
