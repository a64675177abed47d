"""Do the spans say what the histograms say? A pool's window of both comes in, what cannot both be true goes out.

Only where nearly every leg that the histograms counted has also come as a span. A quantile of the spans must then lie
in the histogram's buckets of about that rank. How nearly follows from the legs that one may have without the other:

    spans alone       at most the legs near the window's ends, where clocks, exports and pages differ (`edges`)
    histograms alone  at most as many as that, and those that are missing in number

Means are compared only when there can be no such leg.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from agent.indicators.distribution import quantile
from agent.indicators.pools import PoolFacts
from agent.indicators.requests.view import SpansView
from agent.state import QUANTILES
from agent.windows.increase import HistogramIncrease, Increase

COMPARED = ("ttft", "e2e", "tpot")
LEAST_COUNT = 50
COVERED_FROM, COVERED_TO = 0.95, 1.05
RANK_RATIO = 0.01
"""Ranks may be off by so much more: a leg is a span and an observation at moments a little apart."""
MEAN_TOLERANCE_RATIO = 0.02
HISTORY_SLOT_SECONDS = 300.0
"""Widest slot of a pool's history, by which windows that come from it may be rounded."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """`spans` lies outside [low, high] of the histogram; `high` None: nothing bounds it. `statistic`: mean, p50 ..."""

    pool: str
    latency: str
    statistic: str
    spans: float
    low: float
    high: float | None
    count: int


def coverage(view: SpansView, pool: str, total: Increase) -> float | None:
    """Sound legs among the spans over legs in the pool's histograms; None when the histograms counted none."""
    counted = total.histograms.get("e2e")
    return view.pool_sketch(pool, "e2e").count / counted.count if counted is not None and counted.count > 0 else None


def disagreements(
    view: SpansView, totals: Mapping[str, Increase], edges: SpansView | None = None
) -> list[Disagreement]:
    """`totals`: pool -> what its histograms gained in the same window; `edges`: spans that may lie in only one of the
    two windows, None: the windows are the same to the leg.
    """
    return [found for pool, total in totals.items() for found in _of_pool(view, pool, total, edges)]


def page_gap_seconds(pools: Iterable[PoolFacts], begin: float, now: float) -> float:
    """By how much the window of any target's pages may begin or end elsewhere than (begin, now]."""
    gaps = [0.0]
    for pool in pools:
        if pool.long_seconds is not None:
            gaps.append(abs(now - begin - pool.long_seconds) + HISTORY_SLOT_SECONDS)
        for target in pool.targets.values():
            start, end = target.gained.start, target.gained.end
            if pool.long_seconds is None and start is not None and end is not None:
                gaps += [abs(start - begin), abs(now - end)]
    return max(gaps)


def _of_pool(view: SpansView, pool: str, total: Increase, edges: SpansView | None) -> Iterator[Disagreement]:
    for latency in COMPARED:
        histogram = total.histograms.get(latency)
        sketch = view.pool_sketch(pool, latency)
        if histogram is None or sketch.count < LEAST_COUNT or histogram.count < LEAST_COUNT:
            continue
        covered = sketch.count / histogram.count
        if not COVERED_FROM <= covered <= COVERED_TO or min(histogram.counts) < 0:
            continue
        at_edges = edges.pool_sketch(pool, latency).count if edges is not None else 0
        spare = (max(0.0, histogram.count - sketch.count) + at_edges) / histogram.count + RANK_RATIO
        for _, q in QUANTILES:
            found = sketch.quantile(q)
            low, high = _bounds(histogram, q, spare)
            if found is None or found.value is None:
                continue
            most = found.high if found.high is not None else found.value
            if most < low or (high is not None and found.low > high):
                yield Disagreement(pool, latency, f"p{q * 100:g}", found.value, low, high, sketch.count)
        mean, exact = sketch.mean, histogram.mean
        if covered == 1.0 and not at_edges and mean is not None and exact is not None:
            low, high = exact * (1.0 - MEAN_TOLERANCE_RATIO), exact * (1.0 + MEAN_TOLERANCE_RATIO)
            if not low <= mean <= high:
                yield Disagreement(pool, latency, "mean", mean, low, high, sketch.count)


def _bounds(histogram: HistogramIncrease, q: float, spare: float) -> tuple[float, float | None]:
    """The buckets of ranks q - spare to q + spare; no upper end when that passes the last observation."""
    low = quantile(histogram.edges, histogram.counts, max(0.0, q - spare))
    high = quantile(histogram.edges, histogram.counts, q + spare) if q + spare < 1.0 else None
    return (low.low if low is not None else 0.0), (high.high if high is not None else None)
