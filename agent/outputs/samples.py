"""From a snapshot to samples: state, pools' totals and pdwatch's own figures come in, catalogued samples go out.

Whatever sends metrics (the page, OTLP) sends these. What is not known yields nothing: no 0, no NaN, no series.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from agent.catalogue import CATALOGUE, LATENCIES, PERCENTILES, PREFIX
from agent.indicators.percentiles.recovered import FineHistogram
from agent.outputs.cumulative import Asked, cumulative, recovered
from agent.outputs.own import OwnFigures
from agent.outputs.own_samples import legs, own_samples
from agent.outputs.sample import Sample, from_table, known, table
from agent.state import (
    Bounded,
    Distribution,
    EngineState,
    MemoryState,
    PoolState,
    ProblemState,
    Quantile,
    State,
    SystemState,
    TargetState,
    VerdictState,
)
from agent.windows.increase import Increase

MOST_CAUSE_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that one page is made of. `totals`: pool -> what it gained since pdwatch began; `padded_drafts` likewise."""

    state: State
    totals: Mapping[str, Increase]
    padded_drafts: Mapping[str, float]
    own: OwnFigures
    recovered: tuple[tuple[str, str, FineHistogram], ...] = ()
    """(pool, metric, histogram) of the distributions recovered from sums."""
    exemplars: Asked | None = None


def samples(snapshot: Snapshot) -> Iterator[Sample]:
    """Every sample of the snapshot; each series once."""
    state = snapshot.state
    yield from _system(state)
    yield from _objectives(state.verdicts)
    for name, pool in state.pools.items():
        yield from _pool(name, pool)
        yield from cumulative(name, pool, snapshot.totals.get(name) or Increase(), snapshot.exemplars)
        yield from known("padded_drafts_total", (name,), snapshot.padded_drafts.get(name))
        for target_name, target in pool.targets.items():
            yield from _target((name, target_name), target)
            for engine_name, engine in target.engines.items():
                yield from _engine((name, target_name, engine_name), engine)
    yield from recovered(snapshot.recovered)
    yield from _memory(state)
    yield from own_samples(snapshot.own)
    if state.requests is not None:
        yield from legs(state.requests.counts)


_SYSTEM = table(
    "system_",
    {
        "ttft_prefill_leg_mean_seconds": "ttft.parts.prefill_leg",
        "ttft_decode_leg_mean_seconds": "ttft.parts.kv_and_decode_leg",
        "requests_per_second": "requests_per_s",
        "tokens_per_second_per_gpu": "total_tokens_per_s_per_gpu",
        "goodput_tokens_per_second_per_gpu": "goodput_tokens_per_s_per_gpu",
        "objectives_met_ratio": "objectives_met_share",
    },
)
_POOL = table(
    "pool_",
    {
        "gpus": "gpus",
        "tpot_token_mean_seconds": "tpot_token_mean",
        "tpot_mix_difference_seconds": "tpot_mix_difference",
        "requests_per_second": "throughput.requests_per_s",
        "prompt_tokens_per_second": "throughput.prompt_tokens_per_s",
        "generation_tokens_per_second": "throughput.generation_tokens_per_s",
        "generation_tokens_per_second_per_gpu": "throughput.generation_tokens_per_s_per_gpu",
        "tokens_per_second_per_user": "throughput.tokens_per_s_per_user",
        "kv_bytes_per_second": "kv_transfer.bytes_per_s",
        "kv_handle_bytes_per_second": "kv_transfer.handle_bytes_per_s",
        "requests_running": "load.running",
        "requests_waiting": "load.waiting",
        "kv_usage_max_ratio": "load.kv_usage_max",
        "kv_usage_mean_ratio": "load.kv_usage_mean",
    },
)
_ENGINE = table(
    "engine_",
    {
        "tpot_token_mean_seconds": "tpot_token_mean",
        "generation_tokens_per_second": "throughput.generation_tokens_per_s",
        "requests_running": "load.running",
        "requests_waiting": "load.waiting",
        "kv_usage_ratio": "load.kv_usage_max",
    },
)
_ENGINE_MEANS = {name: CATALOGUE[f"{PREFIX}engine_{name}_mean_seconds"] for name in ("ttft", "tpot", "itl")}
_ACCEPTANCE_LENGTH = CATALOGUE[PREFIX + "engine_acceptance_length_tokens"]
_TARGET = table(
    "target_",
    {
        "up": "up",
        "data_age_seconds": "age_s",
        "scrape_duration_seconds": "scrape_s",
        "page_bytes": "page_bytes",
        "page_samples": "samples",
        "scrapes_total": "scrapes",
    },
)


