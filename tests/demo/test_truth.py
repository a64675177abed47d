"""What the watch reads off the pages is what happened in the simulated engines, exactly where pages can be exact."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.demo import Fleet, Topology, small, start_incident, story, truth
from agent.demo.topology import Drafting
from tests.demo.watched import START, Seen, watched

MINUTE = 60.0


@pytest.fixture(scope="module")
def busy() -> Seen:
    """Nine minutes of the large fleet near its peak."""
    return watched(Fleet(story(), START), START + 9 * MINUTE)


def exactly(value: object) -> object:
    return pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("window", [(3, 9), (5, 6), (4.3, 8.1)])
def test_means_and_counts_on_the_pages_are_those_of_the_requests(busy: Seen, window: tuple[float, float]):
    since, until = (START + minutes * MINUTE for minutes in window)
    state, true = busy.state(since, until), busy.truth(since, until)
    prefill, decode = state.pools["prefill"], state.pools["decode"]
    for name, pool, sample in (
        ("ttft", prefill, true.prefill_ttft),
        ("e2e", prefill, true.prefill_ttft),
        ("queue", prefill, true.prefill_queue),
        ("prefill", prefill, true.prefill_time),
        ("ttft", decode, true.decode_ttft),
        ("queue", decode, true.decode_queue),
        ("decode", decode, true.decode_time),
        ("e2e", decode, true.decode_e2e),
        ("tpot", decode, true.tpot),
    ):
        assert pool.latency[name].count == sample.count > 0, name
        assert pool.latency[name].mean == exactly(sample.mean), name
    assert state.system.ttft.mean == exactly(true.composed_ttft_mean)
    assert decode.outcomes["stop"] == true.finished["stop"]
    assert decode.latency["itl"].count == true.steps
    assert decode.latency["itl"].mean == exactly(true.step_seconds / true.steps)
    assert decode.tpot_token_mean == exactly(true.tpot_token_mean)


def test_speculation_on_the_pages_is_that_of_the_steps(busy: Seen):
    since, until = START + 3 * MINUTE, START + 9 * MINUTE
    found, true = busy.state(since, until).pools["decode"].speculation, busy.truth(since, until)
    assert found is not None
    assert found.padded_drafts == true.padded_drafts > 0
    assert found.drafts == true.steps + true.padded_drafts
    assert found.accepted_tokens == true.accepted
    assert found.acceptance_length == exactly(true.acceptance_length)
    assert found.per_position == exactly([count / true.steps for count in true.accepted_by_position])


def test_transfers_on_the_pages_are_those_that_ended(busy: Seen):
    since, until = START + 3 * MINUTE, START + 9 * MINUTE
    found, true = busy.state(since, until).pools["decode"].kv_transfer, busy.truth(since, until)
    assert found.transfers == true.transfer.count > 0
    assert found.time.mean == exactly(true.transfer.mean)
    assert found.bytes == true.transfer_bytes
    assert (found.failed, found.recomputed_tokens) == (0, 0)


def test_bounds_of_the_quantiles_hold_the_true_quantiles(busy: Seen):
    since, until = START + 3 * MINUTE, START + 9 * MINUTE
    state, true = busy.state(since, until), busy.truth(since, until)
    pairs = (
        (state.pools["decode"].latency["tpot"], true.tpot),
        (state.pools["prefill"].latency["ttft"], true.prefill_ttft),
        (state.pools["decode"].kv_transfer.time, true.transfer),
    )
    for found, sample in pairs:
        for q, quantile in found.quantiles.items():
            real = sample.quantile(float(q))
            assert real is not None
            assert quantile is not None
            assert quantile.low is not None
            assert quantile.low <= real <= (quantile.high or real)


def test_a_healthy_fleet_gives_the_watch_no_problem(busy: Seen):
    assert busy.state(START + 3 * MINUTE, busy.fleet.now).problems == ()


@pytest.mark.parametrize(("topology", "hours"), [(story(), 0.2), (small(), 4.0)], ids=["story", "small"])
def test_a_healthy_fleet_keeps_the_default_promises(topology: Topology, hours: float):
    fleet = Fleet(topology, START, remember_seconds=None)
    fleet.advance(START + hours * 3600)
    true = truth(fleet, START + MINUTE * 2, fleet.now)
    user, tpot, length = true.user_ttft.mean, true.tpot.mean, true.acceptance_length
    assert user is not None
    assert tpot is not None
    assert length is not None
    assert 1.5 < user < 2.0
    assert 0.0155 < tpot < 0.0175
    assert 2.2 < length < 2.4


def test_a_change_of_acceptance_in_the_middle_of_requests_is_counted_exactly():
    fleet = Fleet(small(), START)
    start_incident(fleet, "mtp-collapse", at=START + 20 * MINUTE, until=START + 40 * MINUTE)
    seen = watched(fleet, START + 60 * MINUTE, interval_seconds=60.0)
    for begin, end in ((5, 20), (15, 25), (20, 40), (35, 45), (5, 60)):
        since, until = START + begin * MINUTE, START + end * MINUTE
        decode, true = seen.state(since, until).pools["decode"], seen.truth(since, until)
        assert decode.speculation is not None
        assert decode.tpot_token_mean == exactly(true.tpot_token_mean)
        assert decode.speculation.acceptance_length == exactly(true.acceptance_length)
        assert decode.latency["tpot"].mean == exactly(true.tpot.mean)


def test_without_drafts_each_step_is_a_token_and_the_page_has_no_speculation():
    topology = small()
    plain = replace(topology, decode=replace(topology.decode, drafting=Drafting(())))
    seen = watched(Fleet(plain, START), START + 20 * MINUTE, interval_seconds=60.0)
    since, until = START + 5 * MINUTE, START + 20 * MINUTE
    decode, true = seen.state(since, until).pools["decode"], seen.truth(since, until)
    assert decode.speculation is None
    assert true.tokens_after_first == true.steps > 0
    assert decode.tpot_token_mean == exactly(true.tpot_token_mean)


def test_failed_requests_poison_sums_as_they_do_in_vllm_and_are_told_by_the_truth():
    fleet = Fleet(small(), START)
    start_incident(fleet, "errors", share=0.5)
    seen = watched(fleet, START + 60 * MINUTE, interval_seconds=60.0)
    since, until = START + 5 * MINUTE, START + 60 * MINUTE
    decode, true = seen.state(since, until).pools["decode"], seen.truth(since, until)
    assert decode.outcomes["error"] == true.finished["error"] > 20
    assert decode.kv_transfer.failed == true.finished["error"]
    assert decode.latency["tpot"].mean == exactly(true.tpot.mean)
    assert decode.latency["ttft"].mean == exactly(true.decode_ttft.mean)
    page = fleet.page("decode-0")
    assert page is not None
    sums = [float(line.split()[-1]) for line in page.splitlines() if "request_queue_time_seconds_sum" in line]
    assert max(sums) < -1e6
    queue = decode.latency["queue"].mean
    assert queue is not None
    assert 0 < queue < 1


def test_restarts_lose_nothing_that_was_counted_before_and_after():
    fleet = Fleet(small(), START)
    start_incident(fleet, "rollout", at=START + 20 * MINUTE, targets=["prefill-0"], down_seconds=100.0)
    seen = watched(fleet, START + 40 * MINUTE, interval_seconds=30.0)
    for begin, end in ((5, 20), (26, 40)):
        since, until = START + begin * MINUTE, START + end * MINUTE
        state, true = seen.state(since, until), seen.truth(since, until)
        assert state.pools["prefill"].latency["ttft"].count == true.prefill_ttft.count > 0
        assert state.pools["prefill"].latency["ttft"].mean == exactly(true.prefill_ttft.mean)
