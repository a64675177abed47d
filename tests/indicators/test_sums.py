"""Quantiles of a sum of two parts: bounds that hold however the parts go together."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from agent.indicators.sums import quantile_bounds, quantiles_of_sum
from agent.state import QUANTILES
from agent.windows.increase import HistogramIncrease

EDGES = (0.1, 0.5, 1.0, 2.5, 10.0)


def histogram(values: list[float]) -> HistogramIncrease:
    found = HistogramIncrease.empty(EDGES)
    for value in values:
        found.counts[next((i for i, edge in enumerate(EDGES) if value <= edge), len(EDGES))] += 1
        found.total += value
    return found


@given(st.lists(st.tuples(st.floats(0, 9.9), st.floats(0, 9.9)), min_size=1, max_size=60))
def test_the_true_quantile_of_the_sums_lies_within_the_bounds(pairs):
    found = quantiles_of_sum(histogram([p for p, _ in pairs]), histogram([d for _, d in pairs]))
    sums = sorted(p + d for p, d in pairs)
    for name, q in QUANTILES:
        bounds = found[name]
        assert bounds is not None
        assert bounds.value is None
        true = sums[max(1, math.ceil(q * len(sums) - 1e-9)) - 1]
        assert bounds.low - 1e-9 <= true
        assert bounds.high is None or true <= bounds.high + 1e-9


def test_bounds_are_reached_by_pairings_of_the_same_parts():
    # Two values each, 0 or 1: paired one way every sum is 1, the other way sums are 0 and 2.
    def halves(q: float) -> tuple[float, float]:
        value = 0.0 if q <= 0.5 else 1.0
        return value, value

    assert quantile_bounds(halves, halves, 0.5) == (0.0, 1.0)
    assert quantile_bounds(halves, halves, 1.0) == (1.0, 2.0)


def test_above_the_top_edge_nothing_bounds_the_sum():
    found = quantiles_of_sum(histogram([0.05, 20.0]), histogram([0.05, 0.05]))
    median, top = found["0.5"], found["0.99"]
    assert median is not None
    assert median.high is None or median.high >= 0.2
    assert top is not None
    assert (top.low, top.high) == (10.0, None)


def test_without_observations_of_both_parts_there_is_no_quantile():
    assert set(quantiles_of_sum(histogram([]), histogram([1.0])).values()) == {None}
    assert set(quantiles_of_sum(HistogramIncrease((), [3.0]), histogram([1.0])).values()) == {None}
