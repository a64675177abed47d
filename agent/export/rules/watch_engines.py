"""Work that does not move. In: a pool. Out: rules on frozen engines, pinned caches, stalled KV, slow ranks.

Gauges freeze with the engine that feeds them, so a gauge proves nothing alone: a rule also needs counters that are
there and did not move. A series that is missing is no standstill, and neither are two pages of an engine that
Prometheus did not see before: the stretch must have begun under its eyes.
"""

from __future__ import annotations

from collections.abc import Iterator

from agent.config import Pool
from agent.export.rules.identity import Identity
from agent.export.rules.model import Alert, Recording, Rule
from agent.export.rules.promql import all_of, any_of, matcher, number, span, unless
from agent.export.rules.thresholds import (
    DECODE_FROZEN_SECONDS,
    GAP_SECONDS,
    KV_FULL_RATIO,
    KV_PINNED_SECONDS,
    KV_STALLED_SECONDS,
    LEAST_EXPECTED_OF_ENGINE,
    LEAST_RANKS,
    LEAST_STEPS_OF_RANK,
    PREFILL_FROZEN_SECONDS,
    SLOW_RANK_FACTOR,
    WINDOW_SECONDS,
)
from agent.export.rules.vllm_source import ENGINE, VllmSource
from agent.export.rules.watch import watch_alert

PROGRESS = ("generation_tokens", "requests_finished", "ttft_count", "itl_count")
"""Whatever an engine does moves one of these: prompts end in a first token, requests in a finish."""


def engine_rules(source: VllmSource, identity: Identity, pool: Pool) -> Iterator[Rule]:
    """All rules of one pool on its engines."""
    engines = _Engines(source, identity, pool)
    yield engines.frozen()
    yield engines.pinned()
    yield engines.silent()
    if pool.role != "prefill":
        yield engines.stalled()
        yield from engines.slow_ranks()


