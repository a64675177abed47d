"""Queues, bottlenecks, and steps that got longer. In: pools. Out: rules on load.

The pool that complains is often not the one that is short, so both ends of the hand-over are read together.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from agent.config import Config, Pool
from agent.export.rules.identity import Identity
from agent.export.rules.model import Alert
from agent.export.rules.promql import all_of, any_of, matcher, number, unless
from agent.export.rules.thresholds import (
    FULL_RATIO,
    GROWING_MINUTES,
    GROWN_FACTOR,
    LEAST_RANKS,
    LEAST_STEPS_A_MINUTE,
    LEAST_WAITING,
    SAME_LOAD_FACTOR,
    SKEW_RATIO,
    STEP_AFTER_SECONDS,
    STEP_BEFORE_SECONDS,
    STEP_FACTOR,
    STEP_SHOWN_SECONDS,
    WINDOW_SECONDS,
)
from agent.export.rules.vllm_source import VllmSource
from agent.export.rules.watch import watch_alert

CAPACITY, DEFERRED = matcher("reason", "capacity"), matcher("reason", "deferred")


def load_alerts(config: Config, source: VllmSource, identity: Identity, pool: Pool) -> Iterator[Alert]:
    """All rules of one pool on its load."""
    load = _Load(config, source, identity, pool)
    yield load.queue()
    yield load.imbalance()
    if pool.role != "prefill":
        yield load.step_change()


class _Load:
    def __init__(self, config: Config, source: VllmSource, identity: Identity, pool: Pool) -> None:
        self._config, self._source, self._identity, self._pool = config, source, identity, pool
        self._pools = (pool.name,)

    def queue(self) -> Alert:
        return watch_alert(
            self._identity,
            "queue_buildup",
            self._pool.name,
            self._growing(self._pool.name),
            description=f"The queue of pool {self._pool.name} grows by the minute: %value% requests wait per engine.",
            cause="Possible: more load than the pool can take, missing engines, longer prompts.",
            says=f"fires when waiting requests grew in {GROWING_MINUTES} minutes in a row, held for 5m",
        )

    def imbalance(self) -> Alert:
        w = WINDOW_SECONDS
        name = self._pool.name
        conditions = [self._skew()]
        prefill = [pool.name for pool in self._config.pools if pool.role == "prefill"]
        decode = [pool.name for pool in self._config.pools if pool.role == "decode"]
        usage = f"avg({self._source.gauge('avg_over_time', 'kv_usage', self._pools, w)})"
        if self._pool.role == "decode" and prefill:
            deferred = self._source.gauge("avg_over_time", "waiting_by_reason", self._pools, w, DEFERRED)
            conditions.append(all_of(f"{usage} >= {number(FULL_RATIO)}", f"avg({deferred}) > 0"))
        elif self._pool.role == "prefill" and decode:
            free = f"max({self._source.gauge('avg_over_time', 'kv_usage', decode, w)}) < {number(FULL_RATIO)}"
            conditions.append(all_of(f"({self._growing(name)}) * 0 + on () {usage}", free))
        says = {
            "decode": "decode's cache is full while requests wait to bring their KV in",
            "prefill": "prefill's queue grows while decode has room",
            "both": "one engine is nearly full while its pool is nearly empty",
        }[self._pool.role]
        return watch_alert(
            self._identity,
            "pool_imbalance",
            name,
            f"max({any_of(*conditions)})",
            description=f"Pool {name} bounds the deployment, or one engine bounds the pool: {says} (KV in use "
            "%value:percent%).",
            cause="Possible: too few servers of this role, longer answers or prompts than planned for, uneven routing.",
            says=f"fires when {says}, or one engine is over {number(FULL_RATIO * 100)} % full in a pool under "
            f"{number(SKEW_RATIO * 100)} %, held for 5m",
        )

    def step_change(self) -> Alert:
        before, after = STEP_BEFORE_SECONDS, STEP_AFTER_SECONDS
        ratio = f"{self._steps(after, 0)} / ({self._steps(before, after)} > 0)"
        last_minute = f"{self._steps(60, 0)} / ({self._steps(before, after)} > 0)"
        enough = f"{self._counted('itl_count', after, 0)} >= {LEAST_STEPS_A_MINUTE * after // 60}"
        enough_before = f"{self._counted('itl_count', before, after)} >= {LEAST_STEPS_A_MINUTE * before // 60}"
        # Requests running are no measure of the load here: slower steps keep each request longer in the batch.
        begun, begun_before = self._a_minute("ttft_count", after, 0), self._a_minute("ttft_count", before, after)
        busier = f"{begun} > {number(SAME_LOAD_FACTOR)} * {begun_before} + 3 * sqrt({begun_before})"
        prompts, prompts_before = self._prompts(after, 0), self._prompts(before, after)
        longer = f"{prompts} > {number(SAME_LOAD_FACTOR)} * {prompts_before}"
        factor = number(STEP_FACTOR)
        jumped = all_of(f"{ratio} > {factor}", f"{last_minute} > {factor}", enough, enough_before)
        return watch_alert(
            self._identity,
            "latency_step_change",
            self._pool.name,
            unless(jumped, busier, longer),
            description=f"Steps of pool {self._pool.name} take %value% times as long as minutes ago, at the same load.",
            cause="Possible: decode batches outside CUDA graphs, a throttled GPU, another process on the host.",
            says=f"fires when steps of 3m take over {factor} times those of the 10m before, at like load, held for 2m",
            held_seconds=STEP_AFTER_SECONDS,
            keep_seconds=STEP_SHOWN_SECONDS,
        )

    def _skew(self) -> str:
        usage = self._source.gauge("avg_over_time", "kv_usage", self._pools, WINDOW_SECONDS)
        return all_of(
            f"max({usage}) >= {number(FULL_RATIO)}",
            f"avg({usage}) < {number(SKEW_RATIO)}",
            f"count({usage}) >= {LEAST_RANKS}",
        )

    def _growing(self, pool: str) -> str:
        """Requests waiting for room per engine now, where they only grew over the last minutes."""
        levels = [self._waiting(pool, minute) for minute in range(GROWING_MINUTES)]
        rises = [f"{later} > {earlier}" for later, earlier in pairwise(levels[1:])]
        return all_of(
            f"{levels[0]} > {levels[1]}",
            *rises,
            f"{levels[0]} >= {LEAST_WAITING}",
            f"{levels[0]} > {number(GROWN_FACTOR)} * {levels[-1]}",
        )

    def _waiting(self, pool: str, minutes_ago: int) -> str:
        offset = 60 * minutes_ago
        by_reason = self._source.gauge(
            "avg_over_time", "waiting_by_reason", (pool,), 60, CAPACITY, offset_seconds=offset
        )
        whole = self._source.gauge("avg_over_time", "waiting", (pool,), 60, offset_seconds=offset)
        return f"(avg({by_reason}) or avg({whole}))"

    def _steps(self, window_seconds: float, ago_seconds: float) -> str:
        counted = self._counted("itl_count", window_seconds, ago_seconds)
        return f"({self._counted('itl_sum', window_seconds, ago_seconds)} / ({counted} > 0))"

    def _counted(self, metric: str, window_seconds: float, ago_seconds: float) -> str:
        return f"sum({self._source.increase(metric, self._pools, window_seconds, offset_seconds=ago_seconds)})"

    def _a_minute(self, metric: str, window_seconds: float, ago_seconds: float) -> str:
        return f"({self._counted(metric, window_seconds, ago_seconds)} / {number(window_seconds / 60)})"

    def _prompts(self, window_seconds: float, ago_seconds: float) -> str:
        """Mean prompt length of the requests that finished."""
        tokens, requests = (
            self._counted(f"prompt_tokens_histogram_{part}", window_seconds, ago_seconds) for part in ("sum", "count")
        )
        return f"({tokens} / ({requests} > 0))"
