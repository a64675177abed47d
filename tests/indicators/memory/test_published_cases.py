"""Incidents told in public, with their numbers: what must alarm, and what must not."""

from __future__ import annotations

import random

from agent.indicators.memory import Trend
from tests.indicators.memory.series import GB, HOUR, MB, MINUTE, START, feed, first_hours, leak, noisy, samples

TRANSFER_LEAK = [41000.0 + 2000.0 * step for step in range(13)]
WARM_UP = [12000, 14491, 16207, 17388, 18202, 18762, 19147, 19413, 19596, 19722, 19808, 19868, 19909]


def steps(megabytes: list[float], minutes: float, start: float = START) -> list[tuple[float, float]]:
    return [(start + index * minutes * MINUTE, value * MB) for index, value in enumerate(megabytes)]


def test_a_transfer_leak_of_400_mb_per_minute_is_certain_within_the_hour() -> None:
    trend = Trend()
    trend.ready(START - HOUR)
    series = steps(TRANSFER_LEAK, 5)
    readings = feed(trend, iter(series), limit=120000 * MB)
    first = next(index for index, reading in enumerate(readings) if reading.trend == "leaking")
    headroom_left = (120000 - TRANSFER_LEAK[first]) / (120000 - TRANSFER_LEAK[0])
    assert series[first][0] - START <= 40 * MINUTE
    assert headroom_left > 0.75
    last = readings[-1]
    assert last.slope_bytes_per_hour is not None
    assert last.slope_bytes_per_hour.value is not None
    assert abs(last.slope_bytes_per_hour.value / MB / 24000 - 1) < 0.01
    assert last.hours_to_limit is not None
    assert round(last.hours_to_limit.value or 0, 1) == 2.3
    assert last.severity(page_within_hours=168) == "critical"


def test_the_same_leak_right_after_the_start_is_certain_at_the_hour_with_half_the_headroom_left() -> None:
    trend = Trend()
    readings = feed(trend, iter(steps(TRANSFER_LEAK, 5)), limit=120000 * MB)
    assert readings[-1].trend == "leaking"
    assert all(reading.trend == "warming" for reading in readings[:6])


def test_the_prefill_worker_beside_it_stays_silent() -> None:
    rng = random.Random(7)
    trend = Trend()
    trend.ready(START - HOUR)
    flat = [38000 + rng.uniform(-30, 30) for _ in range(13)]
    readings = feed(trend, iter(steps(flat, 5)), limit=120000 * MB)
    assert {reading.trend for reading in readings} <= {"warming", "steady"}


def test_a_warm_up_that_approaches_its_working_set_is_no_growth() -> None:
    tail = [19909 + 90 * (1 - 0.5**step) for step in range(1, 60)]
    readings = feed(Trend(), iter(steps([float(value) for value in WARM_UP] + tail, 15)), limit=64000 * MB)
    assert {reading.trend for reading in readings} <= {"warming", "steady"}
    assert readings[-1].trend == "steady"


def test_a_cache_that_fills_for_four_hours_never_pages_and_what_was_said_clears_itself() -> None:
    fill = [20992.0 + 1024 * step for step in range(9)] + [29184.0] * 40
    readings = feed(Trend(), iter(steps(fill, 30)), limit=262144 * MB)
    for reading in readings:
        assert reading.trend != "leaking"
        if reading.trend == "growing":
            assert reading.hours_to_limit is not None
            assert (reading.hours_to_limit.value or 0) > 4 * 24
            assert reading.severity(page_within_hours=168) == "warning"
    assert readings[-1].trend == "steady"


def test_a_declared_budget_silences_the_cache_but_not_a_line_that_runs_past_it() -> None:
    line = leak(1024, base=20 * GB)
    silent = feed(Trend(), samples(7.5, line), limit=256 * GB, budget=8 * GB)
    assert {reading.trend for reading in silent} <= {"warming", "steady"}
    past = feed(Trend(), samples(12, line), limit=256 * GB, budget=8 * GB)
    assert past[-1].trend == "leaking"
    assert past[-1].past_budget
    assert past[-1].severity(page_within_hours=1) == "critical"


def test_a_collectors_saw_tooth_is_steady() -> None:
    teeth = [9000.0, 9300.0, 9600.0, 9900.0] * 12
    readings = feed(Trend(), iter(steps(teeth, 30)), limit=64000 * MB)
    assert {reading.trend for reading in readings} <= {"warming", "steady"}


def test_the_motivating_leak_of_47_mb_per_hour_is_certain_within_ten_hours() -> None:
    for seed in range(3):
        hours = first_hours(Trend(), samples(12, noisy(leak(47.5), seed=seed)), "leaking", limit=64 * GB)
        assert hours is not None
        assert hours < 10
