"""A pool's long past: any window from its rings, in bounded memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model import HistogramKey, SeriesKey
from agent.windows.history import PoolHistory
from agent.windows.interval import Interval
from tests.readings import EDGES, layout

LAYOUT = layout([SeriesKey("0", "generation_tokens")], [HistogramKey(SeriesKey("0", "ttft"), EDGES)])


def interval(end: float, seconds: float = 5.0, step: float = 1.0) -> Interval:
    made = Interval(end - seconds, end, LAYOUT)
    made.put_counter(0, step)
    made.put_histogram(0, {1: step}, 0.02 * step)
    return made


def test_a_window_holds_what_ended_inside_it() -> None:
    history = PoolHistory()
    for minute in range(180):
        history.add(interval(60.0 * minute + 30.0))
    hour = history.window(3600.0, 180 * 60.0)
    assert hour.increase.count("generation_tokens") == 60
    assert hour.increase.histograms["ttft"].count == 60


def test_windows_past_six_hours_come_from_the_coarse_ring() -> None:
    history = PoolHistory()
    for minute in range(3 * 24 * 60):
        history.add(interval(60.0 * minute + 30.0))
    now = 3 * 24 * 3600.0
    assert history.window(12 * 3600.0, now).increase.count("generation_tokens") == 12 * 60
    assert history.window(3 * 24 * 3600.0, now).increase.count("generation_tokens") == 3 * 24 * 60


def test_memory_is_bounded_over_a_month() -> None:
    history = PoolHistory()
    for half_hour in range(30 * 48):
        history.add(interval(1800.0 * half_hour))
    assert len(history.fine.slots) <= 361
    assert len(history.coarse.slots) <= 433
    assert history.total.count("generation_tokens") == 30 * 48


@given(st.lists(st.floats(0, 20_000), min_size=1, max_size=80))
def test_the_order_of_arrival_does_not_change_a_window(ends: list[float]) -> None:
    in_order, as_given = PoolHistory(), PoolHistory()
    for end in sorted(ends):
        in_order.add(interval(end))
    for end in ends:
        as_given.add(interval(end))
    for window in (60.0, 900.0, 20_000.0):
        assert in_order.window(window, 20_000.0).increase.count("generation_tokens") == as_given.window(
            window, 20_000.0
        ).increase.count("generation_tokens")


def test_history_moves_with_a_clock_that_was_set() -> None:
    history = PoolHistory()
    for minute in range(30):
        history.add(interval(100_020.0 + 60.0 * minute))
    history.shift(-36_000.0)
    assert history.window(3600.0, 64_020.0 + 30 * 60.0).increase.count("generation_tokens") == pytest.approx(30)
