"""Each incident changes what it says, and what it says only while it lasts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from agent.demo import INCIDENTS, Fleet, Truth, small, start_incident, truth
from agent.errors import ConfigError
from tests.demo.watched import START, middle, problems, watched

MINUTE = 60.0


def before_and_during(name: str, minutes: float = 12.0, **options: Any) -> tuple[Fleet, Truth, Truth]:
    """Five healthy minutes, and the last half of the incident's time."""
    fleet = Fleet(middle(), START)
    start_incident(fleet, name, at=START + 6 * MINUTE, **options)
    fleet.advance(START + (6 + minutes) * MINUTE)
    healthy = truth(fleet, START + MINUTE, START + 6 * MINUTE)
    return fleet, healthy, truth(fleet, fleet.now - minutes / 2 * MINUTE, fleet.now)


def mean(value: float | None) -> float:
    assert value is not None
    return value


def test_mtp_collapse_leaves_one_token_per_step_and_breaks_the_promise():
    _, healthy, during = before_and_during("mtp-collapse", 4)
    assert mean(healthy.acceptance_length) > 2.2
    assert mean(during.acceptance_length) < 1.07
    assert mean(during.tpot_token_mean) > 0.030
    assert during.step_seconds / during.steps < 1.15 * healthy.step_seconds / healthy.steps


def test_graph_fallback_stretches_every_step_and_leaves_acceptance_alone():
    _, healthy, during = before_and_during("graph-fallback", 4)
    assert during.step_seconds / during.steps > 1.8 * healthy.step_seconds / healthy.steps
    assert mean(during.acceptance_length) == pytest.approx(mean(healthy.acceptance_length), rel=0.02)
    assert mean(during.tpot_token_mean) > 0.028


def test_rank_slow_is_seen_on_one_engine_only():
    fleet = Fleet(middle(), START)
    start_incident(fleet, "rank-slow", engine=3, at=START + MINUTE)
    seen = watched(fleet, START + 8 * MINUTE)
    state = seen.state(START + 3 * MINUTE, fleet.now)
    steps = {name: mean(e.latency["itl"].mean) for name, e in state.pools["decode"].targets["decode-0"].engines.items()}
    slow = steps.pop("3")
    assert slow > 1.5 * max(steps.values())
    assert {(p.code, p.engine) for p in state.problems} == {("rank_slow", "3")}


def test_kv_slow_lengthens_transfers_and_breaks_the_time_to_first_token():
    _, healthy, during = before_and_during("kv-slow", 4)
    assert mean(during.transfer.mean) > 30 * mean(healthy.transfer.mean)
    assert mean(healthy.user_ttft.mean) < 2.0
    assert mean(during.user_ttft.mean) > 2.5
    assert mean(during.prefill_ttft.mean) < 2.0


def test_kv_expiry_is_counted_on_prefill_and_some_reads_fail():
    fleet = Fleet(middle(), START)
    start_incident(fleet, "kv-expiry", at=START + MINUTE)
    state = watched(fleet, START + 6 * MINUTE).state(START + 2 * MINUTE, START + 6 * MINUTE)
    prefill, decode = state.pools["prefill"].kv_transfer, state.pools["decode"]
    finished = sum(decode.outcomes.values())
    assert prefill.expired is not None
    assert prefill.after_expiry is not None
    assert 0.15 < prefill.expired / finished < 0.25
    assert 0 < decode.outcomes["error"] < prefill.expired
    assert prefill.after_expiry == pytest.approx(prefill.expired - decode.outcomes["error"], abs=3)
    assert "kv_expired" in problems(state)


