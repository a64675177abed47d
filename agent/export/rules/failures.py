"""Requests that went wrong, on vLLM's pages. In: a pool and a window. Out: recording rules, and PromQL that reads them.

A request that failed may stand under its finish reason and again under its answer; nothing on a page tells. So "all of
them are the same requests" and "none is" are the two ends of what can be, and both are recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from agent.export.rules.identity import Identity
from agent.export.rules.model import Recording
from agent.export.rules.promql import largest, matcher, span
from agent.export.rules.vllm_source import VllmSource

Side = Literal["low", "high"]


def failure_recordings(source: VllmSource, identity: Identity, pool: str, window_seconds: float) -> list[Recording]:
    """Least and most requests that failed, and of how many, of one pool. Counters that a version lacks count as 0."""
    pools = (pool,)

    def summed(metric: str, *more: str) -> str:
        return f"(sum({source.increase(metric, pools, window_seconds, *more)}) or vector(0))"

    finished = f"sum({source.increase('requests_finished', pools, window_seconds)})"
    failed = summed("requests_finished", matcher("finished_reason", "error"))
    # A refusal is answered with 503, which the HTTP counter has as well where it exists.
    answered = largest(summed("http_requests", matcher("status", "5xx")), summed("admission_rejections"))
    labels = identity.deployment | {"pool": pool}
    w = span(window_seconds)

    def read(name: str) -> str:
        return f"{name}{w}{source.selector(pools)}"

    failed_name, answered_name = "pool:vllm_requests_failed:increase", "pool:vllm_requests_refused:increase"
    f, a, done = read(failed_name), read(answered_name), f"{finished}"
    return [
        Recording(failed_name + w, failed, labels),
        Recording(answered_name + w, answered, labels),
        Recording(f"pool:vllm_requests_bad:low{w}", largest(f, a), labels),
        Recording(f"pool:vllm_requests_bad:high{w}", f"{f} + {a}", labels),
        Recording(f"pool:vllm_requests_seen:low{w}", f"{done} + on () clamp_min({a} - {f}, 0)", labels),
        Recording(f"pool:vllm_requests_seen:high{w}", f"{done} + on () {a}", labels),
    ]


def bad(source: VllmSource, pools: Iterable[str], window_seconds: float, side: Side) -> str:
    """Requests of these pools that failed."""
    return f"sum(pool:vllm_requests_bad:{side}{span(window_seconds)}{source.selector(pools)})"


def seen(source: VllmSource, pools: Iterable[str], window_seconds: float, side: Side) -> str:
    """Requests of these pools."""
    return f"sum(pool:vllm_requests_seen:{side}{span(window_seconds)}{source.selector(pools)})"


def error_share(
    source: VllmSource, before: Sequence[str], serving: Sequence[str], window_seconds: float, side: Side
) -> tuple[str, str]:
    """The share that failed, and of how many: each counts by its serving leg, or where it got no further."""
    failed = bad(source, serving, window_seconds, side)
    of = seen(source, serving, window_seconds, side)
    if before:
        early = bad(source, before, window_seconds, side)
        failed, of = f"({failed} + {early})", f"({of} + {early})"
    return f"{failed} / ({of} > 0)", of
