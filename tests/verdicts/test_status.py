"""The walk of an objective: one page and one resolve per incident, whatever values, gaps, restarts and clocks do."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config import Objective
from agent.errors import StateError
from agent.verdicts.judging import Signal, judge
from agent.verdicts.measurement import Measurement, Range
from agent.verdicts.status import RESOLVED_SECONDS, Step, Times, Track, step

TIMES = Times(hold_seconds=180.0, clear_seconds=180.0, gap_seconds=120.0)
START = 1795970000.0


def walk(signals: list[tuple[float, Signal]], times: Times = TIMES, track: Track | None = None) -> list[Step]:
    """The steps of signals at seconds after the start."""
    track = Track() if track is None else track
    steps = []
    for seconds, signal in signals:
        steps.append(step(track, signal, START + seconds, times))
        track = steps[-1].track
    return steps


def every(seconds: float, signals: list[Signal], since: float = 0.0) -> list[tuple[float, Signal]]:
    return [(since + seconds * i, signal) for i, signal in enumerate(signals)]


def test_c26_a_value_dancing_on_the_line_pages_once_and_resolves_once_over_a_restart() -> None:
    sla = Objective(indicator="tpot", scope="decode", target=0.050, hold_seconds=180, clear_seconds=180)
    minutes = [49, 51, 49, 52, 48, 51, 53, 54, 55, 56, 57, 47, 46, 45, 44, 43]
    track, triggers, resolves = Track(), [], []
    for minute, milliseconds in enumerate(minutes):
        if minute == 11:
            track = Track.from_json(json.loads(json.dumps(track.to_json())))
        value = milliseconds / 1000
        verdict = judge(sla, Measurement("ok", count=100, needed=20, range=Range.certain(value, value, value)))
        walked = step(track, verdict.signal, START + 60 * minute, TIMES)
        track = walked.track
        if walked.triggered:
            triggers.append(minute)
        if walked.resolved:
            resolves.append(minute)
    assert triggers == [8]
    assert resolves == [14]
    assert track.status(START + 15 * 60) == "resolved"
    assert track.status(START + 14 * 60 + RESOLVED_SECONDS) == "ok"


def test_c22_every_fourth_scrape_failing_still_fires_after_the_hold() -> None:
    times = Times(hold_seconds=300.0, clear_seconds=300.0, gap_seconds=120.0)
    signals: list[Signal] = ["unknown" if i % 4 == 3 else "bad" for i in range(20)]
    steps = walk(every(30, signals), times)
    assert [30 * number for number, done in enumerate(steps) if done.triggered] == [300]


def test_a_gap_that_is_too_long_starts_the_hold_again() -> None:
    steps = walk([(0, "bad"), (170, "bad"), (180, "bad")])
    assert [s.after for s in steps] == ["pending", "pending", "pending"]
    assert walk([(0, "bad"), (120, "bad"), (180, "bad")])[-1].triggered


def test_a_long_unknown_ends_pending_but_never_firing() -> None:
    unknown: list[Signal] = ["unknown"] * 6
    assert walk([(0, "bad"), *every(60, unknown, 60)])[-1].after == "ok"
    fired = walk(every(60, ["bad"] * 4))
    days = walk(every(3600, ["unknown"] * 72, 3600), track=fired[-1].track)
    assert {s.after for s in days} == {"firing"}


def test_firing_does_not_clear_across_an_unknown_stretch() -> None:
    fired = walk(every(60, ["bad"] * 4))[-1].track
    steps = walk([(240, "good"), (300, "good"), (700, "good"), (820, "good"), (880, "good")], track=fired)
    assert [s.resolved for s in steps] == [False, False, False, False, True]


def test_a_value_just_inside_the_target_neither_clears_nor_counts_as_bad() -> None:
    fired = walk(every(60, ["bad"] * 4))[-1].track
    near: list[Signal] = ["near"] * 60
    assert {s.after for s in walk(every(60, near, 240), track=fired)} == {"firing"}


def test_a_breach_while_resolved_is_a_new_incident_with_its_own_hold() -> None:
    resolved = walk([*every(60, ["bad"] * 4), *every(60, ["good"] * 4, 240)])[-1].track
    assert resolved.status(START + 500) == "resolved"
    steps = walk(every(60, ["bad"] * 4, 480), track=resolved)
    assert [s.after for s in steps] == ["pending", "pending", "pending", "firing"]
    assert steps[-1].track.incidents == 2


def test_a_pending_that_passes_while_resolved_shows_resolved_again() -> None:
    resolved = walk([*every(60, ["bad"] * 4), *every(60, ["good"] * 4, 240)])[-1].track
    steps = walk([(480, "bad"), (500, "near")], track=resolved)
    assert [s.after for s in steps] == ["pending", "resolved"]
    assert steps[-1].track.since(START + 500) == resolved.resolved_at


def test_since_says_when_the_status_began() -> None:
    steps = walk([*every(60, ["near", "bad", "bad", "bad", "bad", "good", "good", "good", "good"])])
    track = steps[-1].track
    assert [s.track.since(START + 60 * i) for i, s in enumerate(steps)][:5] == [
        START, START + 60, START + 60, START + 60, START + 240,
    ]  # fmt: skip
    assert track.since(START + 480) == START + 480
    assert track.since(START + 480 + RESOLVED_SECONDS) == START + 480 + RESOLVED_SECONDS


def test_a_clock_set_back_or_forth_neither_shortens_nor_lengthens_the_hold() -> None:
    before = walk([(0, "bad"), (100, "bad")])[-1].track
    back = walk([(-3600 + 100, "bad"), (-3600 + 179, "bad"), (-3600 + 180, "bad")], track=before)
    assert [s.after for s in back] == ["pending", "pending", "firing"]
    told = walk([(7200 + 179, "bad"), (7200 + 180, "bad")], track=before.shifted(7200))
    assert [s.after for s in told] == ["pending", "firing"]


def test_a_hold_of_nothing_fires_at_once() -> None:
    assert walk([(0, "bad")], Times(0, 0, 120))[0].triggered
    assert walk([(0, "bad"), (5, "good")], Times(0, 0, 120))[1].resolved


@pytest.mark.parametrize("damaged", [{"bad_since": "yesterday"}, {"fired_at": math.nan}, {"seen_at": []}])
def test_a_damaged_track_is_refused_with_a_word(damaged: dict[str, object]) -> None:
    with pytest.raises(StateError, match=next(iter(damaged))):
        Track.from_json(damaged)


series = st.lists(
    st.tuples(st.floats(0.5, 300.0), st.sampled_from(["bad", "good", "near", "unknown"])), min_size=1, max_size=80
)
anything = st.builds(Times, st.floats(0, 400), st.floats(0, 400), st.floats(0, 300))


def timed(gaps: list[tuple[float, Signal]]) -> list[tuple[float, Signal]]:
    at, signals = 0.0, []
    for seconds, signal in gaps:
        at += seconds
        signals.append((at, signal))
    return signals


@given(series, anything)
def test_between_two_triggers_there_is_a_resolve_and_no_time_is_cut_short(
    gaps: list[tuple[float, Signal]], times: Times
) -> None:
    signals = timed(gaps)
    firing = False
    for index, done in enumerate(walk(signals, times)):
        at, signal = signals[index]
        if done.triggered:
            assert not firing
            assert signal == "bad"
            firing = True
            assert unbroken(signals[: index + 1], {"bad"}, times.gap_seconds) >= times.hold_seconds - 1e-5
        elif done.resolved:
            assert firing
            assert signal == "good"
            firing = False
            assert unbroken(signals[: index + 1], {"good"}, times.gap_seconds) >= times.clear_seconds - 1e-5
        assert firing == (done.after == "firing")
        assert at >= 0


def unbroken(signals: list[tuple[float, Signal]], wanted: set[Signal], gap: float) -> float:
    """Seconds from the first to the last of the wanted signals at the end of a series, over short enough gaps."""
    last = first = signals[-1][0]
    for at, signal in reversed(signals):
        if signal in wanted:
            if first - at > gap + 1e-5:
                break
            first = at
        elif signal != "unknown":
            break
    return last - first


@given(series, anything, st.integers(0, 80))
def test_a_restart_anywhere_changes_nothing(gaps: list[tuple[float, Signal]], times: Times, at: int) -> None:
    signals = timed(gaps)
    whole = walk(signals, times)
    before = walk(signals[:at], times)
    saved = json.loads(json.dumps((before[-1].track if before else Track()).to_json()))
    after = walk(signals[at:], times, Track.from_json(saved))
    assert [s.after for s in [*before, *after]] == [s.after for s in whole]
    assert (before + after)[-1].track == whole[-1].track


@given(series, anything, st.floats(-1e6, 1e6))
def test_a_clock_step_that_is_told_changes_only_the_times(
    gaps: list[tuple[float, Signal]], times: Times, by: float
) -> None:
    by = float(round(by))
    signals = [(float(round(at)), signal) for at, signal in timed(gaps)]
    half = len(signals) // 2
    whole = walk(signals, times)
    before = walk(signals[:half], times)
    track = (before[-1].track if before else Track()).shifted(by)
    after = walk([(at + by, signal) for at, signal in signals[half:]], times, track)
    assert [s.after for s in [*before, *after]] == [s.after for s in whole]
