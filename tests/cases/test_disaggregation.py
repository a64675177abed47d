"""Cases of the kind "prefill/decode in production", as numbers: pools apart, expiry, acceptance, imbalance."""

from __future__ import annotations

import pytest

from agent.state import Speculation
from tests.cases.fleet import STEP_SECONDS, watched, window_of
from tests.pages import counter, gauge, histogram, page, zeroed

TPOT = "vllm:request_time_per_output_token_seconds"
LENGTHS = "vllm:request_generation_tokens"


def test_c27_a_prefill_pool_has_no_tpot_and_never_thins_out_decodes() -> None:
    prefill = page(histogram(TPOT, {0.01: 400}, 0.0), histogram(LENGTHS, {1.0: 400}, 400.0))
    decode = page(
        histogram(TPOT, {0.01: 0, 0.025: 40, 0.05: 300, 0.075: 380, 0.1: 392, 0.15: 400}, 16.0),
        histogram(LENGTHS, {1.0: 0, 2.0: 0, 1000.0: 400}, 100_000.0),
    )
    state = watched({"prefill-0": [zeroed(prefill), prefill], "decode-0": [zeroed(decode), decode]})
    assert state.pools["prefill"].latency["tpot"].status == "not_applicable"
    assert state.pools["prefill"].latency["tpot"].count == 0
    tpot = state.pools["decode"].latency["tpot"]
    assert tpot.mean == pytest.approx(0.040)
    for name, low, high in (("0.5", 0.025, 0.05), ("0.95", 0.05, 0.075), ("0.99", 0.1, 0.15)):
        found = tpot.quantiles[name]
        assert found is not None
        assert found.value is not None
        assert low <= found.low <= found.value <= (found.high or 0) <= high


def test_c27_one_token_requests_on_decode_are_taken_out() -> None:
    decode = page(histogram(TPOT, {0.01: 100, 0.05: 200}, 4.0), histogram(LENGTHS, {1.0: 100, 1000.0: 200}, 50_000.0))
    tpot = window_of(decode).pools["decode"].latency["tpot"]
    assert tpot.count == 100
    assert tpot.mean == pytest.approx(0.040)


def test_c29_expired_leases_are_seen_on_prefill_though_decode_looks_perfect() -> None:
    prefill = page(counter("vllm:nixl_num_kv_expired_reqs_total", 8))
    decode = page(
        counter("vllm:request_success_total", 42, finished_reason="stop"),
        counter("vllm:nixl_num_failed_transfers_total", 0),
    )
    state = watched({"prefill-0": [zeroed(prefill), prefill], "decode-0": [zeroed(decode), decode]})
    assert state.pools["prefill"].kv_transfer.expired == 8
    assert state.pools["decode"].kv_transfer.failed == 0
    assert state.pools["decode"].kv_transfer.expired is None, "absent is not observable, never 0"
    (expired,) = [problem for problem in state.problems if problem.code == "kv_expired"]
    assert expired.evidence["share"] == pytest.approx(8 / 42)
    assert "19.0 %" in expired.text


def speculation(drafts: float, tokens: float, accepted: float, *positions: float) -> Speculation | None:
    def text(scale: float) -> str:
        return page(
            counter("vllm:spec_decode_num_drafts_total", 1_000_000 + scale * drafts),
            counter("vllm:spec_decode_num_draft_tokens_total", 1_000_000 + scale * tokens),
            counter("vllm:spec_decode_num_accepted_tokens_total", 776_100 + scale * accepted),
            *(
                counter("vllm:spec_decode_num_accepted_tokens_per_pos_total", scale * n, position=str(i))
                for i, n in enumerate(positions)
            ),
        )

    return watched({"decode-0": [text(0), text(1)]}).pools["decode"].speculation


@pytest.mark.parametrize(("window", "rate"), [((5000, 5000, 3900), 0.78), ((4800, 4800, 0), 0.0), ((0, 0, 0), None)])
def test_c32_the_rate_is_of_the_window_and_no_drafts_are_no_data(
    window: tuple[float, float, float], rate: float | None
) -> None:
    found = speculation(*window)
    assert found is not None
    assert found.acceptance_rate == (None if rate is None else pytest.approx(rate))


def test_c32_the_three_rates_differ() -> None:
    found = speculation(23, 161, 44, 17, 10, 7, 4, 3, 2, 1)
    assert found is not None
    assert found.acceptance_rate == pytest.approx(0.273, abs=5e-4)
    assert found.per_position[0] == pytest.approx(0.739, abs=5e-4)
    assert found.acceptance_length == pytest.approx(2.91, abs=5e-3)
    assert found.conditional_per_position[1] == pytest.approx(10 / 17)


def test_c32_without_speculative_metrics_the_feature_is_off() -> None:
    assert window_of(page(counter("vllm:generation_tokens_total", 5))).pools["decode"].speculation is None


def kv(usage: float, running: float, waiting: float, deferred: float = 0.0) -> str:
    return page(
        gauge("vllm:kv_cache_usage_perc", usage),
        gauge("vllm:num_requests_running", running),
        gauge("vllm:num_requests_waiting", waiting),
        gauge("vllm:num_requests_waiting_by_reason", deferred, reason="deferred"),
        gauge("vllm:num_requests_waiting_by_reason", waiting - deferred, reason="capacity"),
    )


def test_c34_both_pools_stand_side_by_side_with_their_fullest_engine() -> None:
    state = watched(
        {
            "prefill-0": [kv(0.96, 1, 22)],
            **{f"decode-{i}": [kv(usage, 256, 6, 6)] for i, usage in enumerate((0.99, 0.97, 0.96, 0.96))},
        }
    )
    assert state.pools["prefill"].load.waiting == 22
    decode = state.pools["decode"].load
    assert (decode.running, decode.waiting_deferred) == (1024, 24)
    assert decode.kv_usage_max == 0.99
    assert decode.kv_usage_mean == pytest.approx(0.97)


def test_c34_one_hot_engine_is_not_averaged_away() -> None:
    state = watched({f"decode-{i}": [kv(0.95 if i == 0 else 0.017, 3, 0)] for i in range(10)})
    load = state.pools["decode"].load
    assert load.kv_usage_mean == pytest.approx(0.11, abs=5e-3)
    assert load.kv_usage_max == 0.95


def test_gauges_of_a_target_that_stopped_answering_leave_the_sums() -> None:
    alive = [kv(0.5, 10, 0)] * 5
    state = watched({"decode-0": [*alive], "decode-1": [kv(0.5, 10, 0), None, None, None, None]})
    assert STEP_SECONDS * 4 > 15
    assert state.pools["decode"].load.running == 10
    assert state.pools["decode"].targets["decode-1"].up is False
