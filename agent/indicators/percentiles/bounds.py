"""Certain bounds of a share or a quantile, sharp for what the buckets and the records' sums allow.

In: `Evidence`. Out: how many observations must, and how many can, lie above any point; and from that the range in
which any quantile must lie. A record of k observations in (low, high] that add up to s can have
floor((s - k low) / (x - low)) of them above x (the rest sit at low), and must have ceil((s - k x) / (high - x)) (they
sit at high, the rest at x). Other buckets' observations of the same record widen s to a range.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

from agent.indicators.percentiles.evidence import COUNT_TOLERANCE, Evidence

# Bisection inside a bucket stops at this fraction of its width; the end that is certain is reported.
RESOLUTION = 2.0**-13


class Bounds:
    """Certain bounds from a snapshot of ``evidence`` (which must not change while this is used)."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._edges = evidence.edges
        self.count = evidence.count
        self._above_bucket = _counts_above(evidence.counts)
        # Per bucket: (weight, size, excess of the sum's upper end over size * low) and (weight, size, sum's lower
        # end).
        self._most: dict[int, list[tuple[int, int, float]]] = {}
        self._least: dict[int, list[tuple[int, int, float]]] = {}
        # Of torn reads those that contradict no bucket go unseen, about as many as are seen: while there are any, as
        # many observations as two whole records hold are in doubt for each.
        summed = self.count - sum(evidence.unsummed)
        self._doubt = math.ceil(2.0 * evidence.torn * summed / evidence.records) if evidence.records else 0
        self.ceiling = self._edges[-1]
        if evidence.unsummed[-1]:
            self.ceiling = math.inf
        for group in evidence.limits():
            bucket = group.bucket
            low = self._edges[bucket - 1] if bucket else 0.0
            if group.records > 1 and group.size:
                weight, size = group.records, group.size
                bottom, top = size * group.mean_low, size * group.mean_high
            else:
                weight, size, bottom, top = 1, group.observations, group.sum_low, group.sum_high
            self._most.setdefault(bucket, []).append((weight, size, top - size * low))
            self._least.setdefault(bucket, []).append((weight, size, bottom))
            if bucket == len(self._edges):
                self.ceiling = max(self.ceiling, (top - (size - 1) * low) * (1.0 + 1e-9))

        if self._doubt:
            self.ceiling *= 2.0

    def above(self, x: float) -> tuple[int, int]:
        """The least and the most observations that can be > x."""
        known = self._evidence.above.get(x)
        if known is not None and not self._doubt:
            return known[0], known[1]
        if known is not None:
            bucket = bisect_left(self._edges, x)
            above, here = self._above_bucket[bucket], self._evidence.counts[bucket]
            if x == self._high(bucket):
                return above, above
            return max(above, known[0] - self._doubt), min(above + here, known[1] + self._doubt)
        return self.least_above(x), self.most_above(x)

    def most_above(self, x: float) -> int:
        """The most observations that can be > x."""
        if x < 0:
            return self.count
        bucket = bisect_left(self._edges, x)
        low = self._edges[bucket - 1] if bucket else 0.0
        if x >= self._high(bucket):
            return self._above_bucket[bucket]
        if x <= low:
            return self._above_bucket[bucket] + self._evidence.counts[bucket]
        per = 1.0 / (x - low)
        inside = sum(
            weight * int(min(size, excess * per + COUNT_TOLERANCE))
            for weight, size, excess in self._most.get(bucket, ())
        )
        inside += self._evidence.unsummed[bucket] + self._doubt
        return self._above_bucket[bucket] + min(inside, self._evidence.counts[bucket])

    def least_above(self, x: float) -> int:
        """The least number of observations that must be > x."""
        if x < 0:
            return self.count
        bucket = bisect_left(self._edges, x)
        high = self._high(bucket)
        if x >= high:
            return self._above_bucket[bucket]
        if math.isinf(high):
            inside = sum(w for w, size, bottom in self._least.get(bucket, ()) if bottom > size * x * (1 + 1e-9))
            return max(inside - self._doubt, 0)
        per = 1.0 / (high - x)
        spare = 1.0 - COUNT_TOLERANCE
        inside = sum(
            weight * int((bottom - size * x) * per + spare)
            for weight, size, bottom in self._least.get(bucket, ())
            if bottom > size * x
        )
        return self._above_bucket[bucket] + max(inside - self._doubt, 0)

    def quantile(self, rank: int) -> tuple[float, float]:
        """The range of the ``rank``-th smallest observation (1 .. count); the upper end may be inf."""
        # The bucket is certain: the counts say so. Inside it, the observation is > x where at least
        # count - rank + 1 must lie above x, and <= x where at most count - rank can.
        spare = self.count - rank
        bucket = bisect_left(self._above_bucket, -spare, key=lambda above: -above)
        floor = self._edges[bucket - 1] if bucket else 0.0
        ceiling = min(self._high(bucket), self.ceiling)
        if math.isinf(ceiling):
            return self._bisect(floor, self._far(), lambda x: self.least_above(x) > spare)[0], ceiling
        low = self._bisect(floor, ceiling, lambda x: self.least_above(x) > spare)[0]
        high = self._bisect(floor, ceiling, lambda x: self.most_above(x) > spare)[1]
        return low, high

    def _high(self, bucket: int) -> float:
        return self._edges[bucket] if bucket < len(self._edges) else math.inf

    def _far(self) -> float:
        """A point that no least value of the top bucket reaches."""
        means = [bottom / size for _, size, bottom in self._least.get(len(self._edges), ())]
        return 2.0 * max([self._edges[-1], *means])

    @staticmethod
    def _bisect(low: float, high: float, holds: Callable[[float], bool]) -> tuple[float, float]:
        """Narrow [low, high] around the point where ``holds`` turns false."""
        stop = (high - low) * RESOLUTION
        while high - low > stop:
            middle = 0.5 * (low + high)
            if holds(middle):
                low = middle
            else:
                high = middle
        return low, high


def _counts_above(counts: list[int]) -> list[int]:
    """For each bucket, the observations in all later buckets."""
    above = []
    rest = sum(counts)
    for count in counts:
        rest -= count
        above.append(rest)
    return above
