"""The router in front: the user's TTFT and counts, what is preferred when, and what the router's count tells."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from agent.indicators.pools import PoolFacts, TargetFacts, pool_facts
from agent.indicators.routers import as_pool, errors, requests, router_state
from agent.indicators.system import system_state
from agent.model import HistogramKey, Role, SeriesKey
from agent.state import SystemTtft, TtftParts
from agent.verdicts.traffic import traffic_problems
from agent.verdicts.vanished import vanished_traffic
from agent.windows.history import PoolHistory
from agent.windows.increase import HistogramIncrease, Increase
from agent.windows.target import TargetWindow
from tests.readings import Pages, layout

EDGES = (0.5, 1.0, 2.5)
SPANS = SystemTtft("ok", 40, 1.3, {}, "traces", TtftParts(0.9, 0.4))


def facts(
    role: Role, histograms: dict[str, tuple[int, float]], counters: dict[tuple[str, str], float], fresh: bool = True
) -> PoolFacts:
    """One target that gained `n` observations of `each` seconds per histogram, in 10 s."""
    engine = "" if role == "router" else "0"
    keys = [SeriesKey(engine, metric, label) for metric, label in counters]
    boxes = [HistogramKey(SeriesKey(engine, metric), EDGES) for metric in histograms]
    gauges = [SeriesKey(engine, "router_queued")] if role == "router" else []
    pages = Pages(layout(keys, boxes, gauges), role)
    window = TargetWindow(900.0)
    full = [
        ([n if low < each <= high else 0 for low, high in zip((0, *EDGES), (*EDGES, math.inf), strict=True)], n * each)
        for n, each in histograms.values()
    ]
    empty = [([0] * 4, 0.0) for _ in histograms]
    window.take(pages.at(0.0, [0.0] * len(keys), empty, [2.0] * len(gauges)))
    window.take(pages.at(10.0, list(counters.values()), full, [2.0] * len(gauges)))
    target = TargetFacts(window, window.increases(0.0, 10.0), fresh, 1.0, ())
    return pool_facts(role, role, None, {f"{role}-0": target})


def fleet(n: int = 40) -> list[PoolFacts]:
    served = {("requests_finished", "stop"): float(n)}
    return [facts("prefill", {"e2e": (n, 0.9)}, served), facts("decode", {"ttft": (n, 0.3)}, served)]


def router(n: int = 40, each: float = 1.4, fresh: bool = True) -> PoolFacts:
    counts = {("router_requests", "success"): float(n), ("router_requests", "error"): 2.0}
    return facts("router", {"router_ttft": (n, each), "router_e2e": (n, 2.0)}, counts, fresh)


def test_the_routers_ttft_is_preferred_and_the_legs_stand_beside_it():
    found = system_state(fleet(), "serial", None, router=router(), router_kind="dynamo", traced=SPANS)
    assert (found.ttft.source, found.ttft.count) == ("router", 40)
    assert found.ttft.mean == pytest.approx(1.4)
    assert found.ttft.parts.prefill_leg == pytest.approx(0.9)
    assert found.ttft.parts.kv_and_decode_leg == pytest.approx(0.3)
    median = found.ttft.quantiles["0.5"]
    assert median is not None
    assert (median.low, median.high) == (1.0, 2.5)


@pytest.mark.parametrize("silent", [None, router(0), router(fresh=False), facts("router", {}, {})])
def test_spans_are_taken_where_no_router_measures(silent: PoolFacts | None):
    assert system_state(fleet(), "serial", None, router=silent, traced=SPANS).ttft == SPANS


def test_without_router_and_spans_the_legs_are_composed_and_percentiles_bounded():
    found = system_state(fleet(), "serial", None, traced=replace(SPANS, status="no_data", mean=None)).ttft
    assert found.source == "composed"
    assert found.mean == pytest.approx(1.2)
    p99 = found.quantiles["0.99"]
    assert p99 is not None
    assert p99.value is None
    assert (p99.low, p99.high) == (0.5, 1.5)  # 0.5..1.0 of one leg and 0..0.5 of the other


def test_a_router_that_saw_few_of_the_requests_does_not_speak_for_them():
    assert system_state(fleet(40), "serial", None, router=router(19)).ttft.source == "composed"
    assert system_state(fleet(40), "serial", None, router=router(20)).ttft.source == "router"


def test_the_routers_state_holds_its_counts_times_and_gauges():
    found = router_state(router(), "dynamo")
    assert (found.kind, found.requests, found.errors, found.requests_per_s, found.queued) == ("dynamo", 42, 2, 4.2, 2.0)
    assert found.latency["ttft"].mean == pytest.approx(1.4)
    assert found.latency["tpot"].status == "metric_missing"
    assert found.running is None
    assert found.targets["router-0"].up


def test_requests_and_errors_come_from_whatever_the_router_counts():
    whole = HistogramIncrease((1.0,), [3.0, 2.0], 9.0)
    assert requests(Increase()) is None
    assert errors(Increase()) is None
    assert requests(Increase(histograms={"router_e2e": whole})) == 5
    assert errors(Increase(counters={("router_requests", ""): 4.0})) is None
    assert errors(Increase(counters={("router_requests", "2xx"): 4.0, ("router_requests", "5xx"): 1.0})) == 1
    assert errors(Increase(counters={("router_responses", "2"): 4.0, ("router_responses", "5"): 3.0})) == 3
    assert errors(Increase(counters={("router_requests", "error"): 4.0, ("router_errors", ""): 1.0})) == 1


def test_envoys_milliseconds_become_seconds():
    millis = HistogramIncrease((500.0, 1000.0), [3.0, 1.0, 0.0], 1500.0)
    view = as_pool(Increase(histograms={"router_e2e_milliseconds": millis})).histograms["e2e"]
    assert (view.edges, view.mean) == ((0.5, 1.0), 0.375)


def test_the_routers_numbers_can_be_judged_like_a_pools():
    view = as_pool(router().total)
    assert view.histograms["ttft"].count == 40
    assert view.labels("requests_finished") == {"": 40.0, "error": 2.0}


def test_legs_stand_beside_what_the_router_counted():
    pools = [facts("prefill", {"e2e": (60, 0.9)}, {("requests_finished", "stop"): 60.0}), fleet(40)[1]]
    legs = system_state(pools, "serial", None, router=router()).legs
    assert legs is not None
    assert (legs.prefill, legs.decode, legs.unmatched, legs.requests) == (60, 40, 20, 42)
    problem = next(p for p in traffic_problems(pools, legs, 0.0) if p.code == "legs_unmatched")
    assert problem.text.endswith("; the router counted 42 requests")


def test_a_router_to_which_nothing_comes_any_more_is_vanished_traffic():
    day, history = 86400.0, PoolHistory()
    window, pages = TargetWindow(900.0), Pages(layout([SeriesKey("", "router_requests")]), "router-0")
    t = count = 0.0
    while t <= day:
        interval = window.take(pages.at(t, [count]))
        if interval is not None:
            history.add(interval)
        t, count = t + 60.0, count + (10.0 if t < day - 900 else 0.0)
    now = day
    target = TargetFacts(window, window.increases(now - 300, now), True, 1.0, ())
    pool = pool_facts("router", "router", None, {"router-0": target})
    assert vanished_traffic(pool, history, now) == []  # no earlier day is known yet
    for interval in window.increases(now - 900, now).intervals:
        interval.start, interval.end = interval.start + day, interval.end + day
        history.add(interval)
    found = vanished_traffic(pool, history, now + 0.9 * day)
    assert [problem.code for problem in found] == ["traffic_vanished"]
