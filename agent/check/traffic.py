"""What the traffic shows. In: seen pools. Out: roles that it contradicts, and how many observations come per second."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from agent.check.findings import Finding
from agent.check.seen import SeenPool, SeenTarget
from agent.indicators.outcomes import finished
from agent.indicators.pools import PoolFacts
from agent.verdicts.traffic import LEAST_REQUESTS, traffic_problems
from agent.verdicts.wording import duration
from agent.windows.increase import Increase


@dataclass(frozen=True, slots=True)
class Rate:
    """Observations per second of a whole pool, and what they were counted over."""

    per_second: float
    basis: Literal["between the two fetches", "since the servers started"]


def role_findings(pool: SeenPool) -> Iterator[Finding]:
    """Targets whose requests are of another kind than their pool's role says.

    What happened between the two pages decides where it is enough; else all that the server served since it started.
    """
    for target in pool.usable:
        between = target.between
        if between is not None and not between.inconsistent and (finished(between.increase) or 0.0) >= LEAST_REQUESTS:
            served, said = between.increase, f"in the last {duration(between.seconds)}"
        else:
            served, said = target.lifetime, "since its server started"
        facts = PoolFacts(pool.name, pool.role, pool.gpus, {}, served)
        for problem in traffic_problems([facts], None, since=0.0):
            if problem.code == "role_mismatch":
                help_ = "does this address belong into another pool? its numbers distort this one's until it is moved"
                yield Finding("role_mismatch", "warning", (target.name,), f"{said}: {problem.text}", help_)


def observation_rate(pool: SeenPool, metric: str | None) -> Rate | None:
    """Observations of `metric`'s histogram per second (None: finished requests), all engines of the pool together.

    From between the two pages when enough happened there; else from all since the servers started, where every page
    says when that was; else from what little happened in between. None when nothing was seen.
    """
    usable = pool.usable
    recent = [
        (t.between.increase, t.between.seconds) for t in usable if t.between is not None and not t.between.inconsistent
    ]
    counted = sum(_count(increase, metric) for increase, _ in recent)
    seconds = max((seconds for _, seconds in recent), default=0.0)
    if counted >= LEAST_REQUESTS:
        return Rate(counted / seconds, "between the two fetches")
    lives = [_since_start_rate(target, metric) for target in usable]
    known = [rate for rate in lives if rate is not None]
    if known and len(known) == len(lives) and sum(known) > 0:
        return Rate(sum(known), "since the servers started")
    return Rate(counted / seconds, "between the two fetches") if counted > 0 else None


def _since_start_rate(target: SeenTarget, metric: str | None) -> float | None:
    latest, started = target.latest, target.started_seconds
    if latest is None or started is None or latest.t - started <= 0:
        return None
    return _count(target.lifetime, metric) / (latest.t - started)


def _count(increase: Increase, metric: str | None) -> float:
    if metric is None:
        return finished(increase) or 0.0
    histogram = increase.histograms.get(metric)
    if histogram is None:
        return 0.0
    return max(0.0, histogram.count)