def test_a_transfer_stall_ends_all_first_tokens_until_it_is_over():
    fleet = Fleet(middle(), START)
    start_incident(fleet, "transfer-stall", at=START + 2 * MINUTE, until=START + 6 * MINUTE)
    seen = watched(fleet, START + 8 * MINUTE)
    stalled = seen.state(START + 3 * MINUTE, START + 6 * MINUTE - 1)
    assert stalled.pools["decode"].kv_transfer.transfers == 0
    fleet_stall = truth(fleet, START + 3 * MINUTE, START + 6 * MINUTE)
    assert fleet_stall.decode_ttft.count == 0
    assert fleet.walked_away > 40
    assert truth(fleet, START + 6 * MINUTE, START + 8 * MINUTE).decode_ttft.count > 100


def test_a_stalled_transfer_and_a_frozen_engine_are_problems_of_the_watch():
    stalled, frozen = Fleet(middle(), START), Fleet(middle(), START)
    start_incident(stalled, "transfer-stall", at=START + 3 * MINUTE)
    start_incident(frozen, "frozen-engine", engine=2, at=START + 3 * MINUTE)
    state = watched(stalled, START + 7 * MINUTE).state(START + 2 * MINUTE, START + 7 * MINUTE)
    assert "kv_stalled" in problems(state)
    state = watched(frozen, START + 7 * MINUTE).state(START + 2 * MINUTE, START + 7 * MINUTE)
    # its requests wait for KV as well, and clients that go away leave prefill legs without decode legs
    assert ("engine_frozen", "2") in {(problem.code, problem.engine) for problem in state.problems}
    assert {problem.engine for problem in state.problems} <= {"2", None}


def test_a_frozen_engine_shows_the_same_page_and_goes_on_later():
    fleet = Fleet(small(), START)
    fleet.arrivals.rate_factor = 0.0
    fleet.expect_arrivals(START)
    request = fleet.submit(START, 20_000, 0, 2000, "stop")
    start_incident(fleet, "frozen-engine", at=START + 10, until=START + 70)
    fleet.advance(START + 10)
    page = fleet.page("decode-0")
    fleet.advance(START + 69)
    assert fleet.page("decode-0") == page
    assert page is not None
    assert 'vllm:num_requests_running{engine="0",model_name="zai-org/GLM-5.2"} 1.0' in page
    fleet.advance(START + 200)
    assert request.last_token is not None
    assert request.last_token - request.arrived > 60 + 2000 * 0.012
    whole = truth(fleet, START, fleet.now)
    assert whole.tokens_after_first == 1999
    assert whole.step_seconds == pytest.approx(whole.decode_time.values[0], rel=1e-7)
    after = fleet.page("decode-0")
    assert after is not None
    assert 'inter_token_latency_seconds_bucket{engine="0",le="40.0",model_name="zai-org/GLM-5.2"} ' in after
    counts = {
        le: float(value)
        for line in after.splitlines()
        if line.startswith('vllm:inter_token_latency_seconds_bucket{engine="0"')
        for le, value in [(line.split('le="')[1].split('"')[0], line.split()[-1])]
    }
    assert counts["80.0"] - counts["40.0"] == 1
    assert counts["+Inf"] == whole.steps


def test_clients_that_go_away_leave_prefill_legs_without_decode_legs():
    fleet = Fleet(middle(), START)
    start_incident(fleet, "clients-gone", at=START + MINUTE)
    state = watched(fleet, START + 6 * MINUTE).state(START + 2 * MINUTE, START + 6 * MINUTE)
    legs = state.system.legs
    assert legs is not None
    assert 0.3 < legs.unmatched / legs.prefill < 0.5
    assert {"legs_unmatched", "kv_expired"} <= problems(state)


def test_prefill_overload_grows_the_prefill_queue_and_not_decode():
    fleet, healthy, during = before_and_during("prefill-overload", 6)
    assert mean(during.prefill_queue.mean) > 10 * mean(healthy.prefill_queue.mean)
    assert mean(during.user_ttft.mean) > 5.0
    assert mean(during.tpot.mean) < 0.020
    usage = max(engine.metrics.gauges["kv_usage"] for engine in fleet.decode_engines())
    assert usage < 0.6


