"""What the traffic itself shows to be wrong. In: a pool, or the system. Out: rules on leases, failures, errors, roles.

Counts that rose stand while they stand in the window; shares need enough requests to be shares of something.
"""

from __future__ import annotations

from collections.abc import Iterator

from agent.config import Config, Pool
from agent.export.rules.failures import bad, failure_recordings, seen
from agent.export.rules.identity import Identity
from agent.export.rules.model import Alert, Rule
from agent.export.rules.promql import all_of, any_of, matcher, number, span, unless
from agent.export.rules.thresholds import (
    ERROR_RATIO,
    FETCHED_RATIO,
    LEAST_EXPECTED,
    LEAST_REQUESTS,
    ONE_TOKEN_RATIO,
    QUIET_SECONDS,
    UNMATCHED_RATIO,
    WINDOW_SECONDS,
)
from agent.export.rules.vllm_source import ONE_TOKEN, VllmSource
from agent.export.rules.watch import watch_alert

DAY_SECONDS = 86400


def traffic_rules(source: VllmSource, identity: Identity, pool: Pool) -> Iterator[Rule]:
    """All rules of one pool on its traffic."""
    traffic = _Traffic(source, identity, pool)
    yield from failure_recordings(source, identity, pool.name, WINDOW_SECONDS)
    yield traffic.errors()
    yield traffic.vanished()
    yield traffic.expired()
    yield traffic.failed_transfers()
    if pool.role == "decode":
        yield traffic.recompute()
    if pool.role != "both":
        yield traffic.role()


