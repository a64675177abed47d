"""Quantiles of a sum of which only each part's distribution is known: two parts come in, certain bounds go out.

Means add up. Percentiles do not: how the parts of one request go together is unknown, so what holds is the Makarov
(Frechet) bound over all ways they could:

    max over u + v = q of Q1(u) + Q2(v)  <=  Q(q)  <=  min over a + b = 1 - q of Q1(1 - a) + Q2(1 - b)

Every single split gives a valid bound; a finite set of splits only makes them a little wider. No value is given between
them: any could be true.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from agent.indicators.distribution import quantile
from agent.state import QUANTILES, Quantile
from agent.windows.increase import HistogramIncrease

SPLITS = 32

Bounds = Callable[[float], tuple[float, float]]
"""q -> (low, high) of one part's q-quantile, 0 < q <= 1; `math.inf` where nothing bounds it."""


def quantile_bounds(first: Bounds, second: Bounds, q: float) -> tuple[float, float]:
    """(low, high) of the sum's q-quantile, for parts that are never negative; `math.inf` where nothing bounds it."""
    low, high = 0.0, math.inf
    slack = 1 - q
    for step in range(SPLITS + 1):
        part = step / SPLITS
        low = max(low, _low(first, q * part) + _low(second, q * (1 - part)))
        high = min(high, first(1 - slack * part)[1] + second(1 - slack * (1 - part))[1])
    return low, high


def quantiles_of_sum(first: HistogramIncrease, second: HistogramIncrease) -> dict[str, Quantile | None]:
    """The usual quantiles of the sum of two histograms' quantities; None without observations of both, or edges."""
    one, two = _of(first), _of(second)
    if one is None or two is None:
        return {name: None for name, _ in QUANTILES}
    found: dict[str, Quantile | None] = {}
    for name, q in QUANTILES:
        low, high = quantile_bounds(one, two, q)
        found[name] = Quantile(None, low, high if high < math.inf else None)
    return found


def _of(histogram: HistogramIncrease) -> Bounds | None:
    counts = [max(0.0, count) for count in histogram.counts]
    if sum(counts) <= 0 or not histogram.edges:
        return None

    def bounds(q: float) -> tuple[float, float]:
        found = quantile(histogram.edges, counts, q)
        if found is None:
            return 0.0, math.inf
        return found.low, math.inf if found.high is None else found.high

    return bounds


def _low(part: Bounds, q: float) -> float:
    return part(q)[0] if q > 0 else 0.0
