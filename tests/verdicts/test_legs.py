"""Sums of two legs: whatever way the legs belong together, the bounds hold."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.verdicts.inside import Inside
from agent.verdicts.legs import mean_of_sum, quantile_of_sum, share_of_sum_within
from tests.verdicts.boxes import counted

EDGES = (0.5, 1.0, 2.5, 5.0)
pairs = st.lists(st.tuples(st.floats(0.01, 6.0), st.floats(0.01, 6.0)), min_size=1, max_size=30)


@given(pairs, st.sampled_from([0.5, 0.9, 0.95, 0.99]), st.sampled_from([0.5, 1.0, 2.5, 3.0, 6.0]))
def test_no_pairing_of_the_legs_leaves_the_bounds(legs: list[tuple[float, float]], q: float, target: float) -> None:
    first, second = (Inside(counted([leg[i] for leg in legs], EDGES)) for i in (0, 1))
    sums = sorted(a + b for a, b in legs)
    quantile, share = quantile_of_sum(first, second, q), share_of_sum_within(first, second, target)
    ranked = sums[max(0, math.ceil(q * len(sums) - 1e-9) - 1)]
    assert quantile.low - 1e-9 <= ranked <= quantile.high + 1e-9
    within = sum(value <= target for value in sums) / len(sums)
    assert share.low - 1e-9 <= within <= share.high + 1e-9
    mean = mean_of_sum(first, second)
    assert mean.value == pytest.approx(sum(sums) / len(sums))
    assert mean.low == mean.high == mean.value


def test_a_percentile_of_a_sum_is_not_the_sum_of_percentiles() -> None:
    # Nine of ten legs take at most 1 s, in both legs; the slow tenth may or may not be the same requests.
    first = second = Inside(counted([0.8] * 18 + [4.0] * 2, EDGES))
    p90 = quantile_of_sum(first, second, 0.9)
    assert p90.value is None
    assert p90.low < 2.0 < p90.high
    assert p90.high <= 10.0


def test_a_leg_that_alone_is_too_slow_decides() -> None:
    slow, quick = Inside(counted([4.0] * 20, EDGES)), Inside(counted([0.1] * 20, EDGES))
    assert quantile_of_sum(slow, quick, 0.95).low == 2.5
    assert share_of_sum_within(slow, quick, 2.5).high == 0.0
    assert share_of_sum_within(slow, quick, 5.5).low == 1.0
