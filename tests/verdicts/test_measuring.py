"""Measurements of every indicator from what a pool gained: which number is judged, and when there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.config import Objective
from agent.indicators.percentiles.estimate import Estimate
from agent.model import Role
from agent.verdicts.judging import judge
from agent.verdicts.lengths import Lengths
from agent.verdicts.measurement import Measurement
from agent.verdicts.measuring import Gained, measure
from agent.verdicts.system import measure_system
from agent.windows.increase import HistogramIncrease, Increase
from tests.verdicts.boxes import counted, cumulative

PROMISE = (16384, 262144)
EDGES = (0.01, 0.025, 0.05, 0.1)


def objective(indicator: str = "tpot", **changed: Any) -> Objective:
    plain: dict[str, Any] = {"indicator": indicator, "scope": "decode", "target": 0.025, "min_requests": 5}
    return Objective(**(plain | changed))


def gained(
    histograms: dict[str, HistogramIncrease],
    counters: dict[tuple[str, str], float] | None = None,
    role: Any = "decode",
    in_flight: float | None = None,
) -> Gained:
    lengths = Lengths(histograms.get("prompt_tokens"), PROMISE)
    same = Lengths(histograms.get("prompt_tokens"), PROMISE, same_requests=True)
    return Gained(role, Increase(counters or {}, histograms), in_flight, lengths, same)


C07 = gained(
    {
        "itl": HistogramIncrease(EDGES, [0, 0, 1250, 0, 0], 40.0),
        "tpot": HistogramIncrease(EDGES, [0, 50, 0, 0, 0], 0.89),
        "ttft": HistogramIncrease((1.0,), [50, 0], 5.0),
    },
    {
        ("generation_tokens", ""): 2300,
        ("spec_drafts", ""): 1250,
        ("spec_draft_tokens", ""): 1250,
        ("spec_accepted_tokens", ""): 1000,
        ("requests_finished", "stop"): 50,
    },
)


def test_c07_with_speculation_tpot_is_judged_per_request_and_never_on_step_latency() -> None:
    verdict = judge(objective(), measure(objective(), C07))
    assert (verdict.word, verdict.judged_on) == ("met", "request_mean")
    assert verdict.value == pytest.approx(0.0178)
    token = measure(objective("tpot_token"), C07)
    assert token.range.value == pytest.approx(40.0 / 2250)
    assert measure(objective("itl"), C07).range.value == pytest.approx(0.032)


def test_c07_without_the_request_family_the_live_token_mean_is_judged() -> None:
    only = {metric: histogram for metric, histogram in C07.increase.histograms.items() if metric != "tpot"}
    verdict = judge(objective(), measure(objective(), gained(only, C07.increase.counters)))
    assert (verdict.word, verdict.judged_on) == ("met", "token_mean")
    assert verdict.value == pytest.approx(0.0178, rel=0.01)


def test_c27_a_prefill_pool_has_no_tpot_and_decode_is_judged_without_it() -> None:
    decode = gained({"tpot": cumulative({0.01: 0, 0.025: 40, 0.05: 300, 0.075: 380, 0.1: 392, 0.15: 400}, 16.0)})
    prefill = gained({"tpot": cumulative({0.01: 400}, 0.0)}, role="prefill")
    sla = objective(target=0.030)
    verdict = judge(sla, measure(sla, decode))
    assert verdict.word == "breached"
    assert verdict.value == pytest.approx(0.040)
    assert judge(sla, measure(sla, prefill)).word == "not_applicable"
    of_system = objective(target=0.030, scope="system")
    both = measure_system(of_system, {"prefill": prefill, "decode": decode}, "serial")
    assert both.range.value == pytest.approx(0.040)


def test_c10_a_target_inside_the_first_bucket_is_undecided_and_one_on_its_edge_is_met() -> None:
    queue = gained({"queue": cumulative({0.3: 100, 0.5: 100}, 4.2)})
    for target, word in ((0.2, "undecided"), (0.3, "met")):
        sla = objective("queue", statistic="p99", target=target)
        assert judge(sla, measure(sla, queue)).word == word


def test_c10_a_sum_of_zero_under_traffic_is_not_good() -> None:
    for statistic, ratio in (("mean", None), ("p95", None), ("share", 0.95)):
        sla = objective("ttft", statistic=statistic, objective_ratio=ratio, target=2.5)
        verdict = judge(sla, measure(sla, gained({"ttft": cumulative({0.001: 208, 0.005: 208}, 0.0)})))
        assert (verdict.word, verdict.signal) == ("undecided", "unknown")
        assert "208 observations of ttft add up to 0" in verdict.text


@pytest.mark.parametrize(
    ("promised", "target", "word"), [(0.90, 0.3, "undecided"), (0.95, 0.5, "met"), (0.97, 0.3, "breached")]
)
def test_c14_a_share_at_a_target_between_edges_is_bounded(promised: float, target: float, word: str) -> None:
    ttft = gained({"ttft": cumulative({0.1: 120, 0.25: 880, 0.5: 960, 0.75: 990, 1.0: 1000}, 200.0)})
    sla = objective("ttft", statistic="share", objective_ratio=promised, target=target)
    assert judge(sla, measure(sla, ttft)).word == word


def test_c14_a_p90_between_edges_is_undecided() -> None:
    ttft = gained({"ttft": cumulative({0.1: 120, 0.25: 880, 0.5: 960, 0.75: 990, 1.0: 1000}, 200.0)})
    sla = objective("ttft", statistic="p90", target=0.3)
    verdict = judge(sla, measure(sla, ttft))
    assert (verdict.word, verdict.low, verdict.high) == ("undecided", 0.25, 0.5)
    assert verdict.value == pytest.approx(0.3125)


class Sharper:
    """An estimator that knows more than buckets."""

    def quantile(self, q: float) -> Estimate:
        return Estimate(0.28 + 0.01 * q, 0.26, 0.31, 0.27, 0.29 + 0.001 * q)

    def share_above(self, x: float) -> Estimate:
        return Estimate(0.04, 0.02 if x else 1.0, 0.06, 0.03, 0.045)


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"statistic": "p90"}, "undecided"),
        ({"statistic": "p90", "certainty": "likely"}, "met"),
        ({"statistic": "p90", "target": 0.32}, "met"),
        ({"statistic": "p90", "target": 0.26}, "breached"),
        ({"statistic": "share", "objective_ratio": 0.95}, "undecided"),
        ({"statistic": "share", "objective_ratio": 0.95, "certainty": "likely"}, "met"),
    ],
)
def test_a_better_estimator_decides_what_buckets_leave_open(changed: dict[str, Any], word: str) -> None:
    ttft = gained({"ttft": cumulative({0.1: 120, 0.25: 880, 0.5: 960, 0.75: 990, 1.0: 1000}, 200.0)})
    sla = objective("ttft", **({"target": 0.3} | changed))
    assert judge(sla, measure(sla, replace(ttft, estimators={"ttft": Sharper()}))).word == word


def test_a_missing_family_is_said_and_is_no_data() -> None:
    sla = objective("queue")
    verdict = judge(sla, measure(sla, gained({"ttft": cumulative({1.0: 10}, 5.0)})))
    assert (verdict.word, verdict.judged_on) == ("no_data", "none")
    assert "lack queue" in verdict.text


def test_without_a_usable_page_no_family_is_said_to_be_missing() -> None:
    sla = objective("queue")
    verdict = judge(sla, measure(sla, gained({})))
    assert (verdict.word, verdict.judged_on) == ("no_data", "none")
    assert "no page of the window can be used" in verdict.text


def test_an_empty_family_without_traffic_is_no_data() -> None:
    sla = objective("ttft")
    assert judge(sla, measure(sla, gained({"ttft": HistogramIncrease.empty(EDGES)}))).word == "no_data"


def collapse(in_flight: float | None) -> Measurement:
    flow = gained(
        {
            "tpot": counted([0.02], EDGES),
            "itl": HistogramIncrease(EDGES, [0, 0, 0, 0, 600], 300.0),
            "ttft": HistogramIncrease((1.0,), [10, 0], 5.0),
        },
        {("generation_tokens", ""): 610, ("requests_finished", "stop"): 1},
        in_flight=in_flight,
    )
    return measure(objective(), flow)


def test_in_a_collapse_many_requests_are_under_way_and_the_live_mean_is_judged() -> None:
    for in_flight in (8.0, None):
        verdict = judge(objective(), collapse(in_flight))
        assert (verdict.word, verdict.judged_on) == ("breached", "token_mean")
        assert verdict.value == pytest.approx(0.5)


def test_one_slow_request_at_night_is_not_a_collapse() -> None:
    assert judge(objective(), collapse(1.0)).word == "insufficient_data"


def test_before_tpot_per_request_existed_a_mean_comes_from_decode_time() -> None:
    old = gained(
        {
            "decode": HistogramIncrease((0.3,), [0, 20], 20.0),
            "generation_tokens": HistogramIncrease((1.0, 100.0), [0, 20, 0], 1020.0),
        }
    )
    verdict = judge(objective(), measure(objective(), old))
    assert (verdict.word, verdict.judged_on) == ("met", "decode_time_over_tokens")
    assert verdict.value == pytest.approx(0.020)


def test_acceptance_length_leaves_padded_drafts_out_and_does_not_exist_without_speculation() -> None:
    floor = objective("acceptance_length", target=1.9)
    verdict = judge(floor, measure(floor, C07))
    assert (verdict.word, verdict.judged_on) == ("breached", "step_mean")
    assert verdict.value == pytest.approx(1.8)
    plain = gained({}, {("generation_tokens", ""): 100})
    assert judge(floor, measure(floor, plain)).word == "not_applicable"
    counters = ("spec_drafts", "spec_draft_tokens", "spec_accepted_tokens")
    idle = gained({}, {(name, ""): 0.0 for name in counters})
    assert judge(floor, measure(floor, idle)).word == "no_data"


def test_errors_are_bounded_as_reason_and_answer_may_be_the_same_request() -> None:
    sla = objective("errors", target=0.05)
    finished = {("requests_finished", "stop"): 95.0, ("requests_finished", "error"): 5.0}
    bad = gained({}, {**finished, ("http_requests", "5xx"): 5.0})
    found = measure(sla, bad)
    assert (found.range.low, found.range.high) == pytest.approx((0.05, 10 / 105))
    assert judge(sla, found).word == "undecided"


def test_a_request_that_fails_in_its_prefill_leg_is_one_failed_request_of_the_system() -> None:
    sla = objective("errors", target=0.05, scope="system")
    prefill = gained({}, {("requests_finished", "length"): 90, ("requests_finished", "error"): 10}, role="prefill")
    decode = gained({}, {("requests_finished", "stop"): 80, ("requests_finished", "error"): 10})
    found = measure_system(sla, {"prefill": prefill, "decode": decode}, "serial")
    assert found.range.value == pytest.approx(20 / 100)
    assert judge(sla, found).word == "breached"


def legs(dispatch: Any, **changed: Any) -> Measurement:
    prefill = gained({"e2e": counted([1.2] * 18 + [3.0] * 2, (0.3, 1.0, 2.5, 5.0))}, role="prefill")
    decode = gained({"ttft": counted([0.2] * 20, (0.1, 0.25, 0.5, 1.0))})
    sla = objective("ttft", scope="system", **changed)
    return measure_system(sla, {"prefill": prefill, "decode": decode}, dispatch)


def test_the_systems_ttft_is_the_sum_of_the_legs_means_under_serial_dispatch() -> None:
    found = legs("serial", target=2.5)
    assert (found.judged_on, found.count) == ("leg_means", 20)
    assert found.range.value == pytest.approx((18 * 1.2 + 2 * 3.0) / 20 + 0.2)
    assert legs("concurrent", target=2.5).range.value == pytest.approx(0.2)


def test_the_systems_percentiles_are_bounded_and_undecided_where_the_legs_leave_it_open() -> None:
    p90 = legs("serial", statistic="p90", target=2.0)
    assert (p90.judged_on, p90.range.value) == ("leg_bounds", None)
    verdict = judge(objective("ttft", scope="system", statistic="p90", target=2.0), p90)
    assert verdict.word == "undecided"
    assert "percentiles do not add up" in verdict.text
    assert judge(objective("ttft", scope="system", statistic="p90", target=6.0), p90).word == "met"


def test_a_sum_of_legs_rests_on_the_leg_that_fewer_requests_have_passed() -> None:
    prefill = gained({"e2e": counted([1.2] * 60, (1.0, 2.5))}, role="prefill")
    decode = gained({"ttft": counted([0.2] * 4, (0.1, 0.25))})
    sla = objective("ttft", scope="system", target=2.5)
    found = measure_system(sla, {"prefill": prefill, "decode": decode}, "serial")
    assert found.count == 4
    verdict = judge(sla, found)
    assert verdict.word == "insufficient_data"
    assert "60 prefill legs stand against 4 decode legs" in verdict.text


def test_a_missing_leg_is_named() -> None:
    only: dict[Role, Gained] = {
        "prefill": gained({}, role="prefill"),
        "decode": gained({"ttft": counted([0.2] * 20, EDGES)}),
    }
    sla = objective("ttft", scope="system")
    verdict = judge(sla, measure_system(sla, only, "serial"))
    assert verdict.word == "no_data"
    assert "the prefill pools' pages lack e2e" in verdict.text
