"""The trend of one process: what it says, what clears it, and what it must not be fooled by."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import ConfigError, StateError
from agent.indicators.memory import Trend, TrendSettings
from tests.indicators.memory.series import GB, HOUR, MB, START, feed, first_hours, leak, noisy, samples


def leaking_trend(hours: float = 12) -> tuple[Trend, float]:
    trend = Trend()
    readings = feed(trend, samples(hours, leak(300)), limit=64 * GB)
    assert readings[-1].trend == "leaking"
    return trend, START + hours * HOUR


def test_nothing_is_known_before_the_first_reading() -> None:
    assert Trend().reading(START).trend == "unknown"
    assert Trend().reading(START).level_bytes is None


def test_readings_that_say_nothing_leave_it_unknown() -> None:
    trend = Trend()
    for minute, value in enumerate([None, 0.0, math.nan, math.inf, -5.0]):
        trend.update(START + minute * 60, value)
    assert trend.reading(START + 300).trend == "unknown"


def test_silence_of_a_quarter_of_an_hour_makes_a_leak_unknown_not_healthy() -> None:
    trend, now = leaking_trend()
    assert trend.reading(now + 600, 64 * GB).trend == "leaking"
    assert trend.reading(now + 1000, 64 * GB).trend == "unknown"


def test_failed_readings_in_between_change_nothing() -> None:
    clean, holed = Trend(), Trend()
    for t, value in samples(10, leak(300)):
        clean.update(t, value)
        holed.update(t, value)
        holed.update(t + 7, None)
        holed.update(t + 9, 0.0)
        holed.update(t + 11, math.nan)
    assert holed.reading(START + 10 * HOUR, 64 * GB) == clean.reading(START + 10 * HOUR, 64 * GB)


def test_growing_comes_before_leaking() -> None:
    series = list(samples(12, leak(300)))
    growing = first_hours(Trend(), iter(series), "growing", limit=640 * GB)
    leaking = first_hours(Trend(), iter(series), "leaking", limit=640 * GB)
    assert growing is not None
    assert leaking is not None
    assert growing < leaking < 10


def test_a_leak_that_stops_clears_itself() -> None:
    trend, now = leaking_trend()
    top = leak(300)(12 * HOUR)
    readings = feed(trend, samples(16, lambda _: top, start=now + 60), limit=64 * GB)
    assert readings[-1].trend == "steady"


def test_memory_given_back_clears_a_leak_at_once() -> None:
    trend, now = leaking_trend()
    readings = feed(trend, samples(0.3, lambda _: 7 * GB, start=now + 60), limit=64 * GB)
    assert readings[-1].trend == "steady"


def test_a_restart_begins_a_new_life() -> None:
    trend, now = leaking_trend()
    trend.restarted(now + 60)
    trend.update(now + 60, 6 * GB)
    reading = trend.reading(now + 60, 64 * GB)
    assert reading.trend == "warming"
    assert reading.age_seconds == 0


def test_an_unannounced_restart_is_seen_by_its_fall() -> None:
    trend, now = leaking_trend()
    readings = feed(trend, samples(0.2, lambda _: 2 * GB, start=now + 60), limit=64 * GB)
    assert readings[-1].trend == "warming"


def test_evidence_is_pooled_over_lives_too_short_to_judge() -> None:
    trend = Trend()
    seen = []
    for life in range(8):
        start = START + life * 5 * HOUR
        trend.restarted(start)
        readings = feed(trend, samples(4.9, noisy(leak(100), seed=life), start=start), limit=640 * GB)
        seen += [reading.trend for reading in readings]
    assert "leaking" in seen


def test_a_restart_into_a_repaired_version_is_not_accused_of_the_old_leak() -> None:
    trend, now = leaking_trend()
    trend.restarted(now + 60)
    repaired = feed(trend, samples(12, noisy(leak(0)), start=now + 60), limit=64 * GB)
    assert {reading.trend for reading in repaired} <= {"warming", "steady"}


def test_a_restart_into_the_same_leak_is_certain_sooner_than_the_first_time() -> None:
    trend, now = leaking_trend()
    trend.restarted(now + 60)
    again = first_hours(trend, samples(12, leak(300), start=now + 60), "leaking", limit=64 * GB)
    first = first_hours(Trend(), samples(12, leak(300)), "leaking", limit=64 * GB)
    assert again is not None
    assert first is not None
    assert 2 < again < first


def test_lives_that_only_warm_up_are_not_pooled_into_a_leak() -> None:
    trend = Trend()
    for life in range(8):
        start = START + life * 5 * HOUR
        trend.restarted(start)
        warm_up = noisy(lambda s: 6 * GB + 2 * GB * (1 - math.exp(-s / HOUR)), seed=life)
        readings = feed(trend, samples(4.9, warm_up, start=start), limit=640 * GB)
        assert "leaking" not in {reading.trend for reading in readings}


def test_growth_before_readiness_is_not_judged() -> None:
    trend = Trend()
    load = feed(trend, samples(2, leak(30000, base=2 * GB)), limit=256 * GB)
    trend.ready(START + 2 * HOUR)
    ready_level = 2 * GB + 60000 * MB
    readings = feed(trend, samples(8, lambda _: ready_level, start=START + 2 * HOUR), limit=256 * GB)
    assert load[-1].trend in {"warming", "leaking"}
    assert {reading.trend for reading in readings} <= {"warming", "steady"}


def test_saying_ready_again_changes_nothing() -> None:
    once, often = Trend(), Trend()
    once.ready(START)
    for t, value in samples(10, leak(300)):
        often.ready(START)
        once.update(t, value)
        often.update(t, value)
    assert often.reading(START + 10 * HOUR, 64 * GB) == once.reading(START + 10 * HOUR, 64 * GB)


def test_short_spikes_and_lone_steps_are_steady() -> None:
    def spiky(seconds: float) -> float:
        minute = int(seconds // 60)
        return 6 * GB + (2 * GB if minute % 37 == 0 else 0) + (1 * GB if minute > 400 else 0)

    readings = feed(Trend(), samples(24, spiky), limit=64 * GB)
    assert {reading.trend for reading in readings} <= {"warming", "steady"}


def test_memory_that_breathes_with_load_is_steady() -> None:
    trend = Trend()
    for t, _ in samples(48, leak(0)):
        phase = 2 * math.pi * (t - START) / (24 * HOUR)
        load = 1000 * (1 - math.cos(phase))
        trend.update(t, 6 * GB + load * MB, load)
        assert trend.reading(t, 64 * GB).trend in {"warming", "steady"}


def test_the_slope_of_a_steady_process_is_an_interval_around_zero() -> None:
    reading = feed(Trend(), samples(12, noisy(leak(0))), limit=64 * GB)[-1]
    assert reading.trend == "steady"
    slope = reading.slope_bytes_per_hour
    assert slope is not None
    assert slope.low is not None
    assert slope.high is not None
    assert slope.low < 0 < slope.high


def test_without_a_limit_there_are_no_hours_to_it_but_still_a_verdict() -> None:
    reading = feed(Trend(), samples(12, leak(300)))[-1]
    assert reading.trend == "leaking"
    assert reading.hours_to_limit is None
    assert reading.severity(page_within_hours=168) == "warning"


def test_a_time_scale_of_a_sixtieth_judges_in_minutes_what_takes_hours() -> None:
    slow = first_hours(Trend(), samples(12, leak(300)), "leaking", limit=6400 * GB)
    fast = first_hours(
        Trend(TrendSettings(time_scale=1 / 60)),
        samples(12 / 60, leak(300 * 60), every=1.0),
        "leaking",
        limit=6400 * GB,
    )
    assert slow is not None
    assert fast is not None
    assert fast * 60 == pytest.approx(slow, abs=0.1)


def test_a_time_scale_that_cannot_work_is_refused() -> None:
    for scale in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ConfigError, match="time_scale"):
            TrendSettings(time_scale=scale)


def test_a_clock_that_is_set_forth_and_back_neither_makes_nor_hides_a_leak() -> None:
    def stepping(rate: float) -> str:
        trend = Trend()
        for index, (t, value) in enumerate(samples(24, noisy(leak(rate)))):
            trend.update(t + (1800 if index > 300 else 0) - (5400 if index > 700 else 0), value)
        return str(trend.certainty)

    assert stepping(300) == "leaking"
    assert stepping(0) == "None"


@settings(max_examples=15, deadline=None)
@given(shift=st.integers(-1_000_000_000, 1_000_000_000), rate=st.sampled_from([0, 60, 300]))
def test_the_date_does_not_matter(shift: int, rate: int) -> None:
    here = feed(Trend(), samples(10, leak(rate)), limit=64 * GB)
    there = feed(Trend(), samples(10, leak(rate), start=START + shift), limit=64 * GB)
    assert there == here


@settings(max_examples=15, deadline=None)
@given(offset_gb=st.integers(0, 200), rate=st.sampled_from([0, 60, 300]))
def test_the_size_of_the_process_does_not_matter(offset_gb: int, rate: int) -> None:
    offset = offset_gb * GB
    here = feed(Trend(), samples(10, leak(rate)), limit=64 * GB)
    there = feed(Trend(), samples(10, leak(rate, base=6 * GB + offset)), limit=64 * GB + offset)
    assert [reading.trend for reading in there] == [reading.trend for reading in here]


@settings(max_examples=15, deadline=None)
@given(start=st.floats(1, 9), minutes=st.floats(5, 60), rate=st.sampled_from([0, 300]))
def test_a_gap_of_up_to_an_hour_neither_makes_nor_hides_a_leak(start: float, minutes: float, rate: int) -> None:
    first, last = START + start * HOUR, START + start * HOUR + minutes * 60
    series = [(t, value) for t, value in samples(20, leak(rate)) if not first < t < last]
    assert feed(Trend(), iter(series), limit=64 * GB)[-1].trend == ("leaking" if rate else "steady")


@settings(max_examples=10, deadline=None)
@given(cut=st.integers(1, 700), rate=st.sampled_from([0, 60, 300]), restart=st.booleans())
def test_saved_and_restored_goes_on_as_if_nothing_had_happened(cut: int, rate: int, restart: bool) -> None:
    series = list(samples(12, noisy(leak(rate))))
    whole, part = Trend(), Trend()
    for index, (t, value) in enumerate(series):
        if index == cut:
            part = Trend.restore(json.loads(json.dumps(part.save())))
        for trend in (whole, part):
            if restart and index == 350:
                trend.restarted(t)
            trend.update(t, value, 10.0)
        assert part.reading(t, 64 * GB) == whole.reading(t, 64 * GB)
    assert part.save() == whole.save()


def test_history_that_is_damaged_or_of_another_kind_is_refused() -> None:
    good = leaking_trend()[0].save()
    damages: list[dict[str, Any]] = [
        {"version": 0},
        {"time_scale": 0.5},
        {"history": {}},
        {"levels": None},
        {"last": [1.0]},
    ]
    for damage in damages:
        with pytest.raises(StateError):
            Trend.restore({**good, **damage})
    cut = json.loads(json.dumps(good))
    cut["history"]["scales"][0]["table"] = cut["history"]["scales"][0]["table"][:80]
    with pytest.raises(StateError):
        Trend.restore(cut)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=True, allow_infinity=True),
            st.none() | st.floats(allow_nan=True, allow_infinity=True),
            st.none() | st.floats(allow_nan=True, allow_infinity=True),
        ),
        max_size=200,
    )
)
def test_no_input_whatever_raises(rows: list[tuple[float, float | None, float | None]]) -> None:
    trend = Trend()
    for t, value, load in rows:
        trend.update(t, value, load)
        trend.reading(t, value, load)


def test_history_is_bounded() -> None:
    trend = Trend()
    sizes = []
    for index, (t, value) in enumerate(samples(24 * 60, leak(0), every=600.0)):
        trend.update(t, value, 1.0)
        if index % 1000 == 999:
            sizes.append(len(json.dumps(trend.save())))
    assert sizes[-1] < 1.1 * sizes[len(sizes) // 2]
    assert sizes[-1] < 200_000
