"""Step time that jumps at the same load is a change; growth with the load, noise and one slow minute are not."""

from __future__ import annotations

import pytest

from agent.indicators.pools import PoolFacts
from agent.model import HistogramKey, SeriesKey
from agent.verdicts.steps import step_change, step_problems
from agent.windows.history import PoolHistory
from agent.windows.increase import Increase
from tests.readings import Pages, layout
from tests.verdicts.pools import ITL_EDGES, decoded, history_of, pool_of, pool_with

END = 36_000.0


def problems(minutes: list[Increase]) -> list[str]:
    return [p.code for p in step_problems(pool_with(minutes[-1]), history_of(minutes, END), END)]


def test_a_jump_at_the_same_load_is_said_with_its_time_and_both_levels() -> None:
    minutes = [decoded(step_seconds=0.022)] * 30 + [decoded(step_seconds=0.040)] * 5
    (problem,) = step_problems(pool_with(minutes[-1]), history_of(minutes, END), END)
    assert problem.code == "latency_step_change"
    assert problem.since == END - 300.0
    assert problem.evidence["step_seconds_before"] == pytest.approx(0.022)
    assert problem.evidence["step_seconds"] == pytest.approx(0.040)


@pytest.mark.parametrize(
    "after",
    [
        [decoded(step_seconds=0.040, running=40, begun=200)] * 5,
        [decoded(step_seconds=0.040, kv_usage=0.9, prompt_tokens=60_000)] * 5,
        [decoded(step_seconds=0.040)] * 2,
        [decoded(step_seconds=0.040)] + [decoded(step_seconds=0.022)] * 4,
        [decoded(step_seconds=0.028)] * 5,
        [decoded(step_seconds=0.040, steps=20)] * 5,
    ],
    ids=["arrivals doubled", "prompts grew", "not long enough", "one slow minute", "too small", "too few steps"],
)
def test_what_load_noise_or_too_little_data_explain_is_not_said(after: list[Increase]) -> None:
    assert problems([decoded(step_seconds=0.022)] * 30 + after) == []


def test_batches_that_grow_only_because_steps_take_longer_do_not_hide_the_change() -> None:
    assert problems(
        [decoded(step_seconds=0.022)] * 30 + [decoded(step_seconds=0.040, running=36, kv_usage=0.7)] * 5
    ) == ["latency_step_change"]


def test_without_ten_minutes_before_nothing_is_said() -> None:
    assert step_change([(60.0 * i, decoded(step_seconds=0.02 if i < 8 else 0.05)) for i in range(14)]) is None


def test_a_prefill_pool_has_no_decode_steps() -> None:
    minutes = [decoded(step_seconds=0.022)] * 30 + [decoded(step_seconds=0.040)] * 5
    assert step_problems(pool_with(minutes[-1], "prefill"), history_of(minutes, END), END) == []


def ranks(*second: tuple[int, float]) -> PoolFacts:
    """Three ranks over twenty pages 15 s apart: two make 100 steps of 20 ms between pages, the second one what is said.

    (steps, seconds all of them took) for each page of the second rank.
    """
    pages = Pages(layout(histograms=[HistogramKey(SeriesKey(str(rank), "itl"), ITL_EDGES) for rank in range(3)]))
    count, total = 0, 0.0
    readings = [pages.at(0.0, histograms=[((0, 0, 0, 0, 0), 0.0)] * 3)]
    for page, (steps, seconds) in enumerate(second, start=1):
        count, total = count + steps, total + seconds
        usual = ((0, 100 * page, 0, 0, 0), 2.0 * page)
        readings.append(pages.at(15.0 * page, histograms=[usual, ((0, count, 0, 0, 0), total), usual]))
    return pool_of(readings)


def slow_ranks(pool: PoolFacts) -> list[str]:
    return [problem.engine for problem in step_problems(pool, PoolHistory(), 300.0) if problem.code == "rank_slow"]


def test_a_rank_whose_steps_take_longer_on_every_page_is_slow() -> None:
    assert slow_ranks(ranks(*[(60, 1.8)] * 20)) == ["1"]


def test_a_rank_that_stood_still_for_50_s_and_is_as_fast_as_the_others_else_is_not_slow() -> None:
    standing = [(0, 0.0)] * 3 + [(5, 50.0 * 3)]  # three requests waited for their next token
    before, after = [(15, 0.3)] * 10, [(15, 0.3)] * 6
    pool = ranks(*before, *standing, *after)
    itl = pool.targets["decode-0"].gained.engines["1"].histograms["itl"]
    assert itl.count > 200
    assert itl.mean is not None
    assert itl.mean > 5 * 0.02
    assert slow_ranks(pool) == []