class _Engines:
    def __init__(self, source: VllmSource, identity: Identity, pool: Pool) -> None:
        self._source, self._identity, self._pool = source, identity, pool
        self._pools = (pool.name,)

    def frozen(self) -> Alert:
        seconds = PREFILL_FROZEN_SECONDS if self._pool.role == "prefill" else DECODE_FROZEN_SECONDS
        running = f"{self._least('running', seconds)} > 0"
        waiting = unless(
            f"{self._waiting(seconds)} > 0",
            f"{self._least('kv_usage', seconds)} >= {number(KV_FULL_RATIO)}",
            on=ENGINE,
        )
        return watch_alert(
            self._identity,
            "engine_frozen",
            self._pool.name,
            self._while_still(any_of(running, waiting), seconds),
            severity="critical",
            description=f"Engine %engine% of target %target% (pool {self._pool.name}) has %value% requests and gave "
            f"not one token for {span(seconds)}. /health may still answer 200.",
            cause="Possible: a hung collective or CUDA call, a deadlocked scheduler, a stopped EngineCore process.",
            says=f"fires after {number(seconds // 60)} min of work on every page in which no counter moved",
        )

    def pinned(self) -> Alert:
        seconds = KV_PINNED_SECONDS
        full = f"{self._least('kv_usage', seconds)} >= {number(KV_FULL_RATIO)}"
        idle = f"max by (target, engine) ({self._gauge('max_over_time', 'running', seconds)}) == 0"
        condition = all_of(full, idle, f"{self._waiting(seconds)} > 0", on=ENGINE)
        return watch_alert(
            self._identity,
            "kv_pinned",
            self._pool.name,
            self._while_still(condition, seconds),
            description=f"The KV cache of engine %engine% of target %target% (pool {self._pool.name}) is "
            "%value:percent% full, nothing runs, and requests wait: hand-overs that were never fetched pin its blocks.",
            cause="Possible: decode that died or lags and leaves its leases to run out, a router that gave up.",
            says=f"fires after {number(seconds // 60)} min with a full cache, nothing running and requests waiting",
        )

    def silent(self) -> Alert:
        """An engine that hung while it was idle shows no work, and what is sent to it waits unseen."""
        begun = self._engines("ttft_count", WINDOW_SECONDS)
        quiet = all_of(f"{begun} == 0", f"avg({begun}) >= {LEAST_EXPECTED_OF_ENGINE}", f"count({begun}) > 1")
        return watch_alert(
            self._identity,
            "engine_silent",
            self._pool.name,
            all_of(quiet, f"max by (target) ({self._source.up(self._pools)}) == 1", on=("target",)),
            description=f"Engine %engine% of target %target% (pool {self._pool.name}) began no request in the last "
            f"{span(WINDOW_SECONDS)}, while its siblings began many.",
            cause="Possible: it hung while idle, or the router sends nothing there.",
            says=f"fires when an engine began none in 5m where {LEAST_EXPECTED_OF_ENGINE} were its share, held for 5m",
        )

    def stalled(self) -> Alert:
        seconds = KV_STALLED_SECONDS
        waits = any_of(
            f"{self._least('kv_fetch', seconds, matcher('stage', 'in_progress'))} > 0",
            f"{self._least('waiting_by_reason', seconds, matcher('reason', 'deferred'))} > 0",
        )
        none_began = all_of(
            waits, f"{self._engines('ttft_count', seconds)} == 0", self._seen_before(seconds), on=ENGINE
        )
        return watch_alert(
            self._identity,
            "kv_stalled",
            self._pool.name,
            unless(none_began, f"{self._engines('kv_transfer_count', seconds)} > 0", on=ENGINE),
            severity="critical",
            # On an engine that is told as frozen, requests wait for it and not for KV: that is one incident.
            behind=self._identity.firing("engine_frozen", self._pool.name),
            description=f"%value% requests or more wait for KV on engine %engine% of target %target% (pool "
            f"{self._pool.name}), and no transfer has completed for {span(seconds)}.",
            cause="Possible: prefill gone or restarted with old handshakes, a broken network path, hung transfers.",
            says="fires after 1.5 min in which requests waited for KV on every page and none got it",
        )

    def slow_ranks(self) -> Iterator[Rule]:
        name = f"engine:vllm_itl_seconds:mean{span(WINDOW_SECONDS)}"
        steps = self._engines("itl_count", WINDOW_SECONDS)
        mean = f"{self._engines('itl_sum', WINDOW_SECONDS)} / ({steps} >= {LEAST_STEPS_OF_RANK})"
        yield Recording(name, mean, self._identity.deployment | {"pool": self._pool.name})
        each = f"{name}{self._source.selector(self._pools)}"
        per_engine = f"max by (target, engine) ({each})"
        slower = f"{per_engine} > on () group_left () ({number(SLOW_RANK_FACTOR)} * quantile(0.5, {each}))"
        yield watch_alert(
            self._identity,
            "rank_slow",
            self._pool.name,
            all_of(slower, f"count({each}) >= {LEAST_RANKS}"),
            description=f"Steps of engine %engine% of target %target% take %value:seconds%, over "
            f"{number(SLOW_RANK_FACTOR)} times the middle rank of pool {self._pool.name}.",
            cause="Possible: a throttled or degraded GPU, a noisy neighbour, uneven routing of long contexts.",
            says=f"fires when steps took over {number(SLOW_RANK_FACTOR)} times the middle rank's in 5m, held for 5m",
        )

    def _while_still(self, condition: str, seconds: float) -> str:
        """The condition where every counter of progress is on the page and none of them moved."""
        still = [f"{self._engines(metric, seconds)} == 0" for metric in PROGRESS if self._has(metric)]
        return all_of(condition, *still, self._seen_before(seconds), on=ENGINE)

    def _seen_before(self, seconds: float) -> str:
        """Something for every engine that had a page before the last `seconds`, or missed no more than a few there."""
        shown = self._source.gauge("last_over_time", "running", self._pools, GAP_SECONDS, offset_seconds=seconds)
        return f"max by (target, engine) ({shown})"

    def _has(self, metric: str) -> bool:
        return metric != "itl_count" or self._pool.role != "prefill"

    def _waiting(self, seconds: float) -> str:
        """Requests that wait for room; those that wait for KV are no standstill of the engine."""
        of_capacity = self._least("waiting_by_reason", seconds, matcher("reason", "capacity"))
        return f"({any_of(of_capacity, self._least('waiting', seconds))})"

    def _least(self, metric: str, seconds: float, *more: str) -> str:
        return f"min by (target, engine) ({self._gauge('min_over_time', metric, seconds, *more)})"

    def _gauge(self, function: str, metric: str, seconds: float, *more: str) -> str:
        return self._source.gauge(function, metric, self._pools, seconds, *more)

    def _engines(self, metric: str, seconds: float) -> str:
        return f"sum by (target, engine) ({self._source.increase(metric, self._pools, seconds)})"
