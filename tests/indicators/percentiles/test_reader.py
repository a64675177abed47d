"""Estimates, shares and fine counts."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings

from agent.indicators.percentiles import Evidence, Percentiles
from tests.indicators.percentiles.observed import SMALL, TPOT, binned, evidence_of, values, windows

QUANTILES = (0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 1.0)
FINE = tuple(sorted({*SMALL, 0.5, 1.25, 1.5, 3.0, 4.0, 7.0}))


@settings(max_examples=20, deadline=None)
@given(windows)
def test_estimates_are_monotone_in_q_and_inside_their_bounds(window):
    percentiles = Percentiles(evidence_of(window))
    before = 0.0
    for q in QUANTILES:
        estimate = percentiles.quantile(q)
        assert estimate is not None
        assert estimate.low <= estimate.likely_low <= estimate.value
        assert before <= estimate.value
        if estimate.high is not None:
            assert estimate.likely_high is not None
            assert estimate.value <= estimate.likely_high <= estimate.high
        before = estimate.value


@settings(max_examples=20, deadline=None)
@given(windows, values)
def test_a_share_is_inside_its_bounds_and_the_bounds_hold_the_truth(window, x):
    flat = [value for record in window for value in record]
    share = Percentiles(evidence_of(window)).share_above(x)
    assert share is not None
    assert share.high is not None
    assert share.likely_high is not None
    truth = sum(value > x for value in flat) / len(flat)
    assert share.low - 1e-12 <= truth <= share.high + 1e-12
    assert share.low <= share.likely_low <= share.value <= share.likely_high <= share.high


@settings(max_examples=20, deadline=None)
@given(windows)
def test_fine_counts_add_up_and_agree_with_the_buckets(window):
    evidence = evidence_of(window)
    fine = Percentiles(evidence).fine_counts(FINE)
    assert min(fine) >= 0.0
    assert sum(fine) == pytest.approx(evidence.count)
    upto = 0
    for edge, count in zip(SMALL, evidence.counts, strict=False):
        upto += count
        assert sum(fine[: FINE.index(edge) + 1]) == pytest.approx(upto)


@settings(max_examples=15, deadline=None)
@given(windows, windows)
def test_an_interval_placed_by_the_windows_density_only_adds(window, interval):
    new = evidence_of(interval)
    fine = Percentiles(evidence_of(window)).fine_counts(FINE, of=new)
    assert min(fine) >= 0.0
    assert sum(fine) == pytest.approx(new.count)


def test_without_observations_there_is_no_estimate():
    percentiles = Percentiles(Evidence(TPOT))
    assert percentiles.quantile(0.5) is None
    assert percentiles.share_above(0.02) is None
    assert percentiles.fine_counts(TPOT) == [0.0] * 20


def test_above_the_last_edge_without_sums_the_value_is_the_bound():
    evidence = Evidence(SMALL)
    evidence.add({0: 1, 3: 3}, None)
    estimate = Percentiles(evidence).quantile(0.9)
    assert estimate is not None
    assert (estimate.value, estimate.low, estimate.high, estimate.likely_high) == (5.0, 5.0, None, None)


def test_fine_edges_must_hold_the_histograms_own():
    with pytest.raises(ValueError, match="every edge"):
        Percentiles(evidence_of([[1.5]])).fine_counts((1.0, 3.0, 5.0))


@pytest.mark.parametrize("q", [-0.1, 1.5])
def test_a_quantile_outside_zero_to_one_is_refused(q):
    with pytest.raises(ValueError, match="between 0 and 1"):
        Percentiles(evidence_of([[1.5]])).quantile(q)


def test_values_seen_one_by_one_are_exact():
    draw = random.Random(2)
    flat = [draw.uniform(0.011, 0.024) for _ in range(99)]
    percentiles = Percentiles(evidence_of([[value] for value in flat], TPOT))
    for q in (0.1, 0.5, 0.9):
        estimate = percentiles.quantile(q)
        assert estimate is not None
        assert estimate.value == pytest.approx(sorted(flat)[math.ceil(q * 99) - 1], rel=0.004)


def scraped(seed: int, records: int, size: int, level_spread: float) -> tuple[Evidence, list[float]]:
    """Log-normal TPOT of mean 17 ms; ``level_spread``: relative spread of the level from record to record."""
    draw = random.Random(seed)
    evidence, flat = Evidence(TPOT, (0.02,)), []
    for _ in range(records):
        level = 0.017 * math.exp(draw.gauss(0.0, level_spread))
        record = [level * math.exp(draw.gauss(0.0, 0.06)) for _ in range(draw.randint(1, 2 * size))]
        flat += record
        evidence.add(binned(TPOT, record), sum(record))
    return evidence, sorted(flat)


@pytest.mark.parametrize(("size", "level_spread"), [(2, 0.0), (8, 0.0), (20, 0.0), (8, 0.12), (20, 0.12)])
def test_a_smooth_distribution_is_recovered_whether_or_not_records_are_alike(size, level_spread):
    evidence, flat = scraped(3, 150, size, level_spread)
    percentiles = Percentiles(evidence)
    for q, tolerance in ((0.5, 0.03), (0.95, 0.06)):
        estimate = percentiles.quantile(q)
        assert estimate is not None
        assert estimate.value == pytest.approx(flat[math.ceil(q * len(flat)) - 1], rel=tolerance)
    share = percentiles.share_above(0.02)
    assert share is not None
    assert share.value == pytest.approx(sum(x > 0.02 for x in flat) / len(flat), abs=0.06)


def test_an_answer_is_worked_out_once():
    percentiles = Percentiles(scraped(5, 40, 4, 0.0)[0])
    assert percentiles.quantile(0.95) is percentiles.quantile(0.95)


def test_a_start_from_the_window_before_gives_nearly_the_same_answer():
    evidence, _ = scraped(6, 200, 8, 0.0)
    before = Percentiles(evidence)
    before.quantile(0.5)
    evidence.add({1: 2}, 0.034)
    cold, warm = Percentiles(evidence).quantile(0.95), Percentiles(evidence, before).quantile(0.95)
    assert cold is not None
    assert warm is not None
    assert warm.value == pytest.approx(cold.value, rel=0.01)
