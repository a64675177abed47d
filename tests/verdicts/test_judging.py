"""Verdicts from plain numbers: every word, why it is given, and what it means to the status."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config import Objective
from agent.verdicts.judging import judge
from agent.verdicts.measurement import Measurement, Outside, Range

PROMISE = (16384, 262144)


def objective(**changed: Any) -> Objective:
    plain: dict[str, Any] = {"indicator": "tpot", "scope": "decode", "target": 0.020}
    return Objective(**(plain | changed))


def measured(low: float, high: float | None = None, count: float = 400, **changed: Any) -> Measurement:
    high = low if high is None else high
    value = low if math.isinf(high) else (low + high) / 2
    plain: dict[str, Any] = {
        "judged_on": "request_mean",
        "count": count,
        "needed": 20,
        "range": Range.certain(value, low, high),
        "active": True,
    }
    return Measurement("ok", **(plain | changed))


def test_an_exact_mean_is_met_up_to_the_target_and_breached_above_it() -> None:
    assert judge(objective(), measured(0.020)).word == "met"
    assert judge(objective(), measured(0.0201)).word == "breached"


def test_a_met_mean_ends_an_incident_only_below_the_hysteresis_line() -> None:
    assert judge(objective(), measured(0.0191)).signal == "near"
    assert judge(objective(), measured(0.0190)).signal == "good"
    assert judge(objective(), measured(0.0231)).signal == "bad"


def test_the_sentence_names_value_count_window_and_promise() -> None:
    text = judge(objective(), measured(0.0231, count=412)).text
    assert text == "mean TPOT of decode 23.1 ms over 412 requests in the last 5m, promised 20 ms"


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [(0.0, 0.3, "met"), (0.3, 0.5, "breached"), (0.25, 0.5, "undecided"), (1.0, math.inf, "breached")],
)
def test_a_quantile_is_decided_by_the_edges_of_its_bucket(low: float, high: float, word: str) -> None:
    promised = objective(indicator="queue", statistic="p99", target=0.3)
    assert judge(promised, measured(low, high)).word == word


def test_an_undecided_quantile_says_between_what_it_lies() -> None:
    promised = objective(indicator="queue", statistic="p99", target=0.2, scope="prefill")
    verdict = judge(promised, measured(0.0, 0.3, count=100))
    assert verdict.word == "undecided"
    assert verdict.signal == "unknown"
    assert "at most 300 ms" in verdict.text
    assert "promised 200 ms" in verdict.text


def test_certainty_likely_decides_by_the_likely_interval() -> None:
    range_ = Range(2.2, 1.0, 2.5, 2.1, 2.3)
    strict = objective(indicator="ttft", statistic="p95", target=2.4)
    likely = objective(indicator="ttft", statistic="p95", target=2.4, certainty="likely")
    assert judge(strict, measured(1.0, range=range_)).word == "undecided"
    assert judge(likely, measured(1.0, range=range_)).word == "met"


@pytest.mark.parametrize(
    ("promised", "low", "high", "word"),
    [
        (0.90, 0.88, 0.96, "undecided"),
        (0.95, 0.96, 0.96, "met"),
        (0.97, 0.88, 0.96, "breached"),
        (0.95, 19 / 20, 1.0, "met"),
    ],
)
def test_a_share_is_decided_by_both_ends(promised: float, low: float, high: float, word: str) -> None:
    share = objective(indicator="ttft", statistic="share", target=0.3, objective_ratio=promised)
    verdict = judge(share, measured(low, high))
    assert verdict.word == word
    assert verdict.target == promised


def test_a_share_ends_an_incident_when_the_bad_part_is_below_the_line() -> None:
    share = objective(indicator="ttft", statistic="share", target=0.5, objective_ratio=0.95)
    assert judge(share, measured(0.951)).signal == "near"
    assert judge(share, measured(0.953)).signal == "good"


def test_an_acceptance_length_is_a_floor() -> None:
    floor = objective(indicator="acceptance_length", target=2.0)
    assert judge(floor, measured(2.5, noun="step")).signal == "good"
    assert judge(floor, measured(2.05, noun="step")).signal == "near"
    assert judge(floor, measured(1.9, noun="step")).word == "breached"


def test_too_few_requests_are_insufficient_and_none_at_all_is_no_data() -> None:
    few = judge(objective(), measured(0.5, count=19))
    assert (few.word, few.signal, few.value) == ("insufficient_data", "unknown", 0.5)
    assert "19 requests" in few.text
    assert judge(objective(), measured(0.5, count=0, active=False)).word == "no_data"
    assert judge(objective(), measured(0.5, count=0, active=True)).word == "insufficient_data"


def test_in_a_collapse_the_live_token_mean_is_judged_and_said() -> None:
    live = measured(0.45, count=2400, needed=200, judged_on="token_mean", noun="step")
    verdict = judge(objective(), measured(0.02, count=1, live=live))
    assert (verdict.word, verdict.judged_on, verdict.value) == ("breached", "token_mean", 0.45)
    assert verdict.text.startswith("only 1 request finished while tokens flow (20 needed): ")
    assert "token-mean TPOT of decode 450 ms over 2400 steps" in verdict.text
    few = measured(0.45, count=100, needed=200, judged_on="token_mean", noun="step")
    assert judge(objective(), measured(0.02, count=1, live=few)).word == "insufficient_data"


@pytest.mark.parametrize(
    ("condition", "word"),
    [("metric_missing", "no_data"), ("not_applicable", "not_applicable"), ("implausible", "undecided")],
)
def test_what_cannot_be_measured_is_never_good(condition: Any, word: str) -> None:
    verdict = judge(objective(), Measurement(condition, count=208, needed=20, note="it is said here"))
    assert (verdict.word, verdict.signal, verdict.value) == (word, "unknown", None)
    assert "it is said here" in verdict.text


def test_a_breach_that_holds_for_every_split_is_a_breach_and_says_so() -> None:
    verdict = judge(objective(), measured(0.024, 0.031, outside=Outside(60, 100)), PROMISE)
    assert verdict.word == "breached"
    assert "whichever 15-25 % of requests lie outside 16K-256K prompt tokens" in verdict.text


def test_a_breach_that_hangs_on_the_split_is_undecided_and_names_the_share() -> None:
    verdict = judge(objective(), measured(0.015, 0.0212, outside=Outside(72, 96)), PROMISE)
    assert (verdict.word, verdict.signal) == ("undecided", "unknown")
    assert "18-24 % of requests may lie outside 16K-256K prompt tokens" in verdict.text
    assert "between 15 ms and 21.2 ms" in verdict.text


def test_a_promise_that_perhaps_concerns_nobody_is_neither_kept_nor_broken() -> None:
    assert judge(objective(), measured(0.5, outside=Outside(0, 390)), PROMISE).word == "undecided"
    assert judge(objective(), measured(0.5, outside=Outside(390, 390)), PROMISE).word == "insufficient_data"
    nobody = judge(objective(), measured(0.5, outside=Outside(400, 400)), PROMISE)
    assert nobody.word == "no_data"
    assert "none of 400 requests" in nobody.text


def test_good_numbers_without_a_target_that_just_fell_silent_do_not_end_an_incident() -> None:
    verdict = judge(objective(), measured(0.010, partial=True))
    assert (verdict.word, verdict.signal) == ("met", "unknown")


@given(st.floats(0.001, 0.1), st.floats(0.0, 0.1), st.floats(0.0, 400.0), st.floats(0.0, 1.0))
def test_met_and_breached_need_all_of_the_range_on_one_side(
    low: float, width: float, high_out: float, part: float
) -> None:
    verdict = judge(objective(), measured(low, low + width, outside=Outside(high_out * part, high_out)), PROMISE)
    if verdict.word == "met":
        assert low + width <= 0.020 * (1 + 1e-6)
    if verdict.word == "breached":
        assert low > 0.020
    if verdict.word in ("met", "breached"):
        assert 400 - high_out >= 20