class _Traffic:
    def __init__(self, source: VllmSource, identity: Identity, pool: Pool) -> None:
        self._source, self._identity, self._pool = source, identity, pool
        self._pools = (pool.name,)

    def errors(self) -> Alert:
        failed = bad(self._source, self._pools, WINDOW_SECONDS, "high")
        of = seen(self._source, self._pools, WINDOW_SECONDS, "high")
        return watch_alert(
            self._identity,
            "errors_high",
            self._pool.name,
            all_of(f"{failed} / ({of} > 0) > {number(ERROR_RATIO)}", f"{of} >= {LEAST_REQUESTS}"),
            severity="critical",
            description=f"%value:percent% of the requests of pool {self._pool.name} went wrong in the last "
            f"{span(WINDOW_SECONDS)} (finish reason error, answers 5xx, refused at admission).",
            cause="Possible: KV loads that fail, an engine that died, admission limits, more than servers can take.",
            says=f"fires 2 min after over {number(ERROR_RATIO * 100)} % of {LEAST_REQUESTS} or more failed in 5m",
        )

    def vanished(self) -> Alert:
        w = QUIET_SECONDS
        now = [f"{self._summed('requests_finished', w)} == 0", f"{self._summed('ttft_count', w)} == 0"]
        before = [self._expected(day) for day in (1, 2)]
        quiet = all_of(now[0], now[1], f"{before[0]} >= {LEAST_EXPECTED}")
        working = f"sum({self._source.gauge('max_over_time', 'running', self._pools, w)}) > 0"
        return watch_alert(
            self._identity,
            "traffic_vanished",
            self._pool.name,
            unless(quiet, f"{before[1]} < {LEAST_EXPECTED}", working),
            severity="critical",
            description=f"No request has finished or begun on pool {self._pool.name} for {span(w)}; at this hour "
            f"there were at least {LEAST_EXPECTED} on earlier days.",
            cause="Possible: the router or what stands before it is down, DNS, an expired certificate, a holiday.",
            says=f"fires after {w // 60} min without requests where one and two days ago were {LEAST_EXPECTED} or more",
        )

    def expired(self) -> Alert:
        return watch_alert(
            self._identity,
            "kv_expired",
            self._pool.name,
            f"{self._summed('kv_expired', WINDOW_SECONDS)} > 0",
            description=f"%value% KV leases ran out on pool {self._pool.name} before decode had read them (counted by "
            "every tensor-parallel rank); the answers may be wrong though they count as successes.",
            cause="Possible: decode queues longer than the lease, decode that died, lost heartbeats.",
            says="fires 3 min after the first lease that ran out, and stands while one is in the last 5m",
        )

    def failed_transfers(self) -> Alert:
        return watch_alert(
            self._identity,
            "transfer_failures",
            self._pool.name,
            f"{self._summed('kv_failed_transfers', WINDOW_SECONDS)} > 0",
            description=f"%value% KV transfers failed on pool {self._pool.name} in the last {span(WINDOW_SECONDS)}.",
            cause="Possible: a network fault between the pools, a prefill server that restarted, expired leases.",
            says="fires when transfers keep failing for 5 min",
        )

    def recompute(self) -> Alert:
        local = self._source.increase(
            "prompt_tokens_by_source", self._pools, WINDOW_SECONDS, matcher("source", "local_compute")
        )
        return watch_alert(
            self._identity,
            "local_recompute",
            self._pool.name,
            f"sum({local}) > 0",
            description=f"Decode pool {self._pool.name} computed %value% prompt tokens itself in the last "
            f"{span(WINDOW_SECONDS)}: their KV did not come from prefill.",
            cause="Possible: kv_load_failure_policy recompute, requests that bypass prefill, preempted requests.",
            says="fires when decode computes prompt tokens itself for 5 min",
        )

    def role(self) -> Alert:
        name = self._pool.name
        if self._pool.role == "decode":
            single = f"sum({self._increase('generation_tokens_histogram_bucket', ONE_TOKEN)})"
            of = f"sum({self._increase('generation_tokens_histogram_count')})"
            condition = all_of(f"{single} / ({of} > 0) >= {number(ONE_TOKEN_RATIO)}", f"{of} >= {LEAST_REQUESTS}")
            said = f"All requests of decode pool {name} had one token, as prefill legs have: is its role right?"
        else:
            done = self._summed("requests_finished", WINDOW_SECONDS)
            fetched = f"sum({self._increase('prompt_tokens_by_source', matcher('source', 'external_kv_transfer'))})"
            prompts = self._summed("prompt_tokens", WINDOW_SECONDS)
            condition = all_of(
                any_of(
                    f"{fetched} / ({prompts} > 0) > {number(FETCHED_RATIO)}",
                    f"{self._summed('itl_count', WINDOW_SECONDS)} > {done}",
                ),
                f"{done} >= {LEAST_REQUESTS}",
            )
            said = f"Requests of prefill pool {name} do what decode does (steps after the first token, KV taken in)."
        return watch_alert(
            self._identity,
            "role_mismatch",
            name,
            condition,
            description=said,
            cause="Possible: pools exchanged in the scrape configuration or in the router, a wrong role.",
            says=f"fires when {LEAST_REQUESTS} or more requests in 5m look like the other role's, held for 5m",
        )

    def _expected(self, day: int) -> str:
        begun = self._source.increase("ttft_count", self._pools, QUIET_SECONDS, offset_seconds=day * DAY_SECONDS)
        return f"sum({begun})"

    def _increase(self, metric: str, *more: str) -> str:
        return self._source.increase(metric, self._pools, WINDOW_SECONDS, *more)

    def _summed(self, metric: str, window_seconds: float) -> str:
        return f"sum({self._source.increase(metric, self._pools, window_seconds)})"


def legs_unmatched(config: Config, source: VllmSource, identity: Identity) -> Iterator[Alert]:
    """Prefill legs without decode legs, where the deployment has both."""
    prefill = [pool.name for pool in config.pools if pool.role == "prefill"]
    decode = [pool.name for pool in config.pools if pool.role == "decode"]
    if not prefill or not decode:
        return
    ended = f"sum({source.increase('requests_finished', prefill, WINDOW_SECONDS)})"
    begun = f"sum({source.increase('ttft_count', decode, WINDOW_SECONDS)})"
    yield watch_alert(
        identity,
        "legs_unmatched",
        "system",
        all_of(f"({ended} - {begun}) / ({ended} > 0) > {number(UNMATCHED_RATIO)}", f"{ended} >= {LEAST_REQUESTS}"),
        description=f"%value:percent% of the prefill legs of the last {span(WINDOW_SECONDS)} had no decode leg.",
        cause="Possible: clients that give up while they wait, hand-overs that decode refuses, retries of the proxy.",
        says=f"fires when over {number(UNMATCHED_RATIO * 100)} % of {LEAST_REQUESTS} or more prefill legs in 5m had no "
        "decode leg, held for 5m",
    )
