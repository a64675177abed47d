"""All observations put in their places: exact points where they are known, expected counts per fine bin elsewhere.

In: points and the expected counts of the fine bins. Out: how many lie above a point, and the point above which a
number lies.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from agent.indicators.percentiles.grid import Grid

STEPS = 44


class Placed:
    """``points`` as (value, weight); ``others`` per bin of ``grid``, even inside a bin."""

    def __init__(self, points: Sequence[tuple[float, float]], grid: Grid, others: Sequence[float]) -> None:
        ordered = sorted(points)
        self._values = [value for value, _ in ordered]
        self._upto = [0.0, *accumulate(weight for _, weight in ordered)]
        self._others = list(others)
        self._width = grid.width
        self._starts = [x - 0.5 * width for x, width in zip(grid.x, grid.width, strict=True)]
        self._end = grid.x[-1] + 0.5 * grid.width[-1]
        self._before = [0.0, *accumulate(others)]

    def above(self, x: float) -> float:
        """Expected number of observations > x."""
        exact = self._upto[-1] - self._upto[bisect_right(self._values, x)]
        place = bisect_right(self._starts, x) - 1
        if place < 0:
            return exact + self._before[-1]
        part = min((x - self._starts[place]) / self._width[place], 1.0)
        return exact + self._before[-1] - self._before[place] - part * self._others[place]

    def point_below(self, number: float) -> float:
        """The least point with at most ``number`` observations above it."""
        low, high = 0.0, self._end
        for _ in range(STEPS):
            middle = 0.5 * (low + high)
            if self.above(middle) > number:
                low = middle
            else:
                high = middle
        return high

    def resolution(self, x: float) -> float:
        """Half a bin, where the bin's observations are not all exact points; the bins cannot tell finer."""
        place = bisect_right(self._starts, x) - 1
        if place < 0 or self._others[place] < 1e-3:
            return 0.0
        return 0.5 * self._width[place]
