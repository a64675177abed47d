"""The small statistics: exact on exact input, honest on noise."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.indicators.memory.fit import (
    deepest_draw_down,
    differences,
    least_squares_slope,
    line,
    median,
    scatter,
    without_dominating_step,
    without_spikes,
)

numbers = st.floats(-1e9, 1e9)


@given(slope=numbers, start=numbers)
def test_a_straight_line_is_found_exactly(slope: float, start: float) -> None:
    times = [float(index) for index in range(13)]
    values = [start + slope * time for time in times]
    assert least_squares_slope(times, values) == pytest.approx(slope, rel=1e-6, abs=1e-3)
    found, _ = line(times, [index * 2.0 for index in times])
    assert found == pytest.approx(2.0)


def test_the_error_of_a_line_holds_the_truth_under_correlated_noise() -> None:
    rng = random.Random(3)
    inside = 0
    for _ in range(300):
        times = [float(index) for index in range(40)]
        noise, values = 0.0, []
        for time in times:
            noise = 0.6 * noise + rng.gauss(0, 1)
            values.append(0.5 * time + noise)
        slope, error = line(times, values)
        inside += abs(slope - 0.5) < 2 * error
    assert inside / 300 > 0.85


@given(st.lists(numbers, min_size=1, max_size=30))
def test_the_median_has_half_of_the_values_on_each_side(values: list[float]) -> None:
    middle = median(values)
    assert sum(value <= middle for value in values) >= len(values) / 2
    assert sum(value >= middle for value in values) >= len(values) / 2


def test_one_dominating_step_is_taken_out_and_a_ramp_is_not() -> None:
    assert without_dominating_step([0, 1, 2, 102, 103]) == [0, 1, 2, 2, 3]
    assert without_dominating_step([0, 1, 2, 3, 4]) == [0, 1, 2, 3, 4]


def test_a_step_that_comes_down_again_is_a_spike_and_is_not_taken_out_of_what_follows() -> None:
    spike = [0.0, 1.0, 2.0, 102.0, 4.0, 5.0]
    assert without_dominating_step(spike) == spike


def test_peaks_of_one_or_two_points_are_cut_down_and_longer_ones_stay() -> None:
    assert without_spikes([0, 1, 90, 3, 4, 80, 90, 7, 8, 9]) == [0, 1, 3, 3, 4, 7, 7, 7, 7, 7]
    assert without_spikes([0, 0, 50, 50, 50, 0, 0]) == [0, 0, 50, 50, 50, 0, 0]


@given(st.lists(numbers, min_size=3, max_size=30))
def test_cutting_spikes_never_lifts_a_value_and_changes_nothing_the_second_time(values: list[float]) -> None:
    cut = without_spikes(values)
    assert all(after <= before for after, before in zip(cut, values, strict=True))
    assert without_spikes(cut) == cut


@given(st.lists(numbers, min_size=1, max_size=30))
def test_the_deepest_draw_down_is_the_largest_fall_from_any_earlier_height(values: list[float]) -> None:
    falls = [high - low for index, high in enumerate(values) for low in values[index:]]
    assert deepest_draw_down(values) == max(falls)


def test_scatter_is_zero_on_a_line_and_the_deviation_around_it_otherwise() -> None:
    assert scatter([2.0, 4.0], [1.0, 2.0], 2.0) == 0
    assert scatter([1.0, -1.0, 1.0, -1.0], [1.0] * 4, 0.0) == pytest.approx(math.sqrt(4 / 3))
    assert differences([1.0, 3.0, 2.0]) == [2.0, -1.0]
