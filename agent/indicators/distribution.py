"""Distributions: one histogram's increase comes in, count, exact mean and bounded quantiles go out.

A bucket decides where a quantile lies, never what it is: `low` and `high` are that bucket's edges, and the value
between them is the linear rule of histogram_quantile. Where the sums of each scrape are at hand, the percentile
estimator gives tighter bounds and a far better value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from agent.indicators.percentiles import Percentiles
from agent.model import Status
from agent.state import QUANTILES, Distribution, Quantile
from agent.windows.increase import HistogramIncrease

NO_QUANTILES: dict[str, Quantile | None] = dict.fromkeys((name for name, _ in QUANTILES), None)
NEVER_ALL_ZERO = frozenset({"ttft", "itl", "e2e", "tpot"})
"""Times that cannot be 0 for every request; a sum of 0 under traffic is a broken page, not a fast service."""


def without_numbers(status: Status) -> Distribution:
    """A distribution that only says why it has no numbers."""
    return Distribution(status)


def untold(heard: bool = False) -> Distribution:
    """What no two pages of the window tell: neither that nothing happened nor that the family is missing.

    `heard`: a first page is there, and nothing was seen to happen since.
    """
    return Distribution("no_data", count=0 if heard else None)


def distribution(
    metric: str, histogram: HistogramIncrease | None, percentiles: Percentiles | None = None
) -> Distribution:
    """`histogram` None: the page lacks the family. `percentiles`: recovered from the same observations."""
    if histogram is None:
        return Distribution("metric_missing")
    # a window can end between the two halves of a correction: see agent.windows.differences on one-token requests
    counts = histogram.counts if min(histogram.counts) >= 0 else [max(0.0, n) for n in histogram.counts]
    count = sum(counts)
    if count <= 0:
        return Distribution("no_data")
    if implausible(metric, histogram):
        return Distribution("no_data", count=round(count), implausible=True)
    occupied = sum(1 for bucket in counts if bucket > 0)
    return Distribution(
        status="ok",
        count=round(count),
        mean=histogram.mean,
        quantiles=quantiles(histogram.edges, counts) if percentiles is None else recovered(percentiles),
        low_resolution=occupied == 1 and count > 1,
    )


def recovered(percentiles: Percentiles) -> dict[str, Quantile | None]:
    """The usual quantiles as the estimator gives them."""
    found: dict[str, Quantile | None] = {}
    for name, q in QUANTILES:
        estimate = percentiles.quantile(q)
        if estimate is None:
            found[name] = None
        else:
            value, low, high, likely_low, likely_high = estimate
            likely = (likely_low, likely_high) if likely_high is not None else None
            found[name] = Quantile(value, low, high, likely)
    return found


def implausible(metric: str, histogram: HistogramIncrease) -> bool:
    """True for observations of a time that cannot be 0 whose sum is 0 all the same."""
    return metric in NEVER_ALL_ZERO and histogram.total == 0 and not histogram.unsummed and histogram.count > 0


def quantile(edges: Sequence[float], counts: Sequence[float], q: float) -> Quantile | None:
    """The q-quantile (the observation of rank ceil(q n)) of non-negative observations in buckets; see `quantiles`."""
    return quantiles(edges, counts, (("", q),))[""]


def quantiles(
    edges: Sequence[float], counts: Sequence[float], wanted: Sequence[tuple[str, float]] = QUANTILES
) -> dict[str, Quantile | None]:
    """Name -> quantile for (name, q) in ascending order of q, in one walk over the buckets.

    Above the top finite edge nothing bounds it: value = low = that edge, high = None. Without edges or
    observations: None.
    """
    total = sum(counts)
    if total <= 0 or not edges:
        return {name: None for name, _ in wanted}
    found: dict[str, Quantile | None] = {}
    tolerance = 1e-9 * total
    bucket, below = 0, 0.0
    for name, q in wanted:
        rank = q * total
        while bucket < len(edges) and (counts[bucket] <= 0 or below + counts[bucket] < rank - tolerance):
            below += counts[bucket]
            bucket += 1
        low = edges[bucket - 1] if bucket else min(0.0, edges[0])
        if bucket == len(edges):
            found[name] = Quantile(low, low, None)
        else:
            high = edges[bucket]
            value = low + (high - low) * (rank - below) / counts[bucket]
            found[name] = Quantile(min(max(value, low), high), low, high)
    return found


def share_above(edges: Sequence[float], counts: Sequence[float], threshold: float) -> tuple[float, float] | None:
    """(low, high) of the share of observations above `threshold`; equal where a bucket ends there."""
    total = sum(counts)
    if total <= 0:
        return None
    surely = maybe = 0.0
    for bucket, count in enumerate(counts):
        low = edges[bucket - 1] if bucket else -math.inf
        high = edges[bucket] if bucket < len(edges) else math.inf
        if low >= threshold:
            surely += count
        elif high > threshold:
            maybe += count
    return surely / total, (surely + maybe) / total
