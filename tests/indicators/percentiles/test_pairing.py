"""Torn reads: put back together, or given up, never believed."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from agent.indicators.percentiles import Evidence, Pairing, feed
from agent.indicators.percentiles.bounds import Bounds
from tests.indicators.percentiles.observed import SMALL, TPOT, binned


def paired(intervals: list[tuple[dict[int, int], float | None]], edges: tuple[float, ...]) -> tuple[Evidence, Pairing]:
    evidence, pairing = Evidence(edges), Pairing(edges)
    for counts, total in intervals:
        feed(evidence, pairing.push(counts, total))
    feed(evidence, pairing.flush())
    return evidence, pairing


def torn_by(
    window: list[list[float]], edges: tuple[float, ...], tears: list[tuple[int, int]]
) -> list[tuple[dict[int, int], float | None]]:
    """The intervals' increases where, per (interval, direction), one value is in the neighbour's sum."""
    sums = [sum(record) for record in window]
    for at, direction in tears:
        if window[at] and 0 <= at + direction < len(window):
            value = window[at][0]
            sums[at] -= value
            sums[at + direction] += value
    return [(binned(edges, record), total) for record, total in zip(window, sums, strict=True)]


def test_a_sum_that_came_one_scrape_early_is_put_back():
    # 16 ms is in the first interval's sum and in the second's bucket.
    evidence, pairing = paired([({}, 0.016), ({1: 1}, 0.0)], TPOT)
    assert pairing.torn == 1
    assert evidence.contradicted == 0
    assert (evidence.count, evidence.records) == (1, 1)
    assert abs(evidence.sum - 0.016) < 1e-12


def test_a_sum_that_came_one_scrape_late_is_put_back():
    evidence, pairing = paired([({1: 2}, 0.030), ({1: 1}, 0.0), ({1: 1}, 0.029), ({1: 1}, 0.012)], TPOT)
    assert pairing.torn == 1
    assert evidence.contradicted == 0
    assert evidence.count == 5
    assert abs(evidence.sum - 0.071) < 1e-12


def test_tears_that_were_seen_widen_the_bounds_for_those_that_were_not():
    whole: list[tuple[dict[int, int], float | None]] = [({1: 3}, 0.045)] * 40
    calm, _ = paired(whole, TPOT)
    torn, _ = paired([*whole, ({}, 0.016), ({1: 1}, 0.0)], TPOT)
    assert torn.torn == 1
    calm_least, calm_most = Bounds(calm).above(0.020)
    least, most = Bounds(torn).above(0.020)
    assert calm_least == least == 0
    assert calm_most + 2 <= most <= calm_most + 8


def test_whole_records_pass_untouched_and_one_interval_late():
    pairing = Pairing(TPOT)
    assert pairing.push({1: 1}, 0.012) == []
    (record,) = pairing.push({1: 2}, 0.030)
    assert (record.counts, record.total) == ({1: 1}, 0.012)
    assert pairing.pending is not None
    assert pairing.pending.counts == {1: 2}


def test_a_poisoned_sum_costs_only_its_own_interval():
    evidence, pairing = paired([({1: 1}, 0.012), ({1: 2}, -889.7), ({1: 1}, 0.014)], TPOT)
    assert (evidence.contradicted, evidence.records, pairing.torn) == (1, 2, 0)
    assert evidence.unsummed[1] == 2


def test_a_sum_that_never_fits_is_given_up():
    evidence, pairing = paired([({1: 1}, 5.0)] * 12, TPOT)
    assert evidence.count == 12
    assert evidence.records == 0
    assert pairing.pending is None


def test_an_unknown_sum_lets_the_record_before_it_go():
    evidence, _ = paired([({1: 1}, 0.012), ({1: 2}, None), ({1: 1}, 0.013)], TPOT)
    assert (evidence.records, evidence.unsummed[1], evidence.contradicted) == (2, 2, 0)


singles = st.lists(st.floats(0.011, 0.024), max_size=1)


@given(
    st.lists(singles, min_size=3, max_size=30),
    st.data(),
    st.floats(0.01, 0.025),
)
def test_torn_reads_of_single_observations_break_no_bound(window, data, x):
    # One value per interval: the neighbour of a torn value always shows a contradiction, so every tear is found.
    at = data.draw(st.integers(0, len(window) - 1))
    direction = data.draw(st.sampled_from([-1, 1]))
    evidence, _ = paired(torn_by(window, TPOT, [(at, direction)]), TPOT)
    least, most = Bounds(evidence).above(x)
    assert evidence.count == sum(map(len, window))
    assert least <= sum(value > x for record in window for value in record) <= most


def test_torn_reads_in_busy_intervals_break_no_bound():
    draw = random.Random(11)
    for seed in range(20):
        draw.seed(seed)
        window = [[draw.gauss(0.018, 0.003) for _ in range(draw.randint(0, 8))] for _ in range(200)]
        tears = [(draw.randrange(200), draw.choice([-1, 1])) for _ in range(4)]
        evidence, _ = paired(torn_by(window, TPOT, tears), TPOT)
        assert evidence.count == sum(map(len, window))
        for x in (0.014, 0.018, 0.020, 0.022):
            least, most = Bounds(evidence).above(x)
            assert least <= sum(value > x for record in window for value in record) <= most


@given(st.lists(st.lists(st.floats(0.0, 9.0), max_size=4), min_size=1, max_size=20))
def test_no_observation_is_lost_or_counted_twice(window):
    evidence, pairing = paired(torn_by(window, SMALL, []), SMALL)
    assert pairing.torn == 0
    assert evidence.count == sum(map(len, window))
    assert evidence.contradicted == 0