def _system(state: State) -> Iterator[Sample]:
    system: SystemState = state.system
    yield from known("window_seconds", (), state.window_s)
    yield from _problems(state.problems)
    if system.ttft.status in ("ok", "no_data"):
        yield from _percentiles("system_ttft", (), system.ttft.mean, system.ttft.count, system.ttft.quantiles)
    if system.ttft.mean is not None:
        yield from known("system_ttft_source", (system.ttft.source,), 1)
    yield from from_table(_SYSTEM, (), system)
    if system.contract_share is not None:
        yield from known("system_contract_share_low_ratio", (), system.contract_share.low)
        yield from known("system_contract_share_high_ratio", (), system.contract_share.high)
    if system.legs is not None:
        yield from known("system_legs", ("prefill",), system.legs.prefill)
        yield from known("system_legs", ("decode",), system.legs.decode)


def _problems(problems: Iterable[ProblemState]) -> Iterator[Sample]:
    """Several problems may differ in their text alone (two metrics missing on one target): they are one series."""
    series = dict.fromkeys(
        (
            problem.code,
            problem.severity,
            problem.pool or "system",
            problem.target or "",
            problem.engine or "",
            problem.process or "",
        )
        for problem in problems
    )
    for labels in series:
        yield from known("problem", labels, 1)


_VERDICT = table(
    "objective_",
    {"target": "target", "value": "value", "value_low": "low", "value_high": "high", "observations": "count"},
)


def _objectives(verdicts: Iterable[VerdictState]) -> Iterator[Sample]:
    for verdict in verdicts:
        at = (verdict.objective, verdict.scope)
        yield from from_table(_VERDICT, at, verdict)
        yield from known("objective_verdict", (*at, verdict.verdict), 1)
        yield from known("objective_status", (*at, verdict.status), 1)
        if verdict.status in ("pending", "firing") and verdict.cause is not None:
            code, text = str(verdict.cause.get("code") or ""), str(verdict.cause.get("text") or "")
            yield from known("cause_info", (*at, code, _shortened(text)), 1)


def _shortened(text: str) -> str:
    """A label's value: what the annotation of one alert needs, and no more than every series can carry."""
    return text if len(text) <= MOST_CAUSE_CHARACTERS else text[: MOST_CAUSE_CHARACTERS - 3].rstrip() + "..."


def _pool(name: str, pool: PoolState) -> Iterator[Sample]:
    at = (name,)
    yield from known("pool_info", (name, pool.role), 1)
    yield from from_table(_POOL, at, pool)
    transfer, load = pool.kv_transfer, pool.load
    for latency, found in {**pool.latency, "kv_transfer": transfer.time, "kv_post": transfer.post_time}.items():
        if found.status in ("ok", "no_data"):
            word = f"pool_{LATENCIES[latency][0]}"
            yield from _percentiles(word, at, found.mean, found.count, found.quantiles)
    if pool.speculation is not None:
        yield from known("pool_acceptance_ratio", at, pool.speculation.acceptance_rate)
        yield from known("pool_acceptance_length_tokens", at, pool.speculation.acceptance_length)
        for position, share in enumerate(pool.speculation.per_position):
            yield from known("pool_acceptance_by_position_ratio", (name, str(position)), share)
        for position, share in enumerate(pool.speculation.conditional_per_position):
            yield from known("pool_conditional_acceptance_ratio", (name, str(position)), share)
    yield from known("pool_requests_waiting_by_reason", (name, "capacity"), load.waiting_capacity)
    yield from known("pool_requests_waiting_by_reason", (name, "deferred"), load.waiting_deferred)
    for stage in ("waiting_to_start", "in_progress", "completed_waiting"):
        yield from known("pool_requests_kv_fetch", (name, stage), getattr(load.kv_fetch, stage))


