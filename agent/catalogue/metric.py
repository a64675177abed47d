"""What a catalogued metric is, and the words that its names are made of. In: nothing. Out: `Metric` and constants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

MetricKind = Literal["gauge", "counter", "histogram", "info"]
Unit = Literal["", "seconds", "bytes", "ratio", "tokens", "requests", "bytes/s", "tokens/s", "requests/s", "bytes/hour"]

PREFIX = "pdwatch_"
PERCENTILES: tuple[tuple[str, str], ...] = (("0.5", "p50"), ("0.9", "p90"), ("0.95", "p95"), ("0.99", "p99"))
"""Quantile in the state -> value of the label `percentile`. (`quantile` is a label that only summaries may have.)"""

POOL = ("pool",)
TARGET = ("pool", "target")
ENGINE = ("pool", "target", "engine")
OBJECTIVE = ("objective", "scope")
PROCESS = ("pool", "target", "engine", "process")


@dataclass(frozen=True, slots=True)
class Metric:
    """One exported metric. `name` is what a text page shows and a query says: a counter's ends in `_total`."""

    name: str
    kind: MetricKind
    unit: Unit
    labels: tuple[str, ...]
    help: str
    group: str


LATENCIES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "ttft": ("ttft", "time to first token of the pool's leg"),
        "tpot": ("tpot", "time per output token after the first, per request"),
        "itl": ("itl", "time between two outputs, per engine step (with speculation not the time per token)"),
        "queue": ("queue_time", "time a request waited before it was scheduled"),
        "prefill": ("prefill_time", "time from being scheduled to the first token"),
        "decode": ("decode_time", "time from the first token to the last"),
        "e2e": ("e2e_latency", "time of the pool's whole leg"),
        "kv_transfer": ("kv_transfer_time", "time of one KV transfer handle (several per request with TP > 1)"),
        "kv_post": ("kv_post_time", "time to post one KV transfer handle"),
    }
)
"""Latency in the state -> (word in metric names, what it is)."""

HISTOGRAMS = ("ttft", "tpot", "itl", "e2e", "queue", "kv_transfer")
"""Latencies that are also exported as cumulative histograms."""

RECOVERED = ("ttft", "tpot", "kv_transfer")
"""Latencies whose distribution is recovered and exported on fine edges, up to a minute late."""

Row = tuple[str, MetricKind, Unit, tuple[str, ...], str]
"""Name without prefix, kind, unit, labels, help."""


def group(group: str, prefix: str, rows: Iterable[Row]) -> Iterator[Metric]:
    """Rows of one group, their names with the group's prefix."""
    for name, kind, unit, labels, text in rows:
        yield Metric(PREFIX + prefix + name, kind, unit, labels, text, group)


def percentile_rows(word: str, says: str, labels: tuple[str, ...]) -> Iterator[Row]:
    """Mean, percentiles with bounds, and count of one latency; `word` stands in the names, `says` in the helps."""
    at = (*labels, "percentile")
    yield f"{word}_mean_seconds", "gauge", "seconds", labels, f"Exact mean over the window: {says}."
    yield f"{word}_percentile_seconds", "gauge", "seconds", at, f"Best value over the window: {says}."
    yield (
        f"{word}_percentile_low_seconds",
        "gauge",
        "seconds",
        at,
        f"Never below this, whatever lies inside the buckets: {says}.",
    )
    yield (
        f"{word}_percentile_high_seconds", "gauge", "seconds", at,
        f"Never above this; absent where no bucket bounds it: {says}.",
    )  # fmt: skip
    yield f"{word}_observations", "gauge", "", labels, f"Observations in the window: {says}."