def test_a_rollout_restarts_each_server_once_and_decode_last():
    fleet = Fleet(small(), START)
    start_incident(fleet, "rollout", at=START + 5 * MINUTE)
    seen = watched(fleet, START + 30 * MINUTE)
    assert [server.lives for server in fleet.servers.values()] == [2, 2]
    down = {target: max(b - a for a, b in pairwise(t)) for target, t in seen.times.items()}
    assert all(140 < seconds < 220 for seconds in down.values())
    assert fleet.rejected > 0


def test_a_quiet_night_ebbs_away_and_comes_back():
    fleet = Fleet(middle(), START)
    start_incident(fleet, "quiet-night", at=START + MINUTE, until=START + 31 * MINUTE, ramp_seconds=600.0)
    fleet.advance(START + 50 * MINUTE)
    assert truth(fleet, START + 15 * MINUTE, START + 31 * MINUTE).prefill_ttft.count == 0
    assert truth(fleet, START + 45 * MINUTE, START + 50 * MINUTE).prefill_ttft.count > 250


def test_low_traffic_has_one_slow_request_among_a_few():
    fleet = Fleet(middle(), START)
    start_incident(fleet, "low-traffic", at=START + MINUTE)
    fleet.advance(START + 31 * MINUTE)
    few = truth(fleet, START + 2 * MINUTE, fleet.now).user_ttft
    assert 5 <= few.count <= 30
    assert few.values[-1] > 8.0
    assert few.values[-2] < 8.0


def test_a_diurnal_day_swings_between_night_and_peak():
    fleet = Fleet(small(), START - 9 * 3600, remember_seconds=None)
    start_incident(fleet, "diurnal")
    fleet.advance(START + 4 * 3600)
    night = truth(fleet, START - 9 * 3600, START - 8 * 3600).prefill_ttft.count
    day = truth(fleet, START + 2.5 * 3600, START + 3.5 * 3600).prefill_ttft.count
    assert day > 5 * max(1, night)


def test_a_leak_grows_one_process_in_a_straight_line():
    fleet = Fleet(small(), START)
    start_incident(fleet, "leak", at=START + 3600, bytes_per_hour=6e9)
    sizes: dict[str, list[int]] = {}
    for hour in (1, 2, 3):
        fleet.advance(START + hour * 3600)
        for sample in fleet.processes("decode-0").processes:
            assert sample.anon_bytes is not None
            sizes.setdefault(sample.title, []).append(sample.anon_bytes)
    first, second, third = sizes.pop("VLLM::Worker_DP0_EP0")
    assert second - first == pytest.approx(6e9, rel=0.02)
    assert third - second == pytest.approx(6e9, rel=0.02)
    assert all(abs(later - earlier) < 64e6 for earlier, _, later in sizes.values())


@pytest.mark.parametrize("name", [name for name in INCIDENTS if name not in ("rollout", "leak", "low-traffic")])
def test_every_incident_that_ends_leaves_a_healthy_fleet(name: str):
    fleet = Fleet(middle(), START)
    options = {"ramp_seconds": 60.0} if name == "quiet-night" else {}
    start_incident(fleet, name, at=START + MINUTE, until=START + 2 * MINUTE, **options)
    fleet.advance(START + 9 * MINUTE)
    after = truth(fleet, START + 6 * MINUTE, fleet.now)
    assert mean(after.user_ttft.mean) < 2.2
    assert mean(after.tpot.mean) < 0.018
    assert set(after.finished) <= {"stop", "length"}


def test_an_unknown_incident_or_option_is_said_with_the_nearest_name():
    fleet = Fleet(small(), START)
    with pytest.raises(ConfigError, match="did you mean 'mtp-collapse'"):
        start_incident(fleet, "mtp-colapse")
    with pytest.raises(ConfigError, match="has no option 'speed'; it has factor"):
        start_incident(fleet, "kv-slow", speed=3)
    start_incident(fleet, "leak", target="decode-9")
    with pytest.raises(ConfigError, match="no server 'decode-9'"):
        fleet.advance(START + 1)
