"""The promised requests of a histogram, when some of its requests may not be promised: what is certain about them.

In: one histogram's increase and the most observations of it that may lie outside the contract. Out: ranges of mean,
quantile and share that hold whichever observations those are. The reasoning is in docs/objectives.md; in short, the
extremes are that the outside ones are all the largest or all the smallest, and fewer of them never widen a range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from agent.indicators.distribution import quantile, share_above
from agent.indicators.percentiles.estimate import Estimate
from agent.indicators.percentiles.reader import Percentiles
from agent.verdicts.measurement import UNKNOWN, Range
from agent.windows.increase import HistogramIncrease


class Estimator(Protocol):
    """Quantiles and shares of one family over one window; the percentile estimator is one, buckets alone another."""

    def quantile(self, q: float) -> Estimate: ...

    def share_above(self, x: float) -> Estimate: ...


class Buckets:
    """The estimator that knows bucket counts only: nothing inside a bucket is likelier than the rest."""

    def __init__(self, edges: Sequence[float], counts: Sequence[float]) -> None:
        self._edges, self._counts = edges, counts

    def quantile(self, q: float) -> Estimate:
        """The observation of rank ceil(q n); without edges nothing bounds it."""
        found = quantile(self._edges, self._counts, q)
        if found is None:
            return Estimate(0.0, 0.0, None, 0.0, None)
        value = found.low if found.value is None else found.value
        return Estimate(value, found.low, found.high, found.low, found.high)

    def share_above(self, x: float) -> Estimate:
        """The share of observations above `x`; linear inside the bucket for the value."""
        low, high = share_above(self._edges, self._counts, x) or (0.0, 1.0)
        return Estimate(low + (high - low) * self._part_above(x), low, high, low, high)

    def _part_above(self, x: float) -> float:
        for bucket, upper in enumerate(self._edges):
            lower = self._edges[bucket - 1] if bucket else 0.0
            if lower < x < upper:
                return (upper - x) / (upper - lower)
        return 1.0  # above the top edge: all that is in the open bucket may be above it


class FromSums:
    """The percentile estimator over one window, with the answer that says nothing where it has no observation."""

    def __init__(self, percentiles: Percentiles) -> None:
        self._percentiles = percentiles

    def quantile(self, q: float) -> Estimate:
        """The observation of rank ceil(q n)."""
        return self._percentiles.quantile(q) or Estimate(0.0, 0.0, None, 0.0, None)

    def share_above(self, x: float) -> Estimate:
        """The share of observations above `x`."""
        return self._percentiles.share_above(x) or Estimate(1.0, 0.0, 1.0, 0.0, 1.0)


class Inside:
    """The observations that remain when up to `outside` of the histogram's are taken away, whichever those are."""

    def __init__(self, histogram: HistogramIncrease, outside: float = 0.0, estimator: Estimator | None = None) -> None:
        # One-token requests' zeros may stand a page apart from their count, which leaves a bucket below 0 for a while.
        self._counts = [max(0.0, count) for count in histogram.counts]
        self._edges = histogram.edges
        self._histogram = histogram
        self.count = sum(self._counts)
        self.outside = min(max(0.0, outside), self.count)
        self.least = self.count - self.outside
        self.estimator: Estimator = estimator or Buckets(self._edges, self._counts)

    @property
    def edges(self) -> Sequence[float]:
        return self._edges

    def mean(self) -> Range:
        """The mean: exact where every sum is usable and nothing is outside, else from sums and bucket edges."""
        if self.least <= 0:
            return UNKNOWN
        exact = self._histogram.mean
        if exact is not None and not self.outside and self._histogram.unsummed <= 0:
            return Range.certain(exact, exact, exact)
        lows = [0.0, *self._edges]
        highs = [*self._edges, math.inf]
        unsummed = min(max(0.0, self._histogram.unsummed), self.count)
        sum_low = self._histogram.total + self._smallest(lows, unsummed)
        sum_high = self._histogram.total + self._largest(highs, unsummed)
        # The `least` smallest add up to at least their lower edges, and to what the largest others leave over.
        low = max(self._smallest(lows, self.least), sum_low - self._largest(highs, self.outside)) / self.least
        high = min(self._largest(highs, self.least), sum_high - self._smallest(lows, self.outside)) / self.least
        if exact is not None:
            low, high = min(low, exact), max(high, exact)
        return Range.certain(exact, low, high)

    def quantile(self, q: float) -> Range:
        """The q-quantile: its rank is counted from the bottom if the largest are outside, else past the smallest."""
        if self.least <= 0:
            return UNKNOWN
        rank = max(1, math.ceil(q * self.least - 1e-9))
        bottom = self.estimator.quantile(min(1.0, rank / self.count))
        top = self.estimator.quantile(min(1.0, (self.outside + rank) / self.count)) if self.outside else bottom
        value = self.estimator.quantile(q).value if self.outside else bottom.value
        return Range(value, bottom.low, _open(top.high), bottom.likely_low, _open(top.likely_high))

    def share_within(self, target: float) -> Range:
        """The share at or below `target`: least if the outside ones are all within, most if none of them is."""
        if self.least <= 0:
            return Range.certain(None, 0.0, 1.0)
        above = self.estimator.share_above(target)

        def rest(share_above_target: float | None, outside_within: bool) -> float:
            within = self.count * (1.0 - (0.0 if share_above_target is None else share_above_target))
            gone = self.outside if outside_within else 0.0
            return min(1.0, max(0.0, within - gone) / self.least)

        return Range(
            value=1.0 - above.value,
            low=rest(above.high, True) if above.high is not None else 0.0,
            high=rest(above.low, False),
            likely_low=rest(above.likely_high, True) if above.likely_high is not None else 0.0,
            likely_high=rest(above.likely_low, False),
        )

    def _smallest(self, per_bucket: Sequence[float], how_many: float) -> float:
        return _sum_of_first(self._counts, per_bucket, how_many)

    def _largest(self, per_bucket: Sequence[float], how_many: float) -> float:
        return _sum_of_first(self._counts[::-1], per_bucket[::-1], how_many)


def _sum_of_first(counts: Sequence[float], per_bucket: Sequence[float], how_many: float) -> float:
    """The sum of the first `how_many` observations when each has its bucket's value."""
    left, added = how_many, 0.0
    for count, value in zip(counts, per_bucket, strict=True):
        taken = min(left, count)
        if taken > 0:
            added += taken * value
            left -= taken
    return added


def _open(high: float | None) -> float:
    return math.inf if high is None else high
