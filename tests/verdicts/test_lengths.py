"""How many requests may lie outside 16384..262144, as vLLM's 1-2-5 buckets tell it."""

from __future__ import annotations

from agent.verdicts.lengths import Lengths
from agent.windows.increase import HistogramIncrease

EDGES = (5000.0, 10000.0, 20000.0, 50000.0, 100000.0, 200000.0)
PROMISE = (16384, 262144)


def prompts(*counts: float) -> HistogramIncrease:
    return HistogramIncrease(EDGES, list(counts), 0.0)


def test_prompts_between_20000_and_200000_are_surely_inside() -> None:
    outside = Lengths(prompts(0, 0, 0, 50, 30, 20, 0), PROMISE).outside(400)
    assert (outside.low, outside.high, outside.known) == (0, 0, True)


def test_the_bucket_that_the_promise_cuts_and_the_open_one_may_be_outside() -> None:
    found = Lengths(prompts(0, 0, 18, 76, 0, 0, 6), PROMISE).outside(100)
    assert (found.low, found.high) == (0, 24)


def test_short_prompts_are_surely_outside() -> None:
    found = Lengths(prompts(10, 8, 6, 76, 0, 0, 0), PROMISE).outside(50)
    assert round(found.low, 9) == 9
    assert found.high == 12


def test_requests_without_an_observation_may_be_the_outside_ones() -> None:
    # 100 requests ended, 90 of them with a TPOT: of the 20 that may be outside 20 may be among those, or only 10 are.
    found = Lengths(prompts(20, 0, 0, 80, 0, 0, 0), PROMISE, same_requests=True).outside(90)
    assert round(found.low, 9) == 10
    assert found.high == 20


def test_while_nothing_finished_all_or_none_may_be_outside() -> None:
    found = Lengths(prompts(0, 0, 0, 0, 0, 0, 0), PROMISE).outside(40)
    assert (found.low, found.high) == (0, 40)


def test_pages_without_prompt_lengths_put_nothing_outside_and_say_so() -> None:
    found = Lengths(None, PROMISE).outside(40)
    assert (found.high, found.known) == (0, False)
    assert Lengths(prompts(0, 0, 1, 0, 0, 0, 0), None).outside(40).known
