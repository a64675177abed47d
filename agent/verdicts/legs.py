"""A user's time that is the sum of two legs of which only each leg's distribution is known.

In: the promised requests of the first and of the second leg. Out: ranges of the sum's mean, quantiles and shares.
Means add up. Percentiles do not: how the legs of one request go together is unknown, so what holds is the
Makarov (Frechet) bound over all ways they could (quantiles: `agent.indicators.sums`):

    share:     max over x of F1(x) + F2(t - x) - 1  <=  F(t)  <=  min over x of F1(x) + F2(t - x)

Every single split gives a valid bound; a finite set of splits only makes them a little wider.
"""

from __future__ import annotations

from agent.indicators.sums import SPLITS, Bounds, quantile_bounds
from agent.verdicts.inside import Inside
from agent.verdicts.measurement import UNKNOWN, Range


def mean_of_sum(first: Inside, second: Inside) -> Range:
    """Mean of both legs together: the means add up, and so do their bounds."""
    one, two = first.mean(), second.mean()
    value = one.value + two.value if one.value is not None and two.value is not None else None
    return Range.certain(value, one.low + two.low, one.high + two.high)


def quantile_of_sum(first: Inside, second: Inside, q: float) -> Range:
    """Bounds of the q-quantile; no single value is given, as any between them is possible."""
    if first.least <= 0 or second.least <= 0:
        return UNKNOWN
    low, high = quantile_bounds(_bounds(first), _bounds(second), q)
    return Range.certain(None, low, high)


def share_of_sum_within(first: Inside, second: Inside, target: float) -> Range:
    """Bounds of the share of requests whose legs together take at most `target`."""
    if first.least <= 0 or second.least <= 0:
        return Range.certain(None, 0.0, 1.0)
    splits = {*(target * step / SPLITS for step in range(SPLITS + 1))}
    splits |= {edge for edge in first.edges if edge <= target}
    splits |= {target - edge for edge in second.edges if edge <= target}
    # No leg takes less than nothing: the sum is within the target at most as often as each leg alone is.
    low, high = 0.0, min(first.share_within(target).high, second.share_within(target).high)
    for x in splits:
        one, two = first.share_within(x), second.share_within(target - x)
        low = max(low, one.low + two.low - 1.0)
        high = min(high, one.high + two.high)
    return Range.certain(None, low, high)


def _bounds(leg: Inside) -> Bounds:
    def bounds(q: float) -> tuple[float, float]:
        found = leg.quantile(q)
        return found.low, found.high

    return bounds
