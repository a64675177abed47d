"""Where pdwatch's own metrics are pushed to. In: nodes. Out: a frozen value, which OTEL_* variables complete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agent.config.access import URL
from agent.config.fields import FLAG, TEXT, Kind, choice, duration, setting
from agent.config.node import Node

Protocol = Literal["http/protobuf", "grpc"]


def _read_attributes(node: Node) -> tuple[tuple[str, str], ...]:
    return tuple((name, TEXT.read(child)) for name, child in node.mapping().items())


@dataclass(frozen=True, slots=True)
class Otlp:
    """Metrics over OTLP. None: as the standard OpenTelemetry variables say."""

    endpoint: str | None = setting(
        "endpoint",
        URL,
        None,
        "Address of the collector; without a path: `/v1/metrics`",
        default_says="`OTEL_EXPORTER_OTLP_METRICS_ENDPOINT`, `OTEL_EXPORTER_OTLP_ENDPOINT`, the local host",
    )
    protocol: Protocol | None = setting(
        "protocol",
        choice("http/protobuf", "grpc"),
        None,
        "How metrics are sent; `grpc` needs the extra of that name",
        default_says="`OTEL_EXPORTER_OTLP_METRICS_PROTOCOL`, `OTEL_EXPORTER_OTLP_PROTOCOL`, `http/protobuf`",
    )
    interval_seconds: float | None = setting(
        "interval",
        duration(1, 3600),
        None,
        "Time between two exports",
        default_says="`OTEL_METRIC_EXPORT_INTERVAL` (milliseconds), 15s",
    )
    timeout_seconds: float | None = setting(
        "timeout",
        duration(0.1, 300),
        None,
        "Longest that one export may take, retries included",
        default_says="`OTEL_EXPORTER_OTLP_METRICS_TIMEOUT`, `OTEL_EXPORTER_OTLP_TIMEOUT` (seconds), 10s",
    )
    resource: tuple[tuple[str, str], ...] = setting(
        "resource",
        Kind("attribute: text", _read_attributes, single=False, pairs=True),
        (),
        "Attributes of the resource, beside those of `OTEL_RESOURCE_ATTRIBUTES`",
    )
    gen_ai: bool = setting(
        "gen_ai", FLAG, False, "Also send TTFT, TPOT and durations under OpenTelemetry's GenAI names"
    )
