"""Cases of the kind "vLLM metrics pages": names that change, restarts, gaps, steps that are not tokens."""

from __future__ import annotations

import pytest

from tests.cases.fleet import watched, window_of
from tests.pages import counter, gauge, histogram, page, zeroed

ITL = {0.05: 1250.0}


def test_c01_old_new_and_both_names_give_the_same_numbers_and_are_never_added() -> None:
    old = [
        histogram("vllm:time_per_output_token_seconds", ITL, 40.0),
        gauge("vllm:gpu_cache_usage_perc", 0.42),
    ]
    new = [
        histogram("vllm:inter_token_latency_seconds", ITL, 40.0),
        gauge("vllm:kv_cache_usage_perc", 0.42),
    ]
    for families in (old, new, [*old, *new]):
        pool = window_of(page(*families)).pools["decode"]
        assert pool.latency["itl"].count == 1250
        assert pool.latency["itl"].mean == pytest.approx(0.032)
        assert pool.load.kv_usage_max == 0.42
        assert pool.latency["tpot"].status == "metric_missing", "the old TPOT name means inter-token latency"


def test_c01_the_name_that_was_taken_is_said_and_a_missing_metric_is_named() -> None:
    state = window_of(page(histogram("vllm:time_per_output_token_seconds", ITL, 40.0)))
    names = state.pools["decode"].targets["decode-0"].metric_names
    assert names["itl"].startswith("vllm:time_per_output_token_seconds")
    missing = {problem.evidence["metric"] for problem in state.problems if problem.code == "metric_missing"}
    assert {"tpot", "ttft"} <= missing
    assert "itl" not in missing


def test_c01_old_and_new_versions_in_one_pool_give_one_series() -> None:
    old = page(histogram("vllm:time_per_output_token_seconds", ITL, 40.0))
    new = page(histogram("vllm:inter_token_latency_seconds", ITL, 40.0))
    state = watched({"decode-0": [zeroed(old), old], "decode-1": [zeroed(new), new]})
    assert state.pools["decode"].latency["itl"].count == 2500


def drafts(engine: str, drafted: float, accepted: float) -> list[str]:
    return [
        counter("vllm:spec_decode_num_drafts_total", drafted, engine),
        counter("vllm:spec_decode_num_draft_tokens_total", drafted, engine),
        counter("vllm:spec_decode_num_accepted_tokens_total", accepted, engine),
    ]


def test_c03_a_restart_of_one_engine_is_not_hidden_by_growth_of_another() -> None:
    state = watched(
        {
            "decode-0": [
                page(*drafts("0", 3000, 1800), *drafts("1", 1500, 900)),
                page(*drafts("0", 300, 150), *drafts("1", 5100, 2700)),
            ]
        }
    )
    speculation = state.pools["decode"].speculation
    assert speculation is not None
    assert (speculation.accepted_tokens, speculation.draft_tokens) == (1950, 3900)
    assert speculation.acceptance_rate == pytest.approx(0.5)
    restarts = [problem for problem in state.problems if problem.code == "restarted"]
    assert len(restarts) == 1
    assert "engine 0" in restarts[0].text


def test_c03_a_gap_counts_its_real_time_and_a_first_page_counts_nothing() -> None:
    def tokens(value: float) -> str:
        return page(counter("vllm:generation_tokens_total", value))

    state = watched({"decode-0": [tokens(1000), None, None, None, tokens(1240)]})
    assert state.pools["decode"].throughput.generation_tokens_per_s == pytest.approx(4.0)
    first = watched({"decode-0": [tokens(1000)]})
    assert first.pools["decode"].throughput.generation_tokens_per_s is None


def test_c05_a_creation_time_is_never_a_count_and_nan_is_no_value() -> None:
    text = (
        "# TYPE vllm:prompt_tokens_total counter\n"
        'vllm:prompt_tokens_total{engine="0",model_name="demo model, v2"} %s 1760000000000\n'
        "# TYPE vllm:prompt_tokens_created gauge\n"
        'vllm:prompt_tokens_created{engine="0",model_name="demo model, v2"} 1.7e+09\n'
        "# TYPE vllm:kv_cache_usage_perc gauge\n"
        'vllm:kv_cache_usage_perc{engine="0",model_name="q\\"}{# x"} NaN\n'
    )
    state = watched({"prefill-0": [text % "0.0", text % "1234.0"]})
    pool = state.pools["prefill"]
    assert pool.throughput.prompt_tokens_per_s == pytest.approx(1234 / 15)
    assert pool.load.kv_usage_max is None


def test_c07_tpot_with_drafts_is_per_token_and_the_step_time_is_only_the_step_time() -> None:
    pool = window_of(
        page(
            histogram("vllm:inter_token_latency_seconds", {0.05: 1250}, 40.0),
            counter("vllm:generation_tokens_total", 2300),
            histogram("vllm:time_to_first_token_seconds", {5: 50}, 60.0),
            histogram("vllm:request_time_per_output_token_seconds", {0.025: 50}, 0.89),
            *drafts("0", 1250, 1000),
        )
    ).pools["decode"]
    assert pool.latency["tpot"].mean == pytest.approx(0.0178)
    assert pool.tpot_token_mean == pytest.approx(40.0 / 2250)
    assert pool.latency["itl"].mean == pytest.approx(0.032)
    assert pool.tpot_mix_difference == pytest.approx(0.0178 - 40.0 / 2250)
    assert pool.speculation is not None
    assert pool.speculation.padded_drafts == 0
    assert pool.speculation.acceptance_length == pytest.approx(1.8)


def test_c07_without_the_request_family_the_per_step_figure_is_never_called_tpot() -> None:
    pool = window_of(
        page(
            histogram("vllm:inter_token_latency_seconds", {0.05: 1250}, 40.0),
            counter("vllm:generation_tokens_total", 2300),
            histogram("vllm:time_to_first_token_seconds", {5: 50}, 60.0),
            *drafts("0", 1250, 1000),
        )
    ).pools["decode"]
    assert pool.latency["tpot"].status == "metric_missing"
    assert pool.latency["tpot"].mean is None
    assert pool.tpot_token_mean == pytest.approx(40.0 / 2250)
