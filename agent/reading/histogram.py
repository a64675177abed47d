"""One histogram of a page. In: the values of its lines. Out: counts per bucket and sum, or why there are none.

The values of all histograms of a page stand in one list, in page order; a place says which of them are whose. Real
pages give the buckets of a histogram one after another, so its cumulative counts are one slice of that list.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf, isfinite
from operator import sub
from typing import NamedTuple

from agent.model import HistogramValue
from agent.reading.exposition import UNREADABLE

EXACT = 2.0**53
"""Whole numbers above this cannot all be told apart, so differences of counts are no longer exact."""


class HistogramPlace(NamedTuple):
    """Where the values of one histogram stand: `buckets` of them from `first` on, the last above the top edge.

    `order` has their positions, by edge, on a page that does not give them in order. -1: the page has no such line.
    """

    family: str
    first: int
    buckets: int
    order: tuple[int, ...] | None
    total: int
    counted: int


def cumulative_of(values: list[float], place: HistogramPlace) -> list[float]:
    """Return the cumulative counts, by ascending edge."""
    if place.order is None:
        return values[place.first : place.first + place.buckets]
    return [values[position] for position in place.order]


def value_of(values: list[float], place: HistogramPlace) -> HistogramValue | None:
    """Return the histogram's value; None when its counts contradict themselves (`fault_of` says how)."""
    cumulative = cumulative_of(values, place)
    counts = tuple(map(sub, cumulative, (0.0, *cumulative[:-1])))
    # A NaN is neither more nor less than anything: only the sum shows it.
    if min(counts) < 0 or not sum(counts) < inf:
        return None
    if place.counted >= 0 and values[place.counted] != cumulative[-1]:
        return None
    total = values[place.total] if place.total >= 0 else inf
    return HistogramValue(counts, total if isfinite(total) else None)


def doubt_of(values: list[float], place: HistogramPlace) -> str | None:
    """Say what is doubtful about a histogram that has a value, if anything."""
    top = place.first + place.buckets - 1 if place.order is None else place.order[-1]
    if values[top] > EXACT:
        return "its counts are past 2^53, so their increases are not exact"
    if place.total >= 0 and values[place.total] == UNREADABLE:
        return "its _sum is not a number"
    return None


def fault_of(values: list[float], place: HistogramPlace) -> str:
    """Say why a histogram has no value, in words for a person."""
    cumulative = cumulative_of(values, place)
    counted = cumulative if place.counted < 0 else [*cumulative, values[place.counted]]
    if any(not isfinite(count) for count in counted):
        return "a count is not a number"
    if any(count < 0 for count in counted):
        return "a count is negative"
    if any(later < earlier for earlier, later in pairwise(cumulative)):
        return "bucket counts fall where they can only rise"
    return f"_count is {values[place.counted]:.17g} but the +Inf bucket is {cumulative[-1]:.17g}"
