"""Levels: the floor of five minutes, on a clock that only runs forward."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agent.indicators.memory.history import LEVEL, TIME, History
from agent.indicators.memory.levels import Level, LevelBuilder
from agent.indicators.memory.settings import SUB_WINDOWS_KEPT, TrendSettings
from tests.indicators.memory.series import GB, HOUR, MINUTE, START


def levels_of(rows: list[tuple[float, float | None]], builder: LevelBuilder | None = None) -> list[Level]:
    builder = builder or LevelBuilder(TrendSettings())
    found = [builder.add(t, value, None) for t, value in rows]
    return [level for level in found if level is not None]


def minutes(count: int, value: float = 6 * GB, start: float = START) -> list[tuple[float, float | None]]:
    return [(start + index * MINUTE, value) for index in range(count)]


def test_nothing_is_a_level_before_the_warm_up_is_over() -> None:
    assert levels_of(minutes(30)) == []
    assert len(levels_of(minutes(61))) == 6


def test_readiness_long_ago_needs_no_warm_up() -> None:
    builder = LevelBuilder(TrendSettings())
    builder.ready(START - HOUR)
    assert len(levels_of(minutes(61), builder)) == 12


def test_a_spike_does_not_lift_the_floor() -> None:
    rows = [(t, 60 * GB if index % 5 == 2 else value) for index, (t, value) in enumerate(minutes(120))]
    assert {level.level for level in levels_of(rows)} == {6 * GB}


def test_a_restart_neither_rises_nor_takes_time() -> None:
    builder = LevelBuilder(TrendSettings())
    before = levels_of(minutes(120), builder)
    builder.restarted()
    after = levels_of(minutes(120, value=9 * GB, start=START + 5 * HOUR), builder)
    assert after[0].level == before[-1].level
    assert after[0].time - before[-1].time <= 2 * 300
    assert after[0].life == before[-1].life + 1


@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(1e9, 2e9)), min_size=2, max_size=60),
    st.floats(-7200, 7200),
)
def test_time_never_runs_backwards(rows: list[tuple[float, float]], jump: float) -> None:
    builder = LevelBuilder(TrendSettings(warm_up_seconds=0))
    clock = []
    found = []
    for index, (t, value) in enumerate(rows):
        level = builder.add(t + (jump if index % 3 == 0 else 0), value, None)
        clock.append(builder.clock_seconds)
        if level is not None:
            found.append(level.time)
    assert all(before <= after for before, after in pairwise(clock))
    assert all(before < after for before, after in pairwise(found))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=300))
def test_sub_windows_are_ordered_bounded_and_lose_nothing_below_the_floor(gaps: list[int]) -> None:
    history = History(300.0)
    number, lowest = 0, 1e18
    for index, gap in enumerate(gaps):
        number += gap
        value = float(1000 + (index * 37) % 101)
        lowest = min(lowest, value)
        history.add(Level((number + 0.5) * 300.0, value, 0, 0, 0, 0, number * 300.0, 0.0))
    for scale in history.scales:
        times = scale.column(TIME)
        assert len(times) <= SUB_WINDOWS_KEPT
        assert all(before < after for before, after in pairwise(times))
        assert all(level >= lowest for level in scale.column(LEVEL))
    assert len(history.scales[0]) == min(len(gaps), SUB_WINDOWS_KEPT)


@given(st.integers(1, 100), st.integers(1, 200))
def test_the_newest_values_of_a_column_are_those_of_that_column_and_no_more_than_there_are(
    filed: int, wanted: int
) -> None:
    history = History(300.0)
    for number in range(filed):
        history.add(Level((number + 0.5) * 300.0, 1000.0 + number, 1, 2, 3, 4, number * 300.0, 7.0))
    scale = history.scales[0]
    for column, field in enumerate(Level._fields):
        assert scale.last(column, wanted) == scale.column(column)[-wanted:], field
        assert scale.at(column, -1) == scale.column(column)[-1]
    assert len(scale.column(LEVEL)) == min(filed, SUB_WINDOWS_KEPT)
    assert scale.column(LEVEL)[-1] == 1000.0 + filed - 1
