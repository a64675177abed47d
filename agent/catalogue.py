"""Every metric that pdwatch exports, once: name, kind, unit, labels, help. In: nothing. Out: `CATALOGUE`.

The single source for the metrics page, OTLP, dashboards, rules, `docs/metrics.md` and their tests. Names have base
units and no colon. Labels are what a series is about (pool, target, engine, process), never a value that changes.

What begins with `pdwatch_pool_`, `pdwatch_system_` or `pdwatch_engine_` looks back over `pdwatch_window_seconds` or
says how it is now. Counters and histograms only grow while pdwatch runs: a Prometheus may add those of many up.
"""

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


def _rows() -> Iterator[Metric]:
    yield from _group("deployment", "", _system())
    yield from _group("objectives", "objective_", _objectives())
    yield from _group("pools, over the window", "pool_", _pool())
    yield from _group("pools, cumulative", "", _cumulative())
    yield from _group("engines, over the window", "engine_", _engine())
    yield from _group("targets", "target_", _target())
    yield from _group("memory of the servers' processes", "memory_", _memory())
    yield from _group("pdwatch itself", "", _own())


_Row = tuple[str, MetricKind, Unit, tuple[str, ...], str]


def _group(group: str, prefix: str, rows: Iterable[_Row]) -> Iterator[Metric]:
    for name, kind, unit, labels, text in rows:
        yield Metric(PREFIX + prefix + name, kind, unit, labels, text, group)


def _percentile_rows(word: str, says: str, labels: tuple[str, ...]) -> Iterator[_Row]:
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


def _system() -> Iterator[_Row]:
    yield "window_seconds", "gauge", "seconds", (), "How far back windowed values look."
    yield (
        "problem",
        "gauge",
        "",
        ("code", "severity", "scope", "target", "engine", "process"),
        ("1 for each problem that stands; scope is a pool or system."),
    )
    yield from _percentile_rows("system_ttft", "time to first token as a user sees it", ())
    yield "system_ttft_source", "gauge", "", ("source",), "1 for where the TTFT is from: router, traces or composed."
    yield "system_ttft_prefill_leg_mean_seconds", "gauge", "seconds", (), "The prefill leg's part of the composed TTFT."
    yield (
        "system_ttft_decode_leg_mean_seconds",
        "gauge",
        "seconds",
        (),
        "The KV and decode leg's part of the composed TTFT.",
    )
    yield "system_requests_per_second", "gauge", "requests/s", (), "Requests finished for users."
    yield (
        "system_tokens_per_second_per_gpu",
        "gauge",
        "tokens/s",
        (),
        ("Prompt tokens of the prefill pools and generated tokens of the decode pools, over all GPUs."),
    )
    yield (
        "system_goodput_tokens_per_second_per_gpu",
        "gauge",
        "tokens/s",
        (),
        "The same, of requests within the objectives.",
    )
    yield "system_objectives_met_ratio", "gauge", "ratio", (), "Share of requests within the objectives."
    yield (
        "system_contract_share_low_ratio",
        "gauge",
        "ratio",
        (),
        "At least this share of prompts is of contract length.",
    )
    yield (
        "system_contract_share_high_ratio",
        "gauge",
        "ratio",
        (),
        "At most this share of prompts is of contract length.",
    )
    yield "system_legs", "gauge", "requests", ("leg",), "Prefill legs ended and decode legs begun in the window."


def _objectives() -> Iterator[_Row]:
    unit = "in the unit of its target"
    yield "target", "gauge", "", OBJECTIVE, "What is promised: seconds, a share, or tokens per verify step."
    yield "value", "gauge", "", OBJECTIVE, f"What is judged, over the objective's own window, {unit}."
    yield "value_low", "gauge", "", OBJECTIVE, f"Never below this, {unit}."
    yield "value_high", "gauge", "", OBJECTIVE, f"Never above this; absent where nothing bounds it, {unit}."
    yield "observations", "gauge", "", OBJECTIVE, "Observations that the judgement rests on."
    yield "verdict", "gauge", "", (*OBJECTIVE, "verdict"), "1 for the verdict now, whatever the hold times say."
    yield "status", "gauge", "", (*OBJECTIVE, "status"), "1 for the status now: ok, pending, firing or resolved."


