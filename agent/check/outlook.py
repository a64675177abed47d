"""What each objective can expect from pages and traffic. In: the configuration, seen pools. Out: `Outlook`s.

How exactly a share of requests within a target can be known depends on the edges and on how many observations one
engine makes per scrape, because a scrape brings their sum too. Of n per scrape on average, arriving at random:

    known exactly   e^-n      a value that is alone in its scrape is the increase of the sum
    undecided       p max(0, (1 - e^-n) w - ((1 - e^-n) / n - e^-n) / 2)
    w = min(1, (m - low) / (x - low)) - max(0, (m - x) / (high - x))

p is the share of values in the target's bucket (low, high]. w is how far the mean m of many values there leaves open
how many of them lie above the target x. The last term is what whole numbers of values settle in small groups. Undecided
is the width of bounds that always hold; the estimate inside them is much closer. docs/check.md has an example.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agent.check.buckets import DEFAULT_EDGES, METRIC_OF, is_edge, neighbours
from agent.check.seen import SeenPool
from agent.check.traffic import Rate, observation_rate
from agent.config import Config, Objective
from agent.windows.increase import HistogramIncrease, Increase, merged

LEAST_INTERVAL_SECONDS = 1.0
FETCH_SHARE = 0.1
"""A shorter interval is proposed only down to where fetching would take this share of it."""


@dataclass(frozen=True, slots=True)
class Precision:
    """Shares of requests at one scrape interval: whose value is known exactly, and who stay undecided."""

    interval_seconds: float
    per_scrape: float
    known_ratio: float
    undecided_ratio: float


@dataclass(frozen=True, slots=True)
class Outlook:
    """One objective. `edges`: beside its target, None where none are needed; `on_edge`: a bucket ends at its target.

    `default_edges`: they are vLLM's defaults, not read from a page. `pools`: where its observations come from.
    """

    objective: Objective
    pools: tuple[str, ...]
    metric: str | None
    edges: tuple[float, float | None] | None = None
    on_edge: bool = False
    default_edges: bool = False
    rate: Rate | None = None
    precision: Precision | None = None
    shorter: Precision | None = None

    @property
    def in_window(self) -> float | None:
        """Observations that its window holds at this rate."""
        return self.rate.per_second * self.objective.window_seconds if self.rate else None


def outlook(config: Config, objective: Objective, pools: Sequence[SeenPool]) -> Outlook:
    """`pools` are all seen pools; without any page (`--offline`) edges are vLLM's own and rates are not known."""
    mine = _pools_of(config, objective, pools)
    metric = METRIC_OF.get(objective.indicator)
    seen = _since_start([pool for pool in mine if pool.usable], metric)
    names = tuple(pool.name for pool in mine)
    any_page = any(pool.usable for pool in mine)
    rate = _total_rate(mine, metric)
    edges = seen.edges if seen is not None else DEFAULT_EDGES.get(metric or "", ()) if not any_page else ()
    if metric is None or not edges or _is_composed(config, objective):
        return Outlook(objective, names, metric, rate=rate)
    between = neighbours(edges, objective.target)
    on_edge = is_edge(edges, objective.target)
    now = shorter = None
    engines = sum(len(target.latest.layout.engines) for pool in mine for target in pool.usable if target.latest)
    if rate is not None and engines and not on_edge:
        share, width = _open_share(seen, objective.target, between)
        interval = config.scrape.interval_seconds
        now = precision(rate.per_second / engines, interval, share, width)
        closest = _least_interval(mine)
        if closest < interval:
            shorter = precision(rate.per_second / engines, closest, share, width)
    return Outlook(objective, names, metric, between, on_edge, seen is None, rate, now, shorter)


def precision(per_second: float, interval_seconds: float, bucket_share: float, width: float) -> Precision:
    """The module's formula for one engine that makes `per_second` observations."""
    per_scrape = per_second * interval_seconds
    known = math.exp(-per_scrape)
    in_company = -math.expm1(-per_scrape)
    settled = 0.5 * (in_company / per_scrape - known) if per_scrape > 0 else 0.0
    return Precision(interval_seconds, per_scrape, known, bucket_share * max(0.0, in_company * width - settled))


def open_width(low: float, high: float | None, mean: float, x: float) -> float:
    """Between the least and the most that can lie above x, as a share of many values in (low, high] with this mean."""
    most = min(1.0, max(0.0, (mean - low) / (x - low)))
    least = max(0.0, (mean - x) / (high - x)) if high is not None else 0.0
    return max(0.0, most - least)


def _open_share(
    seen: HistogramIncrease | None, target: float, edges: tuple[float, float | None]
) -> tuple[float, float]:
    """(share of values in the target's bucket, w); without observations as if all lay there, in its middle."""
    low, high = edges
    mean = (low + high) / 2 if high is not None else target
    if seen is None or seen.count <= 0:
        return 1.0, open_width(low, high, mean, target)
    bucket = len(seen.edges) if high is None else seen.edges.index(high)
    overall = seen.mean
    if overall is not None and low < overall and (high is None or overall < high):
        mean = overall
    return max(0.0, seen.counts[bucket]) / seen.count, open_width(low, high, mean, target)


def _is_composed(config: Config, objective: Objective) -> bool:
    """The user's TTFT as the sum of two legs: no single histogram holds it."""
    split = any(pool.role != "both" for pool in config.pools)
    return objective.scope == "system" and objective.indicator == "ttft" and split and config.dispatch == "serial"


def _pools_of(config: Config, objective: Objective, pools: Sequence[SeenPool]) -> list[SeenPool]:
    if objective.scope != "system":
        return [pool for pool in pools if pool.name == objective.scope]
    split = any(pool.role != "both" for pool in config.pools)
    return [pool for pool in pools if pool.role == ("decode" if split else "both")]


def _total_rate(pools: Sequence[SeenPool], metric: str | None) -> Rate | None:
    rates = [rate for pool in pools if (rate := observation_rate(pool, metric)) is not None]
    return Rate(sum(rate.per_second for rate in rates), rates[0].basis) if rates else None


def _since_start(pools: Sequence[SeenPool], metric: str | None) -> HistogramIncrease | None:
    """All that the pools' pages have counted of one histogram, on the edges they share; None without any."""
    parts = [target.lifetime.histograms.get(metric or "") for pool in pools for target in pool.usable]
    return merged(Increase(histograms={"": part}) for part in parts if part is not None).histograms.get("")


def _least_interval(pools: Sequence[SeenPool]) -> float:
    slowest = max((target.took_seconds or 0.0 for pool in pools for target in pool.usable), default=0.0)
    return max(LEAST_INTERVAL_SECONDS, math.ceil(slowest / FETCH_SHARE))
