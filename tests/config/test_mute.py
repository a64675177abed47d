"""Maintenance windows: open or not at a moment."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from agent.config import Mute


def at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def test_a_window_given_once_is_open_from_its_begin_up_to_its_end():
    mute = Mute(from_seconds=at("2026-11-30T22:00"), to_seconds=at("2026-12-01T02:00"))
    assert not mute.covers(at("2026-11-30T21:59"))
    assert mute.covers(at("2026-11-30T22:00"))
    assert mute.covers(at("2026-12-01T01:59"))
    assert not mute.covers(at("2026-12-01T02:00"))


@pytest.mark.parametrize(
    ("moment", "is_open"),
    [
        ("2026-11-28T21:59", False),  # a Saturday
        ("2026-11-28T22:00", True),
        ("2026-11-29T03:59", True),  # Sunday morning belongs to Saturday night
        ("2026-11-29T04:00", False),
        ("2026-11-29T22:30", False),  # Sunday night
        ("2026-11-28T03:00", False),  # Saturday morning belongs to Friday night
    ],
)
def test_hours_over_midnight_belong_to_the_day_on_which_they_begin(moment, is_open):
    mute = Mute(hours="22:00-04:00", weekdays=("saturday",), timezone="Europe/Berlin")
    assert mute.covers(at(moment, "Europe/Berlin")) is is_open


def test_hours_hold_every_day_in_their_own_time_zone_in_summer_and_winter():
    mute = Mute(hours="08:00-09:00", timezone="Europe/Berlin")
    assert mute.covers(at("2026-07-01T06:30"))
    assert not mute.covers(at("2026-07-01T07:30"))
    assert mute.covers(at("2026-12-01T07:30"))
