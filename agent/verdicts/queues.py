"""Queues and which pool bounds the other: the pools' load over the window comes in, problems go out.

The pool that complains is often not the one that is short: prefill queues when decode is full and fetches nothing. So
both pools are read together, and one problem names the bottleneck.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from agent.indicators.pools import PoolFacts
from agent.model import Problem
from agent.verdicts.wording import percent
from agent.windows.history import PoolHistory

FULL_SHARE = 0.9
SKEW_SHARE = 0.5
GROWING_MINUTES = 4
LEAST_WAITING = 4.0


def queue_problems(
    pools: Sequence[PoolFacts], histories: Mapping[str, PoolHistory], since: float, now: float
) -> list[Problem]:
    """Queues that grow, the bottleneck they point to, and engines far fuller than their siblings."""
    growing = {pool.name: _waiting_growth(histories[pool.name], now) for pool in pools}
    found = []
    for pool in pools:
        growth = growing[pool.name]
        if growth is not None:
            text = f"the queue of pool {pool.name} grows: {growth[0]:.0f} -> {growth[-1]:.0f} waiting per engine"
            evidence = {"waiting_before": growth[0], "waiting": growth[-1]}
            found.append(Problem("queue_buildup", "", since, text, pool=pool.name, evidence=evidence))
    found.extend(_bottleneck(pools, growing, since))
    for pool in pools:
        found.extend(_skew(pool, since))
    return found


def _bottleneck(pools: Sequence[PoolFacts], growing: dict[str, list[float] | None], since: float) -> Iterable[Problem]:
    prefill = [pool for pool in pools if pool.role == "prefill"]
    decode = [pool for pool in pools if pool.role == "decode"]
    if not prefill or not decode:
        return
    for pool in decode:
        usage = pool.total.gauge_mean("kv_usage")
        deferred = pool.total.gauge_mean("waiting_by_reason", "deferred")
        if usage is not None and usage >= FULL_SHARE and deferred:
            held = max((p.total.gauge_mean("kv_usage") or 0.0 for p in prefill), default=0.0)
            text = (
                f"decode-bound: pool {pool.name} is {percent(usage)} full with {deferred:.0f} requests per engine "
                f"waiting to bring their KV in; prefill holds {percent(held)} of its cache for them. "
                "More decode capacity helps, more prefill does not"
            )
            evidence = {"kv_usage": usage, "deferred": deferred, "prefill_kv_usage": held}
            yield Problem("pool_imbalance", "", since, text, pool=pool.name, evidence=evidence)
            return
    free = max((pool.total.gauge_mean("kv_usage") or 0.0 for pool in decode), default=0.0)
    for pool in prefill:
        growth = growing[pool.name]
        if growth is not None and free < FULL_SHARE:
            text = (
                f"prefill-bound: the queue of pool {pool.name} grows to {growth[-1]:.0f} per engine while decode's "
                f"cache is {percent(free)} full: more prefill capacity helps"
            )
            evidence = {"waiting": growth[-1], "decode_kv_usage": free}
            yield Problem("pool_imbalance", "", since, text, pool=pool.name, evidence=evidence)
            return


def _skew(pool: PoolFacts, since: float) -> Iterable[Problem]:
    """One engine nearly full while its pool is nearly empty: routing, not capacity."""
    usages = [
        (usage, name, engine)
        for name, target in pool.targets.items()
        for engine, gain in target.gained.engines.items()
        if (usage := gain.gauge_mean("kv_usage")) is not None
    ]
    if len(usages) < 3:
        return
    fullest, name, engine = max(usages)
    mean = sum(usage for usage, _, _ in usages) / len(usages)
    if fullest >= FULL_SHARE and mean < SKEW_SHARE:
        text = (
            f"skew: engine {engine} of {name} uses {percent(fullest)} of its KV cache, its pool {percent(mean)} "
            "on average: requests are routed unevenly"
        )
        evidence = {"kv_usage": fullest, "kv_usage_mean": mean}
        yield Problem("pool_imbalance", name, since, text, "warning", pool.name, engine, evidence)


def _waiting_growth(history: PoolHistory, now: float) -> list[float] | None:
    """Waiting requests per engine in each of the last minutes when they only grew, else None."""
    minutes = history.minutes(now - 60.0 * (GROWING_MINUTES + 2), now)[-GROWING_MINUTES:]
    waiting = []
    for _, gain in minutes:
        capacity, whole = gain.gauge_mean("waiting_by_reason", "capacity"), gain.gauge_mean("waiting")
        value = capacity if capacity is not None else whole
        if value is None:
            return None
        waiting.append(value)
    if len(waiting) < GROWING_MINUTES or waiting[-1] < LEAST_WAITING:
        return None
    rises = all(later > earlier for earlier, later in pairwise(waiting))
    return waiting if rises and waiting[-1] > 1.5 * waiting[0] else None
