"""Spans against histograms of the same legs: agreement is silent, a contradiction is told, too few are not judged."""

from bisect import bisect_left

import pytest

from agent.indicators.requests import Requests, disagreements, requests_state
from agent.indicators.requests.compare import coverage
from agent.model import Role
from agent.verdicts.spans import span_problems
from agent.windows.increase import HistogramIncrease, Increase
from tests.indicators.requests.test_requests import CONFIG, request
from tests.spans import START, arrived, decode_span

EDGES = (0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0)
TTFTS = [0.1 + 0.01 * number for number in range(100)]


def histogram(values: list[float]) -> HistogramIncrease:
    counts = [0.0] * (len(EDGES) + 1)
    for value in values:
        counts[bisect_left(EDGES, value)] += 1
    return HistogramIncrease(EDGES, counts, sum(values))


def of_decode(ttfts: list[float], e2e_count: int | None = None) -> dict[str, Increase]:
    e2es = [ttft + 2.0 for ttft in ttfts][:e2e_count]
    return {"decode": Increase(histograms={"ttft": histogram(ttfts), "e2e": histogram(e2es)})}


def traced(ttfts: list[float]) -> Requests:
    requests = Requests(CONFIG)
    for number, ttft in enumerate(ttfts):
        requests.take(arrived("decode-0", decode_span(f"cmpl-{number}-0", START + number * 0.1, ttft, trace="")))
    return requests


def test_spans_and_histograms_of_the_same_legs_agree():
    view = traced(TTFTS).system(START, START + 60.0)
    assert disagreements(view, of_decode(TTFTS)) == []
    assert coverage(view, "decode", of_decode(TTFTS)["decode"]) == 1.0
    assert coverage(view, "decode", Increase()) is None


def test_a_few_legs_without_spans_are_no_contradiction():
    view = traced(TTFTS[3:]).system(START, START + 60.0)
    assert disagreements(view, of_decode(TTFTS)) == []


def test_spans_that_cannot_be_of_the_counted_legs_are_told_as_a_problem_of_the_pool():
    view = traced([4 * ttft for ttft in TTFTS]).system(START, START + 60.0)
    found = disagreements(view, of_decode(TTFTS))
    assert {(each.latency, each.statistic) for each in found} >= {("ttft", "p50"), ("ttft", "mean")}
    (problem,) = span_problems(found, START)
    assert (problem.code, problem.pool) == ("spans_disagree", "decode")
    assert "p50 of ttft in pool decode is 2.3" in problem.text
    assert "500.0 ms to 750.0 ms" in problem.text


@pytest.mark.parametrize(
    ("spans", "counted"),
    [
        pytest.param([9.0] * 40, [0.1] * 40, id="too few"),
        pytest.param([9.0] * 90, [0.1] * 100, id="too many legs without spans"),
        pytest.param([9.0] * 110, [0.1] * 100, id="spans of legs that were not counted"),
    ],
)
def test_nothing_is_said_about(spans: list[float], counted: list[float]):
    assert disagreements(traced(spans).system(START, START + 60.0), of_decode(counted)) == []


ROLES: dict[str, Role] = {"prefill": "prefill", "decode": "decode"}


@pytest.mark.parametrize(
    ("prefill_legs", "decode_legs", "complete"),
    [
        pytest.param(100, 100, True, id="all legs came"),
        pytest.param(104, 97, True, id="all but a few"),
        pytest.param(100, 200, False, id="half of the decode legs are missing"),
        pytest.param(200, 100, False, id="half of the prefill legs are missing"),
    ],
)
def test_spans_stand_for_all_requests_when(prefill_legs: int, decode_legs: int, complete: bool):
    requests = Requests(CONFIG)
    for number in range(100):
        request(requests, number, at=START + 0.1 * number)
    totals = {
        "prefill": Increase(histograms={"e2e": histogram([1.0] * prefill_legs)}),
        "decode": Increase(histograms={"e2e": histogram([1.5] * decode_legs)}),
    }
    state = requests_state(requests.system(START, START + 60.0), requests.counts(), ROLES, totals)
    assert state.complete == complete
    assert state.joined == state.ttft.count == 100
    assert state.coverage == {"prefill": 100 / prefill_legs, "decode": 100 / decode_legs}


def test_legs_that_do_not_find_each_other_do_not_stand_for_requests():
    requests = traced(TTFTS)  # decode legs alone
    totals = {"decode": Increase(histograms={"e2e": histogram([2.5] * 100)})}
    state = requests_state(requests.system(START, START + 60.0), requests.counts(), ROLES, totals)
    assert (state.coverage, state.complete, state.ttft.status) == ({"decode": 1.0}, False, "no_data")
