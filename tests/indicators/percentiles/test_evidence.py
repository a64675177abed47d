"""Evidence: additive, mergeable, bounded, saved and restored."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import StateError
from agent.indicators.percentiles import Evidence
from agent.indicators.percentiles.bounds import Bounds
from tests.indicators.percentiles.observed import SMALL, TPOT, binned, evidence_of, windows


def told(evidence: Evidence) -> object:
    """What an evidence says, free of the order in which it learned it."""
    tables = [
        sorted((key, sums[:2], [round(value, 9) for value in sums[2:]]) for key, sums in cells.cells.items())
        for cells in (evidence.groups, evidence.spans)
    ]
    levels = evidence.groups.level, evidence.spans.level
    return evidence.counts, evidence.unsummed, evidence.above, levels, tables, sorted(evidence.whole.items())


@given(windows, windows)
def test_merging_commutes(a, b):
    ab, ba = evidence_of(a, thresholds=(1.5,)), evidence_of(b, thresholds=(1.5,))
    ab.merge(evidence_of(b, thresholds=(1.5,)))
    ba.merge(evidence_of(a, thresholds=(1.5,)))
    assert told(ab) == told(ba)


@given(windows, windows)
def test_merging_is_the_same_as_adding_everything_to_one(a, b):
    merged = evidence_of(a, thresholds=(1.5,))
    merged.merge(evidence_of(b, thresholds=(1.5,)))
    assert told(merged) == told(evidence_of(a + b, thresholds=(1.5,)))


def many(seed: int, records: int) -> list[list[float]]:
    draw = random.Random(seed)
    return [[draw.expovariate(30.0) for _ in range(draw.randint(1, 9))] for _ in range(records)]


def test_merging_commutes_when_memory_has_to_be_saved():
    a, b, c = many(1, 700), many(2, 400), many(3, 900)
    left = evidence_of(a, TPOT)
    left.merge(evidence_of(b, TPOT))
    left.merge(evidence_of(c, TPOT))
    right = evidence_of(c, TPOT)
    right.merge(evidence_of(a, TPOT))
    right.merge(evidence_of(b, TPOT))
    assert told(left) == told(right) == told(evidence_of(a + b + c, TPOT))


@given(windows)
def test_evidence_survives_json(window):
    evidence = evidence_of(window, thresholds=(1.5,))
    evidence.add({0: 2}, 7.0)
    again = Evidence.from_json(json.loads(json.dumps(evidence.to_json())))
    assert told(again) == told(evidence)
    assert again.to_json() == evidence.to_json()


def test_restored_evidence_goes_on_as_if_nothing_had_happened():
    first, then = many(5, 900), many(6, 300)
    evidence = evidence_of(first, TPOT)
    again = Evidence.from_json(json.loads(json.dumps(evidence.to_json())))
    for record in then:
        evidence.add(binned(TPOT, record), sum(record))
        again.add(binned(TPOT, record), sum(record))
    assert told(again) == told(evidence)


def test_three_days_of_records_fit_in_twenty_kilobytes():
    evidence = evidence_of(many(7, 5000), TPOT, (0.02,))
    assert len(json.dumps(evidence.to_json(), separators=(",", ":"))) <= 20_000


@pytest.mark.parametrize("damage", [{"format": 99}, {"groups": 3}, {"counts": "x"}, {"edges": [2, 1]}, {"steps": None}])
def test_damaged_evidence_is_refused_with_a_clear_error(damage):
    data = evidence_of([[1.5], [3.0, 4.0]]).to_json() | damage
    with pytest.raises(StateError):
        Evidence.from_json(data)


@pytest.mark.parametrize("total", [0.5, 30.0, -889.7, float("nan"), float("inf")])
def test_a_sum_that_contradicts_its_buckets_counts_by_bucket_alone(total):
    evidence = Evidence(SMALL, (1.5,))
    assert not evidence.add({1: 3}, total)
    assert evidence.contradicted == 1
    assert evidence.unsummed == [0, 3, 0, 0]
    assert Bounds(evidence).above(1.5) == (0, 3)


def test_a_missing_sum_is_no_contradiction():
    evidence = Evidence(SMALL)
    assert not evidence.add([1, 0, 2, 0], None)
    assert evidence.contradicted == 0
    assert evidence.count == 3


def test_histograms_with_other_edges_are_not_merged():
    with pytest.raises(ValueError, match="different edges"):
        Evidence((1.0, 2.0)).merge(Evidence((1.0, 3.0)))


@pytest.mark.parametrize("edges", [(), (2.0, 1.0), (0.0, 1.0), (1.0, 1.0)])
def test_edges_that_make_no_histogram_are_refused(edges):
    with pytest.raises(ValueError, match="edges"):
        Evidence(edges)


def test_a_bucket_that_fell_is_refused():
    with pytest.raises(ValueError, match="decreased"):
        Evidence(SMALL).add({1: -1}, 0.0)


@given(st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_dense_and_sparse_counts_say_the_same(counts):
    dense, sparse = Evidence(SMALL), Evidence(SMALL)
    dense.add(counts, None)
    sparse.add(dict(enumerate(counts)), None)
    assert told(dense) == told(sparse)
