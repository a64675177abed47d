"""How far the best estimate of a count above a point may be off: the 95 % interval.

In: a fitted `Density`. Out: the standard deviation of the number of observations above any point, given all the
evidence. Two things are open. Given the distribution, the observations of a record are still free within their sum:
of the spread of an indicator h over K observations, what the sums tell about the orthogonal polynomials of the
value is taken away. And the distribution itself is known only as well as the information matrix says (Laplace's
approximation). Exact points are not open.
"""

from __future__ import annotations

import math
from operator import mul

from agent.indicators.percentiles import linalg
from agent.indicators.percentiles.density import Density

NORMAL_95 = 1.96
# Measured: what the two approximations leave out (see docs/percentiles.md).
INFLATION = 1.5


class Spread:
    """Standard deviations from one fit."""

    def __init__(self, density: Density) -> None:
        self._density = density
        self._grid = density.grid
        posterior = density.posterior
        self._open = {
            bucket: max(posterior.totals[bucket] - sum(posterior.points[start:stop]), 0.0)
            for bucket, (start, stop) in self._grid.slices.items()
        }

    def half_width(self, x: float) -> float:
        """Half the 95 % interval of the number of observations above ``x``."""
        return NORMAL_95 * INFLATION * math.sqrt(self.variance(x))

    def variance(self, x: float) -> float:
        """Variance of the number of observations above ``x``."""
        grid, density, known = self._grid, self._density, self._density.information
        bucket = next((b for b, (low, high) in grid.limits.items() if low < x < high), None)
        if bucket is None:
            return 0.0
        start, stop = grid.slices[bucket]
        free = self._open[bucket]
        mass = sum(density.p[start:stop])
        if free <= 0.0 or mass <= 0.0:
            return 0.0
        q = [value / mass for value in density.p[start:stop]]
        above = [
            min(max((centre - x) / width + 0.5, 0.0), 1.0)
            for centre, width in zip(grid.x[start:stop], grid.width[start:stop], strict=True)
        ]
        weighted = list(map(mul, q, above))
        part: float = sum(weighted)
        gradient = [
            free * (a - part * b) for a, b in zip(grid.project(weighted, start), grid.project(q, start), strict=True)
        ]
        variance = free * part * (1.0 - part)
        for told, polynomial, direction in zip(
            known.told.get(bucket, ()), known.polynomials.get(bucket, ()), known.shape.get(bucket, ()), strict=False
        ):
            along = sum(map(mul, weighted, polynomial))
            told = min(told, free)
            variance -= told * along * along
            gradient = [g - told * along * d for g, d in zip(gradient, direction, strict=True)]
        variance = max(variance, 0.0)
        return variance + linalg.form(density.factor, gradient)
