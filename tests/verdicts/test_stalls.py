"""Engines that stand still with work in hand, and those that only look like it."""

from __future__ import annotations

import pytest

from agent.model import HistogramKey, Reading, Role, SeriesKey
from agent.verdicts.stalls import silent_engines, stalls
from tests.readings import Pages, layout
from tests.verdicts.pools import ENGINE, pool_of


def pages(
    count: int,
    running: float = 0.0,
    capacity: float = 0.0,
    deferred: float = 0.0,
    kv_usage: float = 0.3,
    tokens_per_page: float = 0.0,
    transfers_per_page: float = 0.0,
) -> list[Reading]:
    made = Pages(ENGINE)
    return [
        made.at(
            10.0 * i,
            [100 + tokens_per_page * i, 50],
            [((5, 0), 2.0), ((5 + transfers_per_page * i, 0), 1.0)],
            [running, capacity + deferred, capacity, deferred, kv_usage],
        )
        for i in range(count)
    ]


def codes(readings: list[Reading], role: Role = "decode") -> list[str]:
    return [problem.code for problem in stalls(pool_of(readings, role))]


def test_a_decode_engine_with_work_and_no_token_for_a_minute_is_frozen() -> None:
    readings = pages(8, running=3)
    (problem,) = stalls(pool_of(readings))
    assert (problem.code, problem.severity, problem.engine) == ("engine_frozen", "critical", "0")
    assert problem.since == 0.0


@pytest.mark.parametrize(
    "readings",
    [pages(5, running=3), pages(8, running=3, tokens_per_page=1), pages(20)],
    ids=["not long enough", "a token now and then", "nothing to do"],
)
def test_an_engine_that_moves_or_has_nothing_to_do_is_not_frozen(readings: list[Reading]) -> None:
    assert codes(readings) == []


def test_a_prefill_engine_may_compute_one_long_prompt_for_minutes() -> None:
    assert codes(pages(20, running=1), "prefill") == []
    assert codes(pages(32, running=1), "prefill") == ["engine_frozen"]


def test_requests_that_wait_for_kv_while_no_transfer_completes_are_a_stall() -> None:
    found = codes(pages(11, deferred=4))
    assert found == ["kv_stalled"]
    assert codes(pages(11, deferred=4, transfers_per_page=1, tokens_per_page=1)) == []


def test_a_full_cache_with_nothing_running_is_pinned_and_not_frozen() -> None:
    assert codes(pages(8, capacity=5, kv_usage=0.99)) == ["kv_pinned"]


def test_a_restart_ends_a_standstill() -> None:
    made = Pages(ENGINE)
    same = [((5.0, 0.0), 2.0), ((5.0, 0.0), 1.0)]
    gauges = [3.0, 0.0, 0.0, 0.0, 0.3]
    readings = [made.at(10.0 * i, [1000, 500], same, gauges) for i in range(6)]
    readings += [made.at(60.0 + 10.0 * i, [0, 0], [((0, 0), 0.0), ((0, 0), 0.0)], gauges) for i in range(4)]
    assert codes(readings) == []


def began(first: float, second: float) -> list[str]:
    two = layout([], [HistogramKey(SeriesKey(engine, "ttft"), (1.0,)) for engine in ("0", "1")])
    pages = Pages(two)
    readings = [
        pages.at(10.0 * i, [], [((first * i, 0), 0.5 * first * i), ((second * i, 0), 0.5 * second * i)])
        for i in range(11)
    ]
    return [problem.engine for problem in silent_engines(pool_of(readings), 0.0)]


def test_an_engine_without_requests_beside_busy_siblings_is_named() -> None:
    assert began(0, 8) == ["0"]


def test_few_requests_or_a_few_on_each_engine_name_nobody() -> None:
    assert began(0, 2) == []
    assert began(1, 8) == []