def _percentiles(
    word: str, labels: tuple[str, ...], mean: float | None, count: int | None, quantiles: Mapping[str, Quantile | None]
) -> Iterator[Sample]:
    yield from known(f"{word}_mean_seconds", labels, mean)
    yield from known(f"{word}_observations", labels, count)
    for key, percentile in PERCENTILES:
        quantile = quantiles.get(key)
        if quantile is not None:
            at = (*labels, percentile)
            yield from known(f"{word}_percentile_seconds", at, quantile.value)
            yield from known(f"{word}_percentile_low_seconds", at, quantile.low)
            yield from known(f"{word}_percentile_high_seconds", at, quantile.high)


def _target(labels: tuple[str, str], target: TargetState) -> Iterator[Sample]:
    yield from from_table(_TARGET, labels, target)
    for reason, count in target.failures.items():
        yield from known("target_scrape_failures_total", (*labels, reason), count)


def _engine(labels: tuple[str, str, str], engine: EngineState) -> Iterator[Sample]:
    for latency, metric in _ENGINE_MEANS.items():
        found: Distribution | None = engine.latency.get(latency)
        if found is not None and found.mean is not None:
            yield Sample(metric, labels, found.mean)
    if engine.speculation is not None and engine.speculation.acceptance_length is not None:
        yield Sample(_ACCEPTANCE_LENGTH, labels, engine.speculation.acceptance_length)
    yield from from_table(_ENGINE, labels, engine)


def _memory(state: State) -> Iterator[Sample]:
    """Processes of one title on one target are one series: their bytes added, the nearest limit, the gravest trend."""
    pool_of = {target: name for name, pool in state.pools.items() for target in pool.targets}
    alike: dict[tuple[str, str, str, str], list[MemoryState]] = {}
    for process in state.memory:
        labels = (pool_of.get(process.target, ""), process.target, process.engine or "", process.title)
        alike.setdefault(labels, []).append(process)
    for labels, processes in alike.items():
        yield from known("memory_rss_bytes", labels, _added(p.rss_bytes for p in processes))
        yield from known("memory_anonymous_bytes", labels, _added(p.anon_bytes for p in processes))
        yield from known("memory_swap_bytes", labels, _added(p.swap_bytes for p in processes))
        yield from known("memory_limit_bytes", labels, _least(p.limit_bytes for p in processes))
        slopes: list[Bounded] = [p.slope_bytes_per_hour for p in processes]
        yield from known("memory_slope_bytes_per_hour", labels, _added(s.value for s in slopes))
        yield from known("memory_slope_low_bytes_per_hour", labels, _added(s.low for s in slopes))
        yield from known("memory_slope_high_bytes_per_hour", labels, _added(s.high for s in slopes))
        left: list[Bounded] = [p.hours_to_limit for p in processes]
        yield from known("memory_time_to_limit_seconds", labels, _seconds(_least(h.value for h in left)))
        yield from known("memory_time_to_limit_low_seconds", labels, _seconds(_least(h.low for h in left)))
        gravest = max((p.trend for p in processes), key=_TRENDS.index)
        yield from known("memory_trend", (*labels, gravest), 1)


_TRENDS = ("unknown", "warming", "steady", "growing", "leaking")


def _added(values: Iterable[float | None]) -> float | None:
    """None as soon as one is unknown: a sum that lacks a process would look like less memory."""
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


def _seconds(hours: float | None) -> float | None:
    return None if hours is None else hours * 3600.0
