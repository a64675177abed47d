"""Cases of the kind "histogram percentiles": what buckets decide, and what they leave open."""

from __future__ import annotations

import pytest

from agent.indicators.distribution import distribution, quantile, share_above
from agent.outputs.state_json import state_dict
from agent.windows.increase import HistogramIncrease
from tests.cases.fleet import watched, window_of
from tests.pages import histogram, page


def test_c10_everything_in_the_first_bucket_is_bounded_by_it_and_said_to_be_coarse() -> None:
    pool = window_of(page(histogram("vllm:request_queue_time_seconds", {0.3: 100, 0.5: 100}, 4.2))).pools["decode"]
    queue = pool.latency["queue"]
    assert queue.mean == pytest.approx(0.042)
    assert queue.low_resolution
    for name in ("0.5", "0.95", "0.99"):
        found = queue.quantiles[name]
        assert found is not None
        assert found.value is not None
        assert found.low <= found.value <= (found.high or 0)
        assert found.low >= 0.0
        assert found.high is not None
        assert found.high <= 0.3 + 1e-9
    assert share_above((0.3, 0.5), [100, 0, 0], 0.3) == (0.0, 0.0)
    assert share_above((0.3, 0.5), [100, 0, 0], 0.2) == (0.0, 1.0)


def test_c10_a_sum_of_zero_under_traffic_is_implausible_and_gives_no_numbers() -> None:
    state = window_of(page(histogram("vllm:time_to_first_token_seconds", {0.001: 208}, 0.0)))
    ttft = state.pools["decode"].latency["ttft"]
    assert ttft.implausible
    assert ttft.count == 208
    assert ttft.mean is None
    assert all(found is None for found in ttft.quantiles.values())
    assert "implausible" in {problem.code for problem in state.problems}


def test_c12_no_traffic_is_no_data_and_neither_zero_nor_the_lifetime() -> None:
    same = page(
        histogram("vllm:time_to_first_token_seconds", {0.25: 40}, 9.0).replace(
            " 40.0\nvllm:time_to_first_token_seconds_sum", " 52.0\nvllm:time_to_first_token_seconds_sum"
        )
    )
    for pages in ([same, same], [same]):
        state = watched({"decode-0": pages})
        ttft = state.pools["decode"].latency["ttft"]
        assert (ttft.count, ttft.mean) == (0, None)
        assert all(found is None for found in ttft.quantiles.values())
        written = state_dict(state)["pools"]["decode"]["latency"]["ttft"]
        assert written["mean"] is None
        assert written["count"] == 0
    assert watched({"decode-0": [same, same]}).pools["decode"].latency["ttft"].status == "no_data"


def test_c14_a_target_between_edges_is_bounded_and_a_target_on_an_edge_is_exact() -> None:
    edges, counts = (0.1, 0.25, 0.5, 0.75, 1.0), [120.0, 760.0, 80.0, 30.0, 10.0, 0.0]
    above = share_above(edges, counts, 0.3)
    assert above is not None
    assert (1 - above[1], 1 - above[0]) == pytest.approx((0.88, 0.96))
    exact = share_above(edges, counts, 0.5)
    assert exact == pytest.approx((0.04, 0.04))
    p90 = quantile(edges, counts, 0.9)
    assert p90 is not None
    assert (p90.low, p90.high) == (0.25, 0.5)
    assert p90.value == pytest.approx(0.3125)


def test_a_quantile_above_the_top_edge_has_no_upper_bound() -> None:
    found = quantile((1.0, 2.0), [1.0, 1.0, 8.0], 0.95)
    assert found is not None
    assert (found.value, found.low, found.high) == (2.0, 2.0, None)


def test_a_missing_family_is_missing_and_not_empty() -> None:
    assert distribution("ttft", None).status == "metric_missing"
    assert distribution("ttft", HistogramIncrease.empty((1.0,))).status == "no_data"
