"""Spans and histograms of the same legs never contradict each other, however windows, clocks and exports differ."""

import math
import random
from bisect import bisect_left

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.indicators.requests import Disagreement, Requests, disagreements
from agent.model import SpansObservation
from agent.windows.increase import HistogramIncrease, Increase
from tests.indicators.requests.test_requests import CONFIG
from tests.spans import START, decode_span

EDGES = (0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0)
TPOT_EDGES = (0.01, 0.02, 0.05, 0.1)
WINDOW_SECONDS = 300.0
EXPORT_SECONDS = 5.0
Legs = list[tuple[float, float]]
"""(when it truly ended, its TTFT)."""


def legs(chance: random.Random, rate: float, change: float, slower: float) -> Legs:
    """Ten minutes of legs, whose TTFT changes at once at one moment: the hardest case for two windows that differ."""
    ends, at = [], START
    while at < START + 600.0:
        at += chance.expovariate(rate)
        base = chance.lognormvariate(-1.0, 0.3)
        ends.append((at, base * slower if at > change else base))
    return ends


def counted(all_legs: Legs, begin: float, end: float) -> Increase:
    """What pages at these two moments say was between them."""
    inside = [ttft for at, ttft in all_legs if begin < at <= end]

    def histogram(values: list[float], edges: tuple[float, ...]) -> HistogramIncrease:
        counts = [0.0] * (len(edges) + 1)
        for value in values:
            counts[bisect_left(edges, value)] += 1
        return HistogramIncrease(edges, counts, sum(values))

    return Increase(
        histograms={
            "ttft": histogram(inside, EDGES),
            "e2e": histogram([ttft + 0.02 for ttft in inside], EDGES),
            "tpot": histogram([0.02 for _ in inside], TPOT_EDGES),
        }
    )


def traced(all_legs: Legs, now: float, clock_ahead: float) -> Requests:
    """The spans that have come by `now`: in exports every five seconds, stamped by a clock that is off."""
    requests = Requests(CONFIG)
    batches: dict[float, list[tuple[int, float, float]]] = {}
    for number, (at, ttft) in enumerate(all_legs):
        arrives = START + EXPORT_SECONDS * math.ceil((at - START) / EXPORT_SECONDS) + 0.1
        if arrives <= now:
            batches.setdefault(arrives, []).append((number, at, ttft))
    for arrives, batch in batches.items():
        spans = [
            decode_span(f"cmpl-{number}-0", at - ttft - 0.02 + clock_ahead, ttft, tokens=2, trace="")
            for number, at, ttft in batch
        ]
        requests.take(SpansObservation(arrives, "decode-0", tuple(spans)))
    return requests


def compared(all_legs: Legs, sent: Legs, pages: tuple[float, float], clock_ahead: float) -> list[Disagreement]:
    """`pages`: how long before the window's ends the pages were taken."""
    now = START + 560.0
    begin = now - WINDOW_SECONDS
    requests = traced(sent, now, clock_ahead)
    totals = {"decode": counted(all_legs, begin - pages[0], now - pages[1])}
    edges = requests.edges(begin, now, max(pages))
    return disagreements(requests.system(begin, now), totals, edges)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1000),
    rate=st.sampled_from([0.5, 2.0, 8.0]),
    change=st.floats(START + 200.0, START + 600.0),
    slower=st.sampled_from([0.05, 1.0, 4.0, 20.0]),
    pages=st.tuples(st.floats(0.0, 15.0), st.floats(0.0, 15.0)),
    clock_ahead=st.sampled_from([0.0, 0.0, 3.0, -3.0, 30.0, -30.0, 3600.0, -3600.0]),
    lost=st.sampled_from([0.0, 0.0, 0.02, 0.05, 0.5, 0.9]),
    slowest_are_lost=st.booleans(),
)
def test_the_same_legs_never_disagree(
    seed: int,
    rate: float,
    change: float,
    slower: float,
    pages: tuple[float, float],
    clock_ahead: float,
    lost: float,
    slowest_are_lost: bool,
) -> None:
    chance = random.Random(seed)
    all_legs = legs(chance, rate, change, slower)
    if slowest_are_lost:
        bar = sorted(ttft for _, ttft in all_legs)[-max(1, round(lost * len(all_legs)))] if lost else math.inf
        sent = [leg for leg in all_legs if leg[1] < bar]
    else:
        sent = [leg for leg in all_legs if chance.random() >= lost]  # sampling, too
    assert compared(all_legs, sent, pages, clock_ahead) == []


@pytest.mark.parametrize("clock_ahead", [0.0, -5.0])
def test_spans_of_other_legs_are_still_told(clock_ahead: float) -> None:
    chance = random.Random(1)
    all_legs = legs(chance, 8.0, START, 1.0)
    others = [(at, 4.0 * ttft) for at, ttft in all_legs]
    found = compared(all_legs, others, (2.0, 2.0), clock_ahead)
    assert {(each.latency, each.statistic) for each in found} >= {("ttft", "p50"), ("e2e", "p50")}