def _pool() -> Iterator[_Row]:
    yield "info", "info", "", ("pool", "role"), "Role of the pool."
    yield "gpus", "gauge", "", POOL, "GPUs of the pool, as configured."
    for word, says in LATENCIES.values():
        yield from _percentile_rows(word, says, POOL)
    yield (
        "tpot_token_mean_seconds",
        "gauge",
        "seconds",
        POOL,
        ("Time per output token as a mean over tokens, requests in flight included."),
    )
    yield "tpot_mix_difference_seconds", "gauge", "seconds", POOL, "Mean TPOT over requests minus mean over tokens."
    yield "requests_per_second", "gauge", "requests/s", POOL, "Requests finished, whatever the reason."
    yield "prompt_tokens_per_second", "gauge", "tokens/s", POOL, "Prompt tokens processed."
    yield "generation_tokens_per_second", "gauge", "tokens/s", POOL, "Tokens generated."
    yield "generation_tokens_per_second_per_gpu", "gauge", "tokens/s", POOL, "Tokens generated, per GPU."
    yield "tokens_per_second_per_user", "gauge", "tokens/s", POOL, "What one user sees: 1 / mean TPOT."
    yield "acceptance_ratio", "gauge", "ratio", POOL, "Draft tokens accepted, padding left out."
    yield (
        "acceptance_length_tokens",
        "gauge",
        "tokens",
        POOL,
        "Tokens per verify step, padding left out: 1 + accepted / drafts.",
    )
    yield (
        "acceptance_by_position_ratio",
        "gauge",
        "ratio",
        ("pool", "position"),
        ("Share of steps that accepted the draft at this position."),
    )
    yield (
        "conditional_acceptance_ratio",
        "gauge",
        "ratio",
        ("pool", "position"),
        ("The same among the steps that accepted all positions before it."),
    )
    yield "kv_bytes_per_second", "gauge", "bytes/s", POOL, "KV bytes moved, over the window's real time."
    yield "kv_handle_bytes_per_second", "gauge", "bytes/s", POOL, "Mean throughput of one KV transfer handle."
    yield "requests_running", "gauge", "requests", POOL, "Requests in the engines' batches now."
    yield "requests_waiting", "gauge", "requests", POOL, "Requests waiting now."
    yield (
        "requests_waiting_by_reason",
        "gauge",
        "requests",
        ("pool", "reason"),
        "Requests waiting now: capacity or deferred.",
    )
    yield (
        "requests_kv_fetch",
        "gauge",
        "requests",
        ("pool", "stage"),
        "Requests whose KV is being fetched now, by stage.",
    )
    yield "kv_usage_max_ratio", "gauge", "ratio", POOL, "KV cache in use now, fullest engine."
    yield "kv_usage_mean_ratio", "gauge", "ratio", POOL, "KV cache in use now, mean over engines."


def _cumulative() -> Iterator[_Row]:
    for latency in HISTOGRAMS:
        word, says = LATENCIES[latency]
        text = f"All since pdwatch began, edges as on the servers' pages: {says}."
        yield f"{word}_seconds", "histogram", "seconds", POOL, text
    for latency in RECOVERED:
        word, says = LATENCIES[latency]
        text = f"Recovered from each scrape's sums, fine edges with every objective's target among them: {says}."
        yield f"recovered_{word}_seconds", "histogram", "seconds", POOL, text
    yield "requests_finished_total", "counter", "requests", ("pool", "reason"), "Requests finished, by reason."
    yield "prompt_tokens_total", "counter", "tokens", POOL, "Prompt tokens processed."
    yield "generation_tokens_total", "counter", "tokens", POOL, "Tokens generated."
    yield "preemptions_total", "counter", "requests", POOL, "Requests preempted."
    yield "drafts_total", "counter", "", POOL, "Verify steps with drafts, padding included."
    yield "draft_tokens_total", "counter", "tokens", POOL, "Tokens drafted, padding included."
    yield "accepted_tokens_total", "counter", "tokens", POOL, "Draft tokens accepted."
    yield (
        "accepted_tokens_by_position_total",
        "counter",
        "tokens",
        ("pool", "position"),
        "Draft tokens accepted, by position.",
    )
    yield "padded_drafts_total", "counter", "", POOL, "Drafts that only padded the first step after a KV transfer."
    yield "kv_transfers_total", "counter", "", POOL, "KV transfer handles completed (several per request with TP > 1)."
    yield "kv_transferred_bytes_total", "counter", "bytes", POOL, "KV bytes moved."
    yield "kv_failed_transfers_total", "counter", "", POOL, "KV transfers that failed."
    yield "kv_failed_notifications_total", "counter", "", POOL, "KV notifications that failed."
    yield "kv_expired_total", "counter", "requests", POOL, "KV leases that ran out before decode had read them."
    yield "kv_after_expiry_total", "counter", "requests", POOL, "Reads that ended after their lease."
    yield "recomputed_tokens_total", "counter", "tokens", POOL, "Prompt tokens that a decode pool computed itself."
    yield (
        "http_responses_total",
        "counter",
        "requests",
        ("pool", "status"),
        "HTTP answers of the servers, by class of status.",
    )
    yield "admission_rejected_total", "counter", "requests", POOL, "Requests refused at admission."


