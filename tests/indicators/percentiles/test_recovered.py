"""Recovered distributions: exact evidence of windows, fine histograms that only grow, and what survives a restart."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.indicators.percentiles import Percentiles
from agent.indicators.percentiles.recovered import Recovered, fine_edges, followed_in
from agent.indicators.percentiles.windows import window_evidence, without_negatives
from agent.model import HistogramKey, SeriesKey
from agent.windows.interval import Interval
from tests.readings import layout

EDGES = (0.01, 0.025, 0.05)
LAYOUT = layout(histograms=[HistogramKey(SeriesKey("0", "tpot"), EDGES)])


def bucket_of(value: float) -> int:
    return sum(1 for edge in EDGES if value > edge)


def interval(number: int, values: list[float]) -> Interval:
    made = Interval(5.0 * number, 5.0 * (number + 1), LAYOUT)
    counts: dict[int, float] = {}
    for value in values:
        counts[bucket_of(value)] = counts.get(bucket_of(value), 0.0) + 1
    if counts:
        made.put_histogram(0, counts, sum(values))
    return made


times = st.lists(st.lists(st.floats(0.001, 0.2), max_size=5), min_size=1, max_size=40)


@given(times)
def test_the_bounds_of_a_window_hold_its_true_quantiles(spans: list[list[float]]) -> None:
    truth = sorted(value for values in spans for value in values)
    evidence = window_evidence([[interval(i, values) for i, values in enumerate(spans)]], frozenset({"tpot"}), {})
    if not truth:
        assert "tpot" not in evidence or evidence["tpot"].count == 0
        return
    assert evidence["tpot"].count == len(truth)
    median = Percentiles(evidence["tpot"]).quantile(0.5)
    assert median is not None
    true = truth[(len(truth) + 1) // 2 - 1]
    assert median.low - 1e-9 <= true
    assert median.high is None or true <= median.high + 1e-9


@given(times)
def test_the_fine_histogram_only_grows_and_loses_nothing_that_was_spread(spans: list[list[float]]) -> None:
    recovered = Recovered({"tpot": (0.020,)})
    before: list[float] = []
    for number, values in enumerate(spans):
        recovered.take("decode", "decode-0", interval(20 * number, values))
        for _, _, histogram in recovered.histograms():
            assert all(later >= earlier - 1e-9 for earlier, later in zip(before, histogram.counts, strict=False))
            before = list(histogram.counts)
    assert sum(before) <= sum(len(values) for values in spans) + 1e-6


def test_every_objective_target_is_an_edge() -> None:
    edges = fine_edges("tpot", EDGES, (0.020, 0.0333))
    assert {0.020, 0.0333, *EDGES} <= set(edges)
    assert all(a < b for a, b in pairwise(edges))


def test_a_correction_from_a_neighbouring_page_never_makes_a_negative_record() -> None:
    steps = [({0: 2, 1: 1}, 0.02), ({0: -2}, 0.0), ({1: 3}, 0.06)]
    joined = without_negatives(steps)
    assert all(count > 0 for counts, _ in joined for count in counts.values())
    assert sum(count for counts, _ in joined for count in counts.values()) == 4


def test_targets_with_other_edges_leave_the_metric_to_its_buckets() -> None:
    other = layout(histograms=[HistogramKey(SeriesKey("0", "tpot"), (0.02,))])
    strange = Interval(0.0, 5.0, other)
    strange.put_histogram(0, {0: 1.0}, 0.01)
    assert window_evidence([[interval(0, [0.02])], [strange]], frozenset({"tpot"}), {}) == {}


def test_a_restart_of_pdwatch_keeps_histograms_and_long_windows() -> None:
    recovered = Recovered({"tpot": (0.020,)})
    for number in range(400):
        recovered.take("decode", "decode-0", interval(number, [0.012 + 0.00002 * number, 0.03]))
    again = Recovered({"tpot": (0.020,)})
    again.restore(json.loads(json.dumps(dict(recovered.saved()))))
    now = 5.0 * 400
    for one, other in zip(recovered.histograms(), again.histograms(), strict=True):
        assert one[2].counts == pytest.approx(other[2].counts)
    before, after = (r.over("decode", "tpot", 1800.0, now) for r in (recovered, again))
    assert before is not None
    assert after is not None
    assert before.count == after.count
    assert before.quantile(0.5) == after.quantile(0.5)


@settings(max_examples=20)
@given(times)
def test_whoever_asks_in_between_finds_every_record_and_changes_nothing(spans: list[list[float]]) -> None:
    asked, left = Recovered({"tpot": (0.020,)}), Recovered({"tpot": (0.020,)})
    for number, values in enumerate(spans):
        for recovered in (asked, left):
            recovered.take("decode", "decode-0", interval(number, values))
        found = asked.over("decode", "tpot", 3600.0, 5.0 * (number + 1))
        # The newest record is held until the next one shows that it is whole.
        whole = [values for values in spans[: number + 1] if values][:-1]
        assert (found.count if found is not None else 0) <= sum(map(len, whole))
    one, other = (r.over("decode", "tpot", 3600.0, 5.0 * len(spans)) for r in (asked, left))
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert one.count == other.count
        assert one.bounds.above(0.020) == other.bounds.above(0.020)


def test_a_prefill_pool_has_no_time_per_token_to_recover() -> None:
    recovered = Recovered({"tpot": (0.020,)})
    for number in range(40):
        recovered.take("prefill", "prefill-0", interval(number, [0.0, 0.0]), followed_in("prefill"))
    assert list(recovered.histograms()) == []
    assert recovered.over("prefill", "tpot", 600.0, 200.0) is None
