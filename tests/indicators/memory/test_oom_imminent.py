"""The last-minute rule: what is about to be killed, and what only looks like it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from agent.errors import StateError
from agent.indicators.memory import ImminentOom, OomWatch, TrendSettings
from tests.indicators.memory.series import GB, HOUR, START, leak, samples


def first_minute(
    watch: OomWatch, value: object, hours: float, limit: float | None, every: float = 15.0
) -> tuple[float, ImminentOom] | None:
    assert callable(value)
    for t, used in samples(hours, value, every=every):
        found = watch.update(t, used, limit)
        if found is not None:
            return (t - START) / 60, found
    return None


def warm() -> OomWatch:
    watch = OomWatch()
    watch.ready(START - HOUR)
    return watch


def test_24_gb_per_hour_with_30_gb_left_is_announced_with_half_an_hour_to_spare() -> None:
    found = first_minute(warm(), leak(24 * 1024, base=40 * GB), 1.25, 70 * GB)
    assert found is not None
    minute, imminent = found
    assert minute < 40
    assert imminent.hours_left is not None
    assert 0.5 < imminent.hours_left <= 0.75
    assert imminent.low <= 24 * GB / 3600 <= imminent.high * 1.001


def test_a_slow_climb_is_announced_when_it_is_near() -> None:
    found = first_minute(warm(), leak(1024, base=80 * GB), 21, 100 * GB, every=60)
    assert found is not None
    assert "of the limit" in found[1].reason
    assert (found[1].hours_left or 0) <= 3


def test_use_at_the_limit_is_announced_whatever_it_does() -> None:
    assert first_minute(warm(), lambda _: 98 * GB, 1, 100 * GB) is not None


def test_high_but_level_use_is_not_imminent() -> None:
    assert first_minute(warm(), lambda _: 94 * GB, 12, 100 * GB) is None


def test_loading_weights_is_not_imminent() -> None:
    def loading(seconds: float) -> float:
        return min(2 * GB + seconds * GB / 10, 60 * GB)

    assert first_minute(OomWatch(), loading, 6, 70 * GB) is None


def test_a_warm_up_that_bends_is_not_imminent() -> None:
    def bending(seconds: float) -> float:
        return 40 * GB + 25 * GB * (1 - math.exp(-seconds / 900))

    assert first_minute(warm(), bending, 6, 80 * GB) is None


def test_a_saw_tooth_under_the_limit_is_not_imminent() -> None:
    def teeth(seconds: float) -> float:
        return 60 * GB + 5 * GB * ((seconds / 1200) % 1)

    watch = OomWatch()
    assert first_minute(watch, teeth, 12, 72 * GB) is None


def test_a_height_from_which_reclaim_came_back_is_not_near_again() -> None:
    watch = warm()
    alarms = []
    for t, used in samples(24, lambda s: 90 * GB + 8 * GB * ((s / 7200) % 1), every=60):
        alarms.append(watch.update(t, used, 100 * GB) is not None)
    assert any(alarms[: 2 * 60 + 5])
    assert not any(alarms[4 * 60 :])


def test_without_a_limit_or_a_use_nothing_is_imminent() -> None:
    watch = warm()
    assert watch.update(START, 99 * GB, None) is None
    assert watch.update(START, None, 100 * GB) is None
    assert watch.update(START, math.nan, 100 * GB) is None


def test_a_restart_ends_it() -> None:
    watch = warm()
    assert watch.update(START, 99 * GB, 100 * GB) is not None
    watch.restarted()
    assert watch.update(START + 60, 99 * GB, 100 * GB) is None


def test_a_clock_set_back_begins_anew_without_alarm() -> None:
    watch = warm()
    for t, used in samples(0.5, leak(24 * 1024, base=40 * GB), every=15):
        watch.update(t, used, 1000 * GB)
    assert watch.update(START - 3600 * 10, 50 * GB, 50.5 * GB) is None


def test_saved_and_restored_goes_on_as_if_nothing_had_happened() -> None:
    whole = OomWatch(TrendSettings())
    part = OomWatch(TrendSettings())
    for index, (t, used) in enumerate(samples(1.2, leak(24 * 1024, base=40 * GB), every=30)):
        if index == 77:
            part = OomWatch.restore(json.loads(json.dumps(part.save())))
        assert part.update(t, used, 70 * GB) == whole.update(t, used, 70 * GB)


def test_history_that_is_damaged_is_refused() -> None:
    good = OomWatch().save()
    damages: list[dict[str, Any]] = [{"_times": None}, {"_lowest": "much"}, {"_floors": [None]}]
    for damage in damages:
        with pytest.raises(StateError):
            OomWatch.restore({**good, **damage})
