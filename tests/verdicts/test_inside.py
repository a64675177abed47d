"""What is certain of the promised requests when some may not be promised: checked against every split there is."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.verdicts.inside import Inside
from agent.windows.increase import HistogramIncrease
from tests.verdicts.boxes import counted, cumulative

EDGES = (1.0, 2.5, 5.0, 10.0)
observations = st.lists(st.floats(0.001, 20.0), min_size=2, max_size=8)
ROUNDING = 1e-9


@given(
    observations,
    st.integers(0, 7),
    st.sampled_from([0.5, 0.9, 0.95, 0.99]),
    st.sampled_from([0.5, 1.0, 2.5, 3.0, 7.0]),
)
def test_no_choice_of_the_outside_requests_leaves_the_bounds(
    values: list[float], outside: int, q: float, target: float
) -> None:
    outside = min(outside, len(values) - 1)
    inside = Inside(counted(values, EDGES), outside)
    mean, quantile, share = inside.mean(), inside.quantile(q), inside.share_within(target)
    for gone in range(outside + 1):
        for rest in combinations(sorted(values), len(values) - gone):
            room = ROUNDING * max(rest)
            assert mean.low - room <= sum(rest) / len(rest) <= mean.high + room
            ranked = rest[max(0, math.ceil(q * len(rest) - 1e-9) - 1)]
            assert quantile.low <= ranked <= quantile.high
            within = sum(value <= target for value in rest) / len(rest)
            assert share.low - ROUNDING <= within <= share.high + ROUNDING


@given(observations)
def test_with_nothing_outside_the_mean_is_exact(values: list[float]) -> None:
    mean = Inside(counted(values, EDGES)).mean()
    assert mean.low == mean.value == mean.high == pytest.approx(sum(values) / len(values))


def test_the_mean_inside_is_as_sharp_as_buckets_and_sum_allow() -> None:
    # 400 requests, all between 10 and 25 ms, 17 ms on average; 80 of them may lie outside.
    mean = Inside(HistogramIncrease((0.010, 0.025), [0.0, 400.0, 0.0], 6.8), 80).mean()
    assert mean.value == pytest.approx(0.017)
    assert mean.low == pytest.approx((6.8 - 80 * 0.025) / 320)
    assert mean.high == pytest.approx((6.8 - 80 * 0.010) / 320)


def test_the_sum_bounds_what_lies_above_the_top_edge() -> None:
    mean = Inside(HistogramIncrease((1.0,), [5.0, 5.0], 60.0), 2).mean()
    assert mean.high == pytest.approx(60.0 / 8)
    assert mean.low == pytest.approx(3 / 8)  # the two outside may have taken nearly all of the sum


def test_observations_without_a_usable_sum_are_bounded_by_their_buckets() -> None:
    mean = Inside(HistogramIncrease((1.0, 2.0), [0.0, 10.0, 0.0], 7.5, unsummed=5.0)).mean()
    assert mean.value == pytest.approx(1.5)
    assert (mean.low, mean.high) == pytest.approx((1.25, 1.75))


def test_a_bucket_below_zero_for_a_moment_counts_as_empty() -> None:
    inside = Inside(HistogramIncrease((1.0, 2.0), [-1.0, 10.0, 0.0], 15.0))
    assert inside.count == 10
    assert inside.mean().value == pytest.approx(15.0 / 9)


def test_a_share_between_edges_is_bounded_and_interpolated_for_display_only() -> None:
    histogram = cumulative({0.1: 120, 0.25: 880, 0.5: 960, 0.75: 990, 1.0: 1000}, 200.0)
    share = Inside(histogram).share_within(0.3)
    assert (share.low, share.high) == pytest.approx((0.88, 0.96))
    assert share.value == pytest.approx(0.896)
    exact = Inside(histogram).share_within(0.5)
    assert exact.low == exact.high == pytest.approx(0.96)


def test_when_all_may_be_outside_nothing_is_known() -> None:
    inside = Inside(counted([1.0, 2.0], EDGES), 2)
    assert inside.mean().high == math.inf
    assert inside.quantile(0.5).high == math.inf
    assert (inside.share_within(1.0).low, inside.share_within(1.0).high) == (0.0, 1.0)
