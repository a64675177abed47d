"""Silence is a fault only where there never was silence at this time of day."""

from __future__ import annotations

from agent.verdicts.vanished import vanished_traffic
from agent.windows.increase import Increase
from tests.readings import Pages
from tests.verdicts.pools import ENGINE, decoded, history_of, pool_of

DAY = 86_400.0
END = 3 * DAY


def said(minutes: list[Increase], running: float = 0.0) -> list[str]:
    pages = Pages(ENGINE)
    readings = [
        pages.at(END - 20 + 10 * i, [1, 1], [((5, 0), 2.0), ((5, 0), 1.0)], [running, 0, 0, 0, 0.1]) for i in range(3)
    ]
    return [problem.code for problem in vanished_traffic(pool_of(readings), history_of(minutes, END), END)]


BUSY = decoded()
QUIET = Increase()


def test_silence_where_every_earlier_day_was_busy_is_said() -> None:
    assert said([BUSY] * (1440 + 800) + [QUIET] * 12) == ["traffic_vanished"]


def test_a_night_that_is_always_quiet_is_quiet() -> None:
    day = [BUSY] * 1400 + [QUIET] * 40
    assert said(day + day) == []


def test_without_a_day_of_history_nothing_is_said() -> None:
    assert said([BUSY] * 600 + [QUIET] * 12) == []


def test_requests_still_running_are_no_silence() -> None:
    assert said([BUSY] * (1440 + 800) + [QUIET] * 12, running=2.0) == []


def test_traffic_is_no_silence() -> None:
    assert said([BUSY] * (1440 + 800)) == []
