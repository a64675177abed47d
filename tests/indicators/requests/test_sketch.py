"""A sketch: exact count, sum and ends; every quantile within its stated error; additive, and subtractive."""

import json
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.indicators.requests.sketch import CEILING, FLOOR, RELATIVE_ERROR, Sketch

TIMES = st.lists(st.floats(1e-4, 1e5, exclude_min=True), min_size=1, max_size=200)
QS = st.sampled_from((0.01, 0.5, 0.9, 0.95, 0.99, 1.0))


def sketch_of(*values: float) -> Sketch:
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    return sketch


def rank(values: list[float], q: float) -> float:
    return sorted(values)[max(1, math.ceil(q * len(values) - 1e-9)) - 1]


@given(values=TIMES, q=QS)
def test_a_quantile_is_within_half_a_percent_of_the_value_of_its_rank_and_its_bounds_hold_it(
    values: list[float], q: float
):
    found = sketch_of(*values).quantile(q)
    true = rank(values, q)
    assert found is not None
    value, low, high = found.value, found.low, found.high
    assert value is not None
    assert high is not None
    assert abs(value - true) <= RELATIVE_ERROR * true * (1 + 1e-9)
    assert low * (1 - 1e-12) <= true <= high * (1 + 1e-12)
    assert low <= value <= high


@given(values=TIMES)
def test_count_mean_and_ends_are_exact(values: list[float]):
    sketch = sketch_of(*values)
    assert sketch.count == len(values)
    assert sketch.mean == pytest.approx(statistics.fmean(values), rel=1e-12)
    assert (sketch.least, sketch.most) == (min(values), max(values))


@given(first=TIMES, second=TIMES)
def test_two_sketches_add_up_to_that_of_all_values_whatever_the_order(first: list[float], second: list[float]):
    merged, other_way = sketch_of(*first), sketch_of(*second)
    merged.merge(sketch_of(*second))
    other_way.merge(sketch_of(*first))
    whole = sketch_of(*first, *second)
    for q in (0.1, 0.5, 0.99):
        assert merged.quantile(q) == other_way.quantile(q) == whole.quantile(q)
    assert merged.count == whole.count


@given(kept=TIMES, removed=TIMES)
def test_what_was_added_can_be_taken_out_again(kept: list[float], removed: list[float]):
    sketch = sketch_of(*kept, *removed)
    for value in removed:
        sketch.remove(value)
    assert sketch.count == len(kept)
    found = sketch.quantile(0.5)
    assert found is not None
    assert found.value == pytest.approx(rank(kept, 0.5), rel=RELATIVE_ERROR * 1.001)


@given(values=st.lists(st.floats(-1.0, 1e5), max_size=50))
def test_a_saved_sketch_comes_back_the_same(values: list[float]):
    sketch = sketch_of(*values)
    again = Sketch.from_document(json.loads(json.dumps(sketch.document())))
    assert again.distribution() == sketch.distribution()
    again.add(3.0)
    sketch.add(3.0)
    assert again.distribution() == sketch.distribution()


def test_tiny_and_negative_values_count_at_the_floor_and_are_summed_as_they_are():
    sketch = sketch_of(-0.5, 0.0, 1e-6, 2.0)
    assert sketch.mean == pytest.approx(1.500001 / 4)
    median = sketch.quantile(0.5)
    assert median is not None
    assert median.value == 0.0
    assert median.high == FLOOR


def test_what_is_larger_than_any_time_stays_in_the_last_bucket():
    sketch = sketch_of(CEILING * 1e9, 1.0)
    assert sketch.most == CEILING * 1e9
    found = sketch.quantile(0.5)
    assert found is not None
    assert found.value == pytest.approx(1.0, rel=RELATIVE_ERROR)


def test_nothing_is_no_data_and_not_zero():
    found = Sketch().distribution()
    assert (found.status, found.count, found.mean) == ("no_data", 0, None)
    assert set(found.quantiles.values()) == {None}


@pytest.mark.parametrize(
    "changes", [{"n": 3}, {"buckets": [-1]}, {"buckets": [1.5]}, {"buckets": None}, {"ends": [1]}, {"below": "x"}]
)
def test_a_damaged_document_is_refused(changes: dict[str, object]):
    document = {**sketch_of(1.0, 2.0).document(), **changes}
    with pytest.raises((ValueError, TypeError, OverflowError, IndexError)):
        Sketch.from_document(document)
