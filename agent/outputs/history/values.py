"""What of a state is kept for a day. In: a state. Out: values by pool, objective and process, never by engine.

A name is "<indicator>/<scope>". Ten thousand engines make no more series than one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from agent.outputs.history.thinning import Row
from agent.state import LATENCIES, MemoryState, PoolState, State, VerdictState
from agent.verdicts.failures import Failures

OBJECTIVE, MEMORY = "objective", "memory"
MOST_SERIES = 1000
"""Of one state; what is more is left out."""
MOST_PROCESSES = 200
MOST_NAME_LENGTH = 250

Named = tuple[str, Row]


def is_averaged(name: str) -> bool:
    """The mean over time is right. An objective may be of a percentile, which is never averaged."""
    return not name.startswith(f"{OBJECTIVE}/")


def values_of(state: State, remembered: Iterable[str] = ()) -> dict[str, Row]:
    """Everything that is kept of one state. `remembered`: processes that are preferred when there are too many."""
    found = dict(islice(_all(state, set(remembered)), MOST_SERIES))
    return {name[:MOST_NAME_LENGTH]: row for name, row in found.items()}


def _all(state: State, remembered: set[str]) -> Iterator[Named]:
    at, system = state.at, state.system
    if system.ttft.status in ("ok", "no_data"):
        yield "ttft/system", _exact(at, system.ttft.mean, system.ttft.count)
    if system.goodput_tokens_per_s_per_gpu is not None:
        yield "goodput/system", _exact(at, system.goodput_tokens_per_s_per_gpu)
    for verdict in state.verdicts:
        if verdict.verdict != "not_applicable":
            yield f"{OBJECTIVE}/{verdict.objective}/{verdict.scope}", _of_verdict(at, verdict)
    for name, pool in state.pools.items():
        for indicator, row in _of_pool(at, pool):
            yield f"{indicator}/{name}", row
    yield from _of_processes(at, state.memory, remembered)


def _of_pool(at: float, pool: PoolState) -> Iterator[Named]:
    latencies = {name: dist for name in LATENCIES if (dist := pool.latency.get(name)) is not None}
    for indicator, dist in {**latencies, "kv_transfer": pool.kv_transfer.time}.items():
        if dist.status in ("ok", "no_data"):
            yield indicator, _exact(at, dist.mean, dist.count)
    if (tpot := latencies.get("tpot")) is not None and tpot.status in ("ok", "no_data"):
        yield "tpot_token", _exact(at, pool.tpot_token_mean)
    if pool.speculation is not None:
        drafting = pool.speculation
        yield "acceptance_length", _exact(at, drafting.acceptance_length, drafting.drafts)
        yield "acceptance_rate", _exact(at, drafting.acceptance_rate, drafting.draft_tokens)
    yield "requests_running", _exact(at, pool.load.running)
    yield "requests_waiting", _exact(at, pool.load.waiting)
    yield "kv_usage_max", _exact(at, pool.load.kv_usage_max)
    yield "requests_per_s", _exact(at, pool.throughput.requests_per_s)
    yield "generation_tokens_per_s", _exact(at, pool.throughput.generation_tokens_per_s)
    if pool.outcomes:
        yield "errors", _errors(at, pool.outcomes, pool.http)


def _errors(at: float, outcomes: Mapping[str, int], http: Mapping[str, int]) -> Row:
    """Share of requests that failed, bounded as the verdicts bound it (`agent/verdicts/failures.py`)."""
    done, failed = sum(outcomes.values()), outcomes.get("error", 0)
    answered = max(http.get("5xx", 0), http.get("admission_rejected", 0))
    found = Failures(max(failed, answered), failed + answered, done + max(0, answered - failed), done + answered)
    if found.seen_high <= 0:
        return Row(at, None, None, None, 0.0)
    share = found.share()
    return Row(at, share.value, share.low, share.high, found.seen_high)


def _of_verdict(at: float, verdict: VerdictState) -> Row:
    low = verdict.low if verdict.low is not None else verdict.value
    high = verdict.high if verdict.high is not None or verdict.low is not None else verdict.value
    return Row(at, _finite(verdict.value), _finite(low), _finite(high), float(verdict.count))


def _of_processes(at: float, memory: Sequence[MemoryState], remembered: set[str]) -> Iterator[Named]:
    """Anonymous bytes by target and title. Processes of one title count together; unknown when one of them is."""
    together: dict[str, list[MemoryState]] = {}
    for process in memory:
        together.setdefault(f"{MEMORY}/{process.target}/{process.title}"[:MOST_NAME_LENGTH], []).append(process)
    if len(together) > MOST_PROCESSES:
        first = sorted(together, key=lambda name: (name not in remembered, -_weight(together[name])))
        together = {name: together[name] for name in first[:MOST_PROCESSES]}
    for name, processes in together.items():
        sizes = [process.anon_bytes for process in processes]
        total = sum(size for size in sizes if size is not None)
        yield name, _exact(at, None if None in sizes else float(total))


def _weight(processes: Sequence[MemoryState]) -> float:
    size = float(sum(process.anon_bytes or 0 for process in processes))
    return math.inf if any(process.severity for process in processes) else size


def _exact(at: float, value: float | None, count: int | None = None) -> Row:
    """A number without an interval: it bounds itself."""
    value = _finite(value)
    return Row(at, value, value, value, None if count is None else float(count))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
