"""Percentiles and shares of one evidence: the best value, its certain bounds, its likely interval.

In: `Evidence`. Out: `Estimate`s, and expected counts on finer edges. The bounds and the solve are made when first
asked for and shared by every question after; a reader of the window before lends its density as a start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from agent.indicators.percentiles.bounds import Bounds
from agent.indicators.percentiles.correlation import correlations
from agent.indicators.percentiles.density import Density
from agent.indicators.percentiles.estimate import Estimate
from agent.indicators.percentiles.evidence import Evidence
from agent.indicators.percentiles.grid import Grid
from agent.indicators.percentiles.likely import Spread
from agent.indicators.percentiles.placed import Placed
from agent.indicators.percentiles.posterior import Posterior
from agent.indicators.percentiles.sample import draw


class Percentiles:
    """Answers from ``evidence`` as it is now; make another one when it has changed (``revision`` tells).

    ``before``: the reader of a similar evidence (the same window a moment ago), from whose density the solve starts.
    """

    def __init__(self, evidence: Evidence, before: Percentiles | None = None) -> None:
        self.evidence = evidence
        self.revision = evidence.revision
        self.count = evidence.count
        self._start = before._solved[0] if before is not None and before._solved is not None else None
        self._solved: tuple[Density, Placed, Spread] | None = None
        self._bounds: Bounds | None = None
        self._known: dict[float, Estimate] = {}

    @property
    def bounds(self) -> Bounds:
        """The certain bounds."""
        if self._bounds is None:
            self._bounds = Bounds(self.evidence)
        return self._bounds

    def quantile(self, q: float) -> Estimate | None:
        """The ``ceil(q count)``-th smallest observation, in the unit of the edges; None without observations."""
        if not 0.0 <= q <= 1.0:
            raise ValueError(f"a quantile is between 0 and 1, got {q}")
        if not self.count:
            return None
        if q not in self._known:
            self._known[q] = self._quantile(max(1, math.ceil(q * self.count - 1e-9)))
        return self._known[q]

    def share_above(self, x: float) -> Estimate | None:
        """The fraction of observations > ``x`` (in the unit of the edges); None without observations."""
        if not self.count:
            return None
        least, most = self.bounds.above(x)
        if least == most:
            share = least / self.count
            return Estimate(share, share, share, share, share)
        _, placed, spread = self._solve()
        best = placed.above(x)
        half = spread.half_width(x)
        value = min(max(best, least), most)
        likely = min(max(best - half, least), value), max(min(best + half, most), value)
        return Estimate(*(count / self.count for count in (value, least, most, *likely)))

    def fine_counts(self, fine_edges: Sequence[float], of: Evidence | None = None) -> list[float]:
        """Expected observations per bucket of ``fine_edges`` (ascending, finite, holding every edge of the
        evidence), and last those above them all. They add up to the count, and at the evidence's own edges they are
        exact.

        ``of``: place another evidence of the same edges by this one's density instead. With ``of`` an interval's
        evidence and this the window's, the increases are never negative, so counters fed by them are monotonic.
        """
        evidence = self.evidence if of is None else of
        if not set(evidence.edges) <= set(fine_edges):
            raise ValueError("the fine edges must hold every edge of the histogram")
        if not evidence.count:
            return [0.0] * (len(fine_edges) + 1)
        placed = self._place(evidence)
        bounds = self.bounds if of is None else None
        below: list[float] = []
        for x in fine_edges:
            above = placed.above(x)
            if bounds is not None:
                least, most = bounds.above(x)
                above = min(max(above, least), most)
            below.append(evidence.count - above)
        exact = dict(zip(evidence.edges, accumulate(evidence.counts), strict=False))
        below = [float(exact.get(x, value)) for x, value in zip(fine_edges, below, strict=True)]
        below = list(accumulate(below, max))
        below = list(accumulate(below[::-1], min))[::-1]
        return [b - a for a, b in zip([0.0, *below], [*below, float(evidence.count)], strict=True)]

    def _quantile(self, rank: int) -> Estimate:
        low, high = self.bounds.quantile(rank)
        if math.isinf(high):
            return Estimate(low, low, None, low, None)
        _, placed, spread = self._solve()
        above = self.count - rank + 0.5
        best = placed.point_below(above)
        ends = []
        for side in (1.0, -1.0):
            # Where the count above, give or take its half width there, still reaches the rank.
            half = spread.half_width(best)
            end = placed.point_below(above + side * (half + 0.5))
            half = max(0.5 * half, spread.half_width(end))
            end = placed.point_below(above + side * (half + 0.5))
            ends.append(end - side * placed.resolution(end))
        value = min(max(best, low), high)
        return Estimate(value, low, high, min(max(ends[0], low), value), max(min(ends[1], high), value))

    def _solve(self) -> tuple[Density, Placed, Spread]:
        if self._solved is None:
            evidence = self.evidence
            sample = draw(evidence)
            grid = Grid(evidence.edges, evidence.counts, self.bounds.ceiling)
            start, self._start = self._start, None
            if start is not None and start.grid.knots != grid.knots:
                start = None
            density = Density(sample, grid, correlations(sample, evidence.steps, grid.limits), start)
            self._solved = density, _placed(evidence, density.posterior, density.p), Spread(density)
        return self._solved

    def _place(self, evidence: Evidence) -> Placed:
        density, placed, _ = self._solve() if self.count else (None, None, None)
        if evidence is self.evidence and placed is not None:
            return placed
        if density is None or any(count and b not in density.grid.slices for b, count in enumerate(evidence.counts)):
            return Percentiles(evidence)._solve()[1]
        posterior = Posterior(draw(evidence), density.grid, density.posterior.correlation)
        return _placed(evidence, posterior, density.p)


def _placed(evidence: Evidence, posterior: Posterior, p: Sequence[float]) -> Placed:
    """Exact points and expected others, scaled so that each bucket holds what was counted in it."""
    others, _ = posterior.expect(p)
    points: dict[int, float] = {}
    for bucket, _, weight in posterior.sample.points:
        points[bucket] = points.get(bucket, 0.0) + weight
    for bucket, (start, stop) in posterior.grid.slices.items():
        wanted = max(evidence.counts[bucket] - points.get(bucket, 0.0), 0.0)
        here = others[start:stop]
        if not sum(here) > 0.0:
            here = list(p[start:stop]) if sum(p[start:stop]) > 0.0 else [1.0] * (stop - start)
        factor = wanted / sum(here)
        others[start:stop] = [value * factor for value in here]
    return Placed([(x, weight) for _, x, weight in posterior.sample.points], posterior.grid, others)
