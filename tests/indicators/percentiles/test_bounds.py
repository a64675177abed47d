"""Certain bounds: whatever the values were, the truth is inside."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.indicators.percentiles import Evidence
from agent.indicators.percentiles.bounds import Bounds
from tests.indicators.percentiles.observed import SMALL, TPOT, binned, evidence_of, values, windows

points = st.one_of(values, st.floats(0.0, 12.0))


@given(windows, points)
def test_the_count_above_any_point_lies_between_the_bounds(window, x):
    bounds = Bounds(evidence_of(window))
    above = sum(value > x for record in window for value in record)
    least, most = bounds.above(x)
    assert least <= above <= most


@given(windows, st.sampled_from([0.5, 1.5, 2.5, 3.0, 6.0]))
def test_a_known_threshold_is_bounded_at_least_as_sharply_and_truly(window, x):
    least, most = Bounds(evidence_of(window, thresholds=(x,))).above(x)
    loose_least, loose_most = Bounds(evidence_of(window)).above(x)
    above = sum(value > x for record in window for value in record)
    assert loose_least <= least <= above <= most <= loose_most


@given(windows, st.floats(0.001, 1.0))
def test_every_quantile_lies_between_its_bounds(window, q):
    evidence = evidence_of(window)
    ordered = sorted(value for record in window for value in record)
    rank = max(1, math.ceil(q * len(ordered)))
    low, high = Bounds(evidence).quantile(rank)
    assert low - 1e-9 <= ordered[rank - 1] <= high + 1e-9


@given(windows, windows, points)
def test_bounds_hold_without_sums_too(window, loose, x):
    evidence = evidence_of(window)
    for record in loose:
        evidence.add(binned(SMALL, record), None)
    least, most = Bounds(evidence).above(x)
    assert least <= sum(value > x for record in window + loose for value in record) <= most


def test_one_observation_is_known_exactly():
    low, high = Bounds(evidence_of([[0.0137]], TPOT)).quantile(1)
    assert low == pytest.approx(0.0137, rel=1e-3)
    assert high == pytest.approx(0.0137, rel=1e-3)


def test_three_observations_in_a_bucket_are_bounded_by_their_mean():
    # Mean 15 ms in (10, 25]: at most one of the three can be above 20 ms, and none must be.
    bounds = Bounds(evidence_of([[0.014, 0.015, 0.016]], TPOT))
    assert bounds.above(0.020) == (0, 1)
    # Mean 24 ms: all can be, and at least two must be (one at 20, two at 26 would leave the bucket).
    assert Bounds(evidence_of([[0.024, 0.024, 0.024]], TPOT)).above(0.020) == (3, 3)


def test_a_sum_bounds_the_bucket_above_the_last_edge():
    low, high = Bounds(evidence_of([[6.0], [8.0, 9.0]])).quantile(3)
    assert low >= 5.0
    assert high == pytest.approx(12.0)


def test_without_a_sum_nothing_bounds_the_top_bucket():
    evidence = Evidence(SMALL)
    evidence.add({3: 2}, None)
    assert Bounds(evidence).quantile(1)[1] == math.inf


def test_bounds_stay_true_when_memory_has_to_be_saved():
    draw = random.Random(4)
    window = [[draw.gauss(0.02, 0.008) % 0.2 for _ in range(draw.randint(1, 30))] for _ in range(6000)]
    evidence = evidence_of(window, TPOT)
    assert evidence.groups.level < 256
    assert evidence.spans.cells
    bounds = Bounds(evidence)
    flat = sorted(value for record in window for value in record)
    for x in (0.004, 0.0101, 0.0137, 0.02, 0.0241, 0.03, 0.06, 0.15):
        least, most = bounds.above(x)
        assert least <= sum(value > x for value in flat) <= most
    for q in (0.01, 0.5, 0.9, 0.99):
        rank = math.ceil(q * len(flat))
        low, high = bounds.quantile(rank)
        assert low <= flat[rank - 1] <= high
