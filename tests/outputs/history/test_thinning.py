"""Thinning: what many rows may say as one point, and that nothing is claimed of the time between."""

from hypothesis import given
from hypothesis import strategies as st

from agent.outputs.history.thinning import SLOT_SECONDS, Point, Row, join, stretches, width_of, with_gaps


def exact(minute: float, value: float | None, count: float | None = None) -> Row:
    return Row(60.0 * minute, value, value, value, count)


def thin(rows: list[Row], begin: float, end: float, most_points: int, averaged: bool) -> list[Point]:
    width_seconds = width_of(begin, end, most_points)
    return with_gaps(stretches(rows, width_seconds, averaged), width_seconds)


def test_a_mean_counts_by_its_observations() -> None:
    joined = join([exact(0, 1.0, 10), exact(1, 4.0, 30)], averaged=True)
    assert (joined.value, joined.observations, joined.looks) == (3.25, 20, 2)


def test_rows_of_many_looks_weigh_by_them() -> None:
    minute = join([exact(0, 1.0), exact(0.25, 1.0), exact(0.5, 1.0)], averaged=True)
    assert join([minute, exact(1, 5.0)], averaged=True).value == 2.0


def test_what_may_be_a_percentile_is_the_latest_and_never_a_mean() -> None:
    rows = [Row(0, 2.0, 1.5, 2.5, 9), Row(60, 1.0, 0.5, 1.2, 9)]
    joined = join(rows, averaged=False)
    assert (joined.value, joined.low, joined.high) == (1.0, 0.5, 2.5)


def test_one_look_that_nothing_bounds_from_above_leaves_the_whole_unbounded() -> None:
    assert join([Row(0, 2.0, 2.0, None, 1), Row(60, 1.0, 0.5, 1.5, 1)], averaged=True).high is None


def test_only_bounds_may_be_known() -> None:
    joined = join([Row(0, None, 1.0, 2.0, 5), Row(60, None, 0.5, 1.5, 5)], averaged=False)
    assert (joined.value, joined.low, joined.high, joined.observations) == (None, 0.5, 2.0, 5)


def test_no_traffic_does_not_pull_a_mean_towards_zero_nor_its_count() -> None:
    joined = join([exact(0, 2.0, 8), Row(60, None, None, None, 0)], averaged=True)
    assert (joined.value, joined.observations) == (2.0, 8)


def test_a_look_without_traffic_is_a_point_without_a_value() -> None:
    assert thin([Row(30, None, None, None, 0.0)], 0, 60, 10, True) == [Point(30, None, None, None, 0)]


def test_a_gap_is_marked_and_not_bridged() -> None:
    points = thin([exact(0.5, 1.0), exact(1.5, 1.0), exact(9.5, 3.0)], 0, 600, 300, True)
    assert [(point.at, point.value) for point in points] == [(30, 1.0), (90, 1.0), (120, None), (570, 3.0)]


def test_rows_after_each_other_have_no_gap() -> None:
    points = thin([exact(n + 0.75, 1.0) for n in range(30)], 0, 1800, 300, True)
    assert [point.value for point in points] == [1.0] * 30


known = st.floats(0, 1e6)
minutes = st.lists(st.tuples(st.integers(0, 1439), known, known, known), unique_by=lambda row: row[0], max_size=80)


@given(minutes, st.integers(2, 400), st.booleans())
def test_points_are_few_in_order_and_hold_every_value_between_low_and_high(
    drawn: list[tuple[int, float, float, float]], most: int, averaged: bool
) -> None:
    rows = []
    for minute, *values in sorted(drawn):
        low, value, high = sorted(values)
        rows.append(Row(minute * SLOT_SECONDS + 45, value, low, high, 3.0))
    points = thin(rows, 0, 86400, most, averaged)
    assert len(points) <= most
    assert [point.at for point in points] == sorted({point.at for point in points})
    for point in points:
        if point.value is not None:
            assert point.low is not None
            assert point.high is not None
            assert point.low - 1e-6 <= point.value <= point.high + 1e-6
    if rows:
        assert min(point.low for point in points if point.low is not None) == min(row.low or 0.0 for row in rows)
        assert max(point.high for point in points if point.high is not None) == max(row.high or 0.0 for row in rows)