def _engine() -> Iterator[_Row]:
    yield "ttft_mean_seconds", "gauge", "seconds", ENGINE, "Mean time to first token."
    yield "tpot_mean_seconds", "gauge", "seconds", ENGINE, "Mean time per output token, over requests."
    yield "tpot_token_mean_seconds", "gauge", "seconds", ENGINE, "Mean time per output token, over tokens."
    yield "itl_mean_seconds", "gauge", "seconds", ENGINE, "Mean step time."
    yield "acceptance_length_tokens", "gauge", "tokens", ENGINE, "Tokens per verify step, padding left out."
    yield "generation_tokens_per_second", "gauge", "tokens/s", ENGINE, "Tokens generated."
    yield "requests_running", "gauge", "requests", ENGINE, "Requests in the batch now."
    yield "requests_waiting", "gauge", "requests", ENGINE, "Requests waiting now."
    yield "kv_usage_ratio", "gauge", "ratio", ENGINE, "KV cache in use now."


def _target() -> Iterator[_Row]:
    yield "up", "gauge", "", TARGET, "1 when the last page came, could be used and is fresh; else 0."
    yield "data_age_seconds", "gauge", "seconds", TARGET, "Age of the last usable page."
    yield "scrape_duration_seconds", "gauge", "seconds", TARGET, "Time the last usable page took to fetch."
    yield "page_bytes", "gauge", "bytes", TARGET, "Size of the last usable page."
    yield "page_samples", "gauge", "", TARGET, "Samples on the last usable page."
    yield "scrapes_total", "counter", "", TARGET, "Pages taken."
    yield (
        "scrape_failures_total",
        "counter",
        "",
        ("pool", "target", "reason"),
        "Pages that did not come or could not be used.",
    )


def _memory() -> Iterator[_Row]:
    yield "rss_bytes", "gauge", "bytes", PROCESS, "Resident memory."
    yield "anonymous_bytes", "gauge", "bytes", PROCESS, "Resident anonymous memory."
    yield "swap_bytes", "gauge", "bytes", PROCESS, "Swapped memory."
    yield "limit_bytes", "gauge", "bytes", PROCESS, "What the memory may grow to."
    yield "slope_bytes_per_hour", "gauge", "bytes/hour", PROCESS, "Growth of the memory that counts against the limit."
    yield "slope_low_bytes_per_hour", "gauge", "bytes/hour", PROCESS, "Lower end of the 95 % interval of the slope."
    yield "slope_high_bytes_per_hour", "gauge", "bytes/hour", PROCESS, "Upper end of the 95 % interval of the slope."
    yield "time_to_limit_seconds", "gauge", "seconds", PROCESS, "Until the limit is reached at this slope."
    yield "time_to_limit_low_seconds", "gauge", "seconds", PROCESS, "Earliest end of the 95 % interval until the limit."
    yield "trend", "gauge", "", (*PROCESS, "trend"), "1 for the trend that the process has now."


def _own() -> Iterator[_Row]:
    yield "build_info", "info", "", ("version", "python"), "Version of pdwatch."
    yield "agent_start_time_seconds", "gauge", "seconds", (), "When pdwatch started, unix time."
    yield "agent_cpu_seconds_total", "counter", "seconds", (), "CPU time that pdwatch used."
    yield "agent_resident_memory_bytes", "gauge", "bytes", (), "Resident memory of pdwatch."
    yield "agent_loop_lag_seconds", "gauge", "seconds", (), "Longest delay of the event loop in the last minute."
    yield "agent_state_build_seconds", "gauge", "seconds", (), "Time the last state took to compute."
    yield "agent_observations_total", "counter", "", (), "Pages, failures and process readings taken in."
    yield "agent_ignored_observations_total", "counter", "", (), "Observations of targets that are not configured."
    yield "agent_skipped_scrapes_total", "counter", "", (), "Scrapes left out because the one before still ran."
    yield "agent_errors_total", "counter", "", ("where",), "Defects of pdwatch that were caught; each is logged."
    yield (
        "agent_otlp_exports_total",
        "counter",
        "",
        ("result",),
        "Exports over OTLP: ok, failed, or skipped as one ran.",
    )


CATALOGUE: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in _rows()})
"""Name -> metric, in the order of the page."""
