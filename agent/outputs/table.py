"""The state as text for a terminal. In: a `State`. Out: lines, at most 100 columns wide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from agent.outputs import numbers
from agent.state import PoolState, State
from agent.verdicts.wording import duration, plural

_LATENCIES = ("ttft", "tpot", "itl", "queue", "prefill", "decode", "e2e")


def state_table(state: State) -> str:
    """Headline numbers per pool, then what is wrong."""
    return "\n".join(_lines(state))


def _lines(state: State) -> Iterator[str]:
    at = datetime.fromtimestamp(state.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    yield f"{at}, over {duration(state.window_s)}"
    ttft = state.system.ttft
    legs = f"{numbers.seconds(ttft.parts.prefill_leg)} prefill leg + {numbers.seconds(ttft.parts.kv_and_decode_leg)}"
    yield f"system  TTFT mean {numbers.seconds(ttft.mean)} ({ttft.source}: {legs} KV and decode leg)"
    for name, pool in state.pools.items():
        yield ""
        yield from _pool(name, pool)
    if state.memory:
        yield ""
        rows = [(m.target, m.title, numbers.size(m.rss_bytes), m.trend) for m in state.memory]
        yield from _columns([("memory", "process", "RSS", "trend"), *rows])
    yield ""
    yield "problems" if state.problems else "no problems"
    for problem in state.problems:
        yield f"  {problem.severity:8} {problem.code}: {problem.text}"


def _pool(name: str, pool: PoolState) -> Iterator[str]:
    up = sum(target.up for target in pool.targets.values())
    yield f"pool {name} ({pool.role}), {up} of {plural(len(pool.targets), 'target')} up"
    rows: list[tuple[str, ...]] = [("", "mean", "p50", "p95", "p99", "count")]
    found = {**{key: pool.latency[key] for key in _LATENCIES}, "kv transfer": pool.kv_transfer.time}
    for key, dist in found.items():
        if dist.status == "ok":
            percentiles = (numbers.quantile(dist.quantiles.get(q)) for q in ("0.5", "0.95", "0.99"))
            mean = numbers.seconds(dist.mean) if dist.mean is not None else numbers.why_unknown(dist)
            rows.append((key, mean, *percentiles, str(dist.count)))
    if len(rows) > 1:
        yield from _columns(rows)
    flow, load = pool.throughput, pool.load
    yield (
        f"  {numbers.per_second(flow.requests_per_s, 'requests')}, "
        f"{numbers.per_second(flow.prompt_tokens_per_s, 'prompt tokens')}, "
        f"{numbers.per_second(flow.generation_tokens_per_s, 'generated tokens')}, "
        f"running {numbers.count(load.running)}, waiting {numbers.count(load.waiting)}"
    )
    if pool.speculation is not None and pool.speculation.acceptance_length is not None:
        rate = numbers.share(pool.speculation.acceptance_rate)
        yield f"  acceptance length {pool.speculation.acceptance_length:.3f}, rate {rate}"


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
