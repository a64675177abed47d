"""Samples as OpenTelemetry's metrics. In: a batch of samples. Out: `MetricsData` for an exporter of the SDK.

The data points are made directly: no instrument is registered and no callback is ever asked, so that nothing of the
SDK's can be slow or die inside pdwatch. Names are those of the metrics page, histograms keep the servers' own edges.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from agent import __version__
from agent.catalogue import CATALOGUE
from agent.catalogue import Metric as Catalogued
from agent.config import Otlp
from agent.outputs.sample import Buckets, Sample

UNITS: Mapping[str, str] = {
    "": "",
    "seconds": "s",
    "bytes": "By",
    "ratio": "1",
    "tokens": "{token}",
    "requests": "{request}",
    "bytes/s": "By/s",
    "tokens/s": "{token}/s",
    "requests/s": "{request}/s",
    "bytes/hour": "By/h",
}
"""Unit in the catalogue -> UCUM."""

GEN_AI: Mapping[str, tuple[str, str]] = {
    "pdwatch_ttft_seconds": ("gen_ai.server.time_to_first_token", "Time to the first token of one leg."),
    "pdwatch_tpot_seconds": ("gen_ai.server.time_per_output_token", "Time per output token after the first."),
    "pdwatch_e2e_latency_seconds": ("gen_ai.server.request.duration", "Time of one whole leg."),
}
"""Histogram -> its name and description in the semantic conventions of generative AI."""
OPERATION = {"gen_ai.operation.name": "text_completion", "gen_ai.provider.name": "vllm"}
"""What the conventions require; vLLM's metrics do not tell chats from completions."""

_CUMULATIVE = AggregationTemporality.CUMULATIVE
_MISSING: float = None  # type: ignore[assignment]
"""The SDK's types want a number where the protocol lets one be left out, and its encoder leaves out None."""

Point = NumberDataPoint | HistogramDataPoint


class Batch(NamedTuple):
    """All samples of one moment. `at` and `started` (of all that is cumulative): unix seconds."""

    samples: list[Sample]
    at: float
    started: float


def resource_of(settings: Otlp, deployment: str | None, environ: Mapping[str, str]) -> Resource:
    """Who sends: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES go before what pdwatch says of itself."""
    given = environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    named = {pair.partition("=")[0].strip() for pair in given.split(",")}
    if environ.get("OTEL_SERVICE_NAME"):
        named.add("service.name")
    own = {"service.name": "pdwatch", "service.version": __version__, "service.instance.id": socket.gethostname()}
    if deployment:
        own["pdwatch.deployment"] = deployment
    attributes = {name: text for name, text in own.items() if name not in named} | dict(settings.resource)
    return Resource.create(attributes)


def metrics_data(batch: Batch, resource: Resource, deployment: str | None = None, gen_ai: bool = False) -> MetricsData:
    """Every sample as a data point; `deployment` is an attribute of each, as it is a label on the page.

    `gen_ai`: the histograms of the conventions as well, in a scope of their own.
    """
    common = {"deployment": deployment} if deployment else {}
    scopes = [_scope("pdwatch", _metrics(batch, common))]
    if gen_ai:
        scopes.append(_scope("pdwatch.gen_ai", _gen_ai(batch, common)))
    return MetricsData([ResourceMetrics(resource, scopes, "")])


def _scope(name: str, metrics: Iterable[Metric]) -> ScopeMetrics:
    return ScopeMetrics(InstrumentationScope(name, __version__), list(metrics), "")


def _metrics(batch: Batch, common: Mapping[str, str]) -> Iterator[Metric]:
    families: dict[str, list[Point]] = {}
    for sample in batch.samples:
        attributes = dict(common)
        for label, text in zip(sample.metric.labels, sample.labels, strict=True):
            if text:
                attributes[label] = _printable(text)
        families.setdefault(sample.metric.name, []).append(_point(sample.value, attributes, batch))
    for name, metric in CATALOGUE.items():
        if name in families:
            yield Metric(name, metric.help, UNITS[metric.unit], _data(metric, families[name]))


def _data(metric: Catalogued, points: list[Point]) -> Gauge | Sum | Histogram:
    numbers = [point for point in points if isinstance(point, NumberDataPoint)]
    match metric.kind:
        case "counter":
            return Sum(numbers, _CUMULATIVE, is_monotonic=True)
        case "histogram":
            return Histogram([point for point in points if isinstance(point, HistogramDataPoint)], _CUMULATIVE)
        case _:
            return Gauge(numbers)


def _point(value: float | Buckets, attributes: Mapping[str, str], batch: Batch) -> Point:
    started, at = _nanoseconds(batch.started), _nanoseconds(batch.at)
    if not isinstance(value, Buckets):
        return NumberDataPoint(dict(attributes), started, at, float(value))
    counts = [max(0, round(count)) for count in value.counts]
    return HistogramDataPoint(
        attributes=dict(attributes),
        start_time_unix_nano=started,
        time_unix_nano=at,
        count=sum(counts),
        sum=_MISSING if value.total is None else value.total,
        bucket_counts=counts,
        explicit_bounds=list(value.edges),
        min=_MISSING,
        max=_MISSING,
    )


def _gen_ai(batch: Batch, common: Mapping[str, str]) -> Iterator[Metric]:
    roles = {
        sample.labels[0]: sample.labels[1] for sample in batch.samples if sample.metric.name == "pdwatch_pool_info"
    }
    points: dict[str, list[HistogramDataPoint]] = {}
    for sample in batch.samples:
        if sample.metric.name in GEN_AI and isinstance(sample.value, Buckets):
            pool = sample.labels[0]
            attributes = {**common, **OPERATION, "pdwatch.pool": pool, "pdwatch.role": roles.get(pool, "")}
            point = _point(sample.value, attributes, batch)
            assert isinstance(point, HistogramDataPoint)
            points.setdefault(sample.metric.name, []).append(point)
    for name, found in points.items():
        convention, says = GEN_AI[name]
        yield Metric(convention, says, "s", Histogram(found, _CUMULATIVE))


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def _printable(text: str) -> str:
    """What cannot be written as UTF-8 (lone surrogates from a foreign command line) becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
