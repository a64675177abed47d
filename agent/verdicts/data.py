"""What is wrong with the data themselves: windows come in, named problems of targets and pools go out.

Each says where pdwatch is blind and since when, in a sentence. Nothing here judges the service; that a number is
missing must never look like a number that is fine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agent.indicators.distribution import implausible
from agent.indicators.latency import NOT_ON_PREFILL
from agent.indicators.pools import PoolFacts, TargetFacts
from agent.model import Layout, Problem, Role
from agent.verdicts.wording import duration, plural

NEEDED_METRICS: Mapping[str, Mapping[str, str]] = {
    "prefill": {
        "ttft": "no TTFT of the prefill leg",
        "e2e": "no composed TTFT of the system",
        "requests_finished": "no request counts, no error share",
        "prompt_tokens": "no prompt throughput",
        "queue": "TTFT cannot be split into queue and prefill",
        "prefill": "TTFT cannot be split into queue and prefill",
        "kv_expired": "expired KV leases cannot be seen",
    },
    "decode": {
        "ttft": "no TTFT of the decode leg",
        "tpot": "TPOT only as a mean from decode time over tokens",
        "itl": "no live TPOT, no step time",
        "generation_tokens": "no live TPOT, no throughput",
        "requests_finished": "no request counts, no error share",
        "kv_usage": "KV capacity cannot be seen",
        "waiting_by_reason": "requests waiting for KV cannot be told from a full engine",
        "kv_transfer_time": "KV transfer times cannot be seen",
    },
    "both": {
        "ttft": "no TTFT",
        "tpot": "TPOT only as a mean from decode time over tokens",
        "itl": "no live TPOT, no step time",
        "generation_tokens": "no live TPOT, no throughput",
        "requests_finished": "no request counts, no error share",
    },
}
"""Role -> logical metric -> what its absence costs."""

OPTIONAL_SEVERITY_METRICS = frozenset({"waiting_by_reason", "kv_expired", "kv_transfer_time", "queue", "prefill"})


def target_problems(pool: PoolFacts, now: float, stale_after_seconds: float) -> list[Problem]:
    """Problems of each target of the pool, and of the pool as a whole when none of its targets answers."""
    found: list[Problem] = []
    for name, facts in pool.targets.items():
        found.extend(_of_target(pool, name, facts, now, stale_after_seconds))
    down = [problem for problem in found if problem.code == "unreachable"]
    if down and len(down) == len(pool.targets):
        found.append(
            Problem(
                "unreachable",
                target="",
                pool=pool.name,
                since=max(problem.since for problem in down),
                severity="critical",
                text=f"no target of pool {pool.name} answers; pdwatch is blind on the whole pool",
            )
        )
    found.extend(_mixed_buckets(pool, now))
    return found


def _of_target(
    pool: PoolFacts, name: str, facts: TargetFacts, now: float, stale_after_seconds: float
) -> Iterable[Problem]:
    health, window = facts.window.health, facts.window

    def problem(code: str, since: float, text: str, engine: str = "", severity: str = "warning") -> Problem:
        return Problem(
            code,
            name,
            since,
            text,
            "info" if severity == "info" else "warning",
            pool=pool.name,
            engine=engine,
        )

    if health.failed_since is not None:
        code = "unusable_page" if health.error == "unusable_page" else "unreachable"
        said = f" ({health.error_text})" if health.error_text else ""
        yield problem(
            code,
            health.failed_since,
            f"{name}: {health.error}{said} for {duration(now - health.failed_since)}",
        )
    elif facts.age_seconds is not None and facts.age_seconds > stale_after_seconds:
        yield problem("stale", now - facts.age_seconds, f"{name}: last page is {duration(facts.age_seconds)} old")
    elif facts.age_seconds is None:
        yield problem("stale", now, f"{name}: no page yet")
    for engine, since in health.missing_engines.items():
        text = f"engine {engine} of {name} left the page {duration(now - since)} ago; its numbers are not in the sums"
        yield problem("engine_missing", since, text, engine)
    if health.inconsistent_since is not None:
        yield problem("inconsistent_source", health.inconsistent_since, f"{name}: {health.inconsistent_text}")
    recent = [t for t, _ in health.restarted if t > now - max(stale_after_seconds, window.retain_seconds)]
    if recent:
        engines = sorted({engine or "server" for t, engine in health.restarted if t in recent})
        text = f"{name} began its counters again {plural(len(set(recent)), 'time')} (engine {', '.join(engines)})"
        yield problem("restarted", recent[-1], text, severity="info")
    if health.clock_jumped is not None:
        yield problem("clock_jump", health.clock_jumped, f"{name}: time of its pages went backwards", severity="info")
    for found in health.page_problems:
        since = health.page_problems_since if health.page_problems_since is not None else now
        yield problem(found.code, since, f"{name}: {found.text}", found.engine)
    yield from _missing_metrics(pool, name, facts)
    for metric in _implausible(facts, pool.role):
        text = f"{name}: {metric} has observations but a sum of 0; it is not used"
        yield problem("implausible", now, text)


def _missing_metrics(pool: PoolFacts, name: str, facts: TargetFacts) -> Iterable[Problem]:
    latest = facts.window.latest
    if latest is None:
        return
    present = latest.layout.names
    if pool.role != "prefill" and "tpot" in present and not _counts_one_token_requests(latest.layout):
        yield Problem(
            "metric_missing",
            name,
            latest.t,
            f"{name} does not tell how many requests generated one token (request_generation_tokens, le=1): each of "
            "them counts as a TPOT of 0, so its TPOT seems shorter than it is",
            pool=pool.name,
            evidence={"metric": "generation_tokens_histogram"},
        )
    for metric, cost in NEEDED_METRICS.get(pool.role, {}).items():
        if metric not in present:
            severity = "info" if metric in OPTIONAL_SEVERITY_METRICS else "warning"
            yield Problem(
                "metric_missing",
                name,
                latest.t,
                f"{name} has no {metric}: {cost}",
                "info" if severity == "info" else "warning",
                pool=pool.name,
                evidence={"metric": metric},
            )


def _counts_one_token_requests(layout: Layout) -> bool:
    return any(key.series.metric == "generation_tokens" and 1.0 in key.edges for key in layout.histograms)


def _implausible(facts: TargetFacts, role: Role) -> list[str]:
    return sorted(
        {
            metric
            for gain in facts.gained.engines.values()
            for metric, histogram in gain.histograms.items()
            if implausible(metric, histogram) and not (role == "prefill" and metric in NOT_ON_PREFILL)
        }
    )


def _mixed_buckets(pool: PoolFacts, now: float) -> Sequence[Problem]:
    mixed = sorted(metric for metric, histogram in pool.total.histograms.items() if histogram.mixed)
    if not mixed:
        return []
    text = f"pool {pool.name}: targets have different buckets for {', '.join(mixed)}; merged on the edges they share"
    return [Problem("mixed_buckets", "", now, text, "info", pool=pool.name)]
