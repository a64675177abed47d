"""Small statistics on a dozen to sixty points. In: plain lists of numbers; out: rates and their errors.

Rates are judged from increments between neighbouring sub-windows, not from a regression on the levels: under
a random walk, which resident memory often is, the standard error of a regression, R squared and the
Mann-Kendall statistic are too small by far (their 95 % intervals hold the truth 12 to 60 % of the time,
measured), while the scatter of increments stays honest.
"""

from __future__ import annotations

import math
from itertools import pairwise

DOMINATING_STEP = 3.0
"""A step this many times the next largest is an event (an adapter, a new shape), not part of a line."""


def differences(values: list[float]) -> list[float]:
    """Increments between neighbours: n values give n - 1."""
    return [after - before for before, after in pairwise(values)]


def median(values: list[float]) -> float:
    """Median of at least one value."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else 0.5 * (ordered[half - 1] + ordered[half])


def least_squares_slope(times: list[float], values: list[float]) -> float:
    """Slope of the ordinary least-squares line; at least two different times."""
    _, _, spread, product = _moments(times, values)
    return product / spread


def line(times: list[float], values: list[float]) -> tuple[float, float]:
    """Slope and its standard error. One dominating step is taken out; residuals may be correlated.

    The error is inflated by (1 + r) / (1 - r) with r the lag-one correlation of the residuals.
    """
    count = len(times)
    if count < 3:
        return (values[-1] - values[0]) / max(times[-1] - times[0], 1e-9), 0.0
    values = without_dominating_step(values)
    mean_time, mean_value, spread, product = _moments(times, values)
    slope = product / spread
    residuals = [value - mean_value - slope * (time - mean_time) for time, value in zip(times, values, strict=True)]
    variance = sum([r * r for r in residuals])
    if count < 5:
        return slope, math.sqrt(variance / max(count - 2, 1) / spread)
    lagged = sum([before * after for before, after in pairwise(residuals)])
    correlation = min(max(lagged / (variance + 1e-9) + 1.0 / count, 0.0), 0.8)
    inflation = (1 + correlation) / (1 - correlation)
    return slope, math.sqrt(variance / (count - 2) / spread * inflation)


def without_dominating_step(values: list[float]) -> list[float]:
    """The values with one dominating upward step that lasts, if there is one, taken out of all that follow."""
    steps = differences(values)
    ordered = sorted(steps)
    largest, next_largest = ordered[-1], ordered[-2]
    if largest <= DOMINATING_STEP * max(next_largest, 1e-9) or largest <= 0.5 * (values[-1] - values[0]):
        return values
    at = steps.index(largest) + 1
    if min(values[at:]) < values[at] - 0.5 * largest:
        return values  # it came down again: taking it out would turn what follows into a fall
    return values[:at] + [value - largest for value in values[at:]]


def without_spikes(values: list[float]) -> list[float]:
    """The values with every peak of at most two points cut down to its higher shoulder; at least three values."""
    floors = [min(values[i : i + 3]) for i in range(len(values) - 2)]
    return [max(floors[max(i - 2, 0) : i + 1]) for i in range(len(values))]


def scatter(increments: list[float], durations: list[float], rate: float) -> float:
    """Standard deviation of the increments around a constant rate."""
    total = 0.0
    for increment, duration in zip(increments, durations, strict=True):
        off = increment - rate * duration
        total += off * off
    return math.sqrt(total / (len(increments) - 1))


def deepest_draw_down(values: list[float]) -> float:
    """Largest fall from a running maximum."""
    highest = values[0]
    deepest = 0.0
    for value in values:
        if value > highest:
            highest = value
        elif highest - value > deepest:
            deepest = highest - value
    return deepest


def _moments(times: list[float], values: list[float]) -> tuple[float, float, float, float]:
    """Mean time, mean value, and the sums of squared time offsets and of their products with the values' offsets."""
    count = len(times)
    mean_time = sum(times) / count
    mean_value = sum(values) / count
    spread = product = 0.0
    for time, value in zip(times, values, strict=True):
        offset = time - mean_time
        spread += offset * offset
        product += offset * (value - mean_value)
    return mean_time, mean_value, spread, product
