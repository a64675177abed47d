"""Prefill legs without decode legs: what pages of different moments explain is no loss, what they do not is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.indicators.pools import PoolFacts
from agent.model import HistogramKey, Reading, Role, SeriesKey
from agent.state import Legs
from agent.verdicts.lost_legs import legs_between_pages, lost_legs
from tests.readings import Pages, layout
from tests.verdicts.pools import pool_of

PREFILL = layout([SeriesKey("0", "requests_finished", "length")])
DECODE = layout([], [HistogramKey(SeriesKey("0", "ttft"), (1.0,))], [SeriesKey("0", "waiting")])


def prefill(times: list[float], per_second: float) -> PoolFacts:
    """One target whose legs end at this rate."""
    pages = Pages(PREFILL, "prefill-0")
    return pool_of([pages.at(t, counters=[per_second * t]) for t in times], "prefill", "prefill")


def decode(times: list[float], per_second: float, waiting: float = 0.0) -> PoolFacts:
    """One target whose legs begin at this rate."""
    pages = Pages(DECODE, "decode-0")
    counts = [round(per_second * t) for t in times]
    readings: list[Reading] = [
        pages.at(t, histograms=[((count, 0), 0.1 * count)], gauges=[waiting])
        for t, count in zip(times, counts, strict=True)
    ]
    return pool_of(readings)


def told(pools: list[PoolFacts], ended: int, begun: int) -> list[str]:
    return [problem.code for problem in lost_legs(pools, Legs(ended, begun, ended - begun), 0.0)]


def test_legs_that_began_after_decodes_last_page_are_not_lost() -> None:
    """Scraped every two minutes, decode 110 s before prefill: 0.1 legs a second are 11 between the pages."""
    pools = [prefill([0, 120, 240, 360], 0.1), decode([-110, 10, 130, 250], 0.1)]
    assert legs_between_pages(pools) == pytest.approx(11.0)
    assert told(pools, 36, 25) == []


def test_more_lost_legs_than_lie_between_the_pages_are_told_as_many_as_are_certain() -> None:
    pools = [prefill([0, 120, 240, 360], 0.1), decode([-110, 10, 130, 250], 0.1)]
    (problem,) = lost_legs(pools, Legs(36, 5, 31), 0.0)
    assert problem.text.startswith("20 of 36 prefill legs had no decode leg")


def test_pages_of_one_moment_explain_nothing() -> None:
    pools = [prefill([0, 15, 30, 45], 10.0), decode([0, 15, 30, 45], 10.0)]
    assert legs_between_pages(pools) == 0.0
    assert told(pools, 450, 420) == ["legs_unmatched"]
    assert told(pools, 450, 440) == []  # a few are always under way


def test_legs_that_wait_on_decode_are_not_lost() -> None:
    pools = [prefill([0, 15, 30, 45], 10.0), decode([0, 15, 30, 45], 10.0, waiting=30.0)]
    assert told(pools, 450, 420) == []


def test_what_a_restart_of_decode_took_with_it_is_not_lost() -> None:
    pages = Pages(DECODE, "decode-0")
    counts = [0, 12, 24, 6]  # the third page's process is gone, and with it what it counted since that page
    readings = [
        pages.at(t, histograms=[((count, 0), 0.1 * count)], gauges=[0.0])
        for t, count in zip([0, 120, 240, 360], counts, strict=True)
    ]
    pools = [prefill([0, 120, 240, 360], 0.1), pool_of(readings)]
    assert legs_between_pages(pools) == pytest.approx(0.1 * 120)
    assert told(pools, 36, 30) == []


def test_without_counts_nothing_is_told() -> None:
    assert list(lost_legs([], None, 0.0)) == []


@given(offset=st.floats(-60, 60), rate=st.floats(0.01, 5.0))
def test_even_traffic_is_never_told_whatever_the_moments_of_the_pages(offset: float, rate: float) -> None:
    times = [0.0, 60.0, 120.0, 180.0, 240.0, 300.0]
    pools = [prefill(times, rate), decode([t + offset for t in times], rate)]
    role: dict[Role, PoolFacts] = {pool.role: pool for pool in pools}
    begun = role["decode"].total.histograms["ttft"].count
    assert told(pools, round(300 * rate), round(begun)) == []
