"""Traffic that vanished: what a pool did at this hour on earlier days comes in, a problem goes out.

Silence is only a fault where there was no silence before: each earlier day that the history holds must have had plenty
of requests in the same stretch of the day. Without at least one such day nothing is said.
"""

from __future__ import annotations

from agent.indicators.outcomes import finished
from agent.indicators.pools import PoolFacts
from agent.indicators.routers import requests as router_requests
from agent.model import Problem
from agent.verdicts.wording import duration, plural
from agent.windows.history import PoolHistory

QUIET_SECONDS = 600.0
DAY_SECONDS = 86400.0
DAYS = 2
LEAST_EXPECTED = 30.0
"""Requests in the same stretch of each earlier day; with so many expected, chance leaves no stretch empty."""


def vanished_traffic(pool: PoolFacts, history: PoolHistory, now: float) -> list[Problem]:
    """At most one problem: nothing arrives at the pool, and at this time of day something always did."""
    if not any(target.fresh for target in pool.targets.values()) or history.began is None:
        return []
    if _arrived(history, now - QUIET_SECONDS, now) or _working(pool):
        return []
    expected = []
    for day in range(1, DAYS + 1):
        begin = now - day * DAY_SECONDS - QUIET_SECONDS
        if begin >= history.began:
            expected.append(_arrived(history, begin, begin + QUIET_SECONDS, coarse=True))
    if not expected or min(expected) < LEAST_EXPECTED:
        return []
    text = (
        f"no request has finished or begun on pool {pool.name} for {duration(QUIET_SECONDS)}; at this time of day "
        f"there were at least {min(expected):.0f} on {plural(len(expected), 'earlier day')}"
    )
    evidence = {"expected": min(expected)}
    return [Problem("traffic_vanished", "", now - QUIET_SECONDS, text, "critical", pool=pool.name, evidence=evidence)]


def _working(pool: PoolFacts) -> bool:
    now = ("router_running", "router_queued") if pool.role == "router" else ("running",)
    return any(
        target.fresh and any(sum(target.window.gauge(metric).values()) > 0 for metric in now)
        for target in pool.targets.values()
    )


def _arrived(history: PoolHistory, since: float, until: float, coarse: bool = False) -> float:
    gain = history.between(since, until, coarse=coarse)
    begun = gain.histograms.get("ttft")
    return max(finished(gain) or 0.0, begun.count if begun is not None else 0.0, router_requests(gain) or 0.0)
