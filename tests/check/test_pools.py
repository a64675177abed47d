"""What pages say against each other: differences inside and between pools, one server seen twice, roles, rates."""

from __future__ import annotations

import pytest

from agent.check.seen import kv_capacity_tokens, see
from agent.check.traffic import observation_rate
from agent.config import Objective
from tests.check.fleet import NOW, answer, checked, codes, configured, only, prefill_page, vllm_page

TWO = {"decode": ["decode-0", "decode-1"]}
BOTH = {"prefill": ["prefill-0"], "decode": ["decode-0"]}


def test_targets_of_one_pool_with_different_engines_models_versions_and_edges_are_named() -> None:
    other = vllm_page(700, engines=2, started=NOW - 5).replace('"demo"', '"tiny"').replace('le="0.025"', 'le="0.02"')
    report = checked(
        configured(TWO),
        answer("decode-0", vllm_page(), version="0.29.0"),
        answer("decode-1", other, version="0.32.0"),
    )
    assert {"engines_differ", "models_differ", "versions_differ", "mixed_buckets"} <= set(codes(report))
    assert only(report, "engines_differ")[0].text == "different numbers of engines: 1 (decode-0); 2 (decode-1)"
    assert only(report, "mixed_buckets")[0].text.startswith("different bucket edges for itl, tpot:")
    assert "--custom-histogram-buckets" in only(report, "mixed_buckets")[0].help


def test_equal_targets_do_not_differ() -> None:
    report = checked(
        configured(TWO),
        answer("decode-0", vllm_page(), version="0.32.0"),
        answer("decode-1", vllm_page(700, started=NOW - 5), version="0.32.0"),
    )
    assert {"engines_differ", "models_differ", "versions_differ", "mixed_buckets", "same_process"}.isdisjoint(
        codes(report)
    )


def test_pools_with_different_models_or_versions_are_named_once() -> None:
    report = checked(
        configured(BOTH),
        answer("prefill-0", prefill_page().replace('"demo"', '"other"'), version="0.29.0"),
        answer("decode-0", vllm_page(), version="0.32.0"),
    )
    assert only(report, "models_differ")[0].text == "pool prefill serves other, pool decode demo"
    assert len(only(report, "versions_differ")) == 1


def test_two_addresses_of_one_server_are_found_by_counts_that_interlock() -> None:
    report = checked(
        configured(TWO),
        answer("decode-0", vllm_page(1000), vllm_page(1020)),
        answer("decode-1", vllm_page(1005), vllm_page(1025)),
    )
    (found,) = only(report, "same_process")
    assert (found.level, found.where) == ("error", ("decode-0", "decode-1"))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([vllm_page(1000), vllm_page(1020)], [vllm_page(1030), vllm_page(1050)]),
        ([vllm_page(1000)], [vllm_page(1000, started=NOW - 77.0)]),
        ([vllm_page(0)], [vllm_page(0)]),
        ([vllm_page(1000), vllm_page(1020)], [vllm_page(1005, tpot_seconds=0.018), vllm_page(1025, within_edge=0.4)]),
    ],
    ids=["counts pass each other", "another start", "nothing happened", "another mix"],
)
def test_two_servers_are_not_taken_for_one(first: list[str], second: list[str]) -> None:
    report = checked(configured(TWO), answer("decode-0", *first), answer("decode-1", *second))
    assert "same_process" not in codes(report)


def test_a_prefill_server_in_the_decode_pool_is_told_by_its_one_token_requests() -> None:
    (found,) = only(
        checked(configured(TWO), answer("decode-0", vllm_page()), answer("decode-1", prefill_page())), "role_mismatch"
    )
    assert found.where == ("decode-1",)
    assert found.text.startswith("since its server started: all requests of decode pool decode had one token")


def test_a_decode_server_in_the_prefill_pool_is_told_by_kv_from_elsewhere() -> None:
    report = checked(
        configured(BOTH), answer("prefill-0", vllm_page()), answer("decode-0", vllm_page(700, started=NOW - 5))
    )
    (found,) = only(report, "role_mismatch")
    assert found.where == ("prefill-0",)
    assert "KV from elsewhere" in found.text


def test_what_happens_now_decides_before_what_happened_once() -> None:
    once_prefill = prefill_page(1000, started=NOW - 10_000)
    now_decode = _added(once_prefill, vllm_page(50, started=0.0))
    now = checked(configured({"decode": ["decode-0"]}), answer("decode-0", once_prefill, now_decode))
    assert "role_mismatch" not in codes(now)
    too_few = _added(once_prefill, vllm_page(5, started=0.0))
    since_start = checked(configured({"decode": ["decode-0"]}), answer("decode-0", once_prefill, too_few))
    assert "role_mismatch" in codes(since_start)


def _added(one: str, other: str) -> str:
    """A page that counts what both count; series of `other` alone are left out."""
    values = dict(line.rsplit(" ", 1) for line in other.splitlines() if not line.startswith("#"))
    lines = []
    for line in one.splitlines():
        key, _, value = line.rpartition(" ")
        lines.append(line if line.startswith("#") else f"{key} {float(value) + float(values.get(key, 0.0))!r}")
    return "\n".join(lines) + "\n"


OBJECTIVE = Objective(indicator="tpot", scope="decode", target=0.02)


def test_a_window_that_holds_too_few_requests_names_one_that_holds_enough() -> None:
    slow = vllm_page(20, started=NOW - 1000.0)
    report = checked(configured({"decode": ["decode-0"]}, [OBJECTIVE]), answer("decode-0", slow, slow))
    (found,) = only(report, "window_too_short")
    assert found.text == (
        "at 0.02 requests/s (since the servers started) a 5m window holds 6 requests, "
        "fewer than min_requests 20: insufficient data"
    )
    assert found.help == "a window of 30m would hold 36; or lower min_requests"


def test_the_rate_is_that_of_now_where_enough_happened_between_the_pages() -> None:
    (pool,) = see(configured({"decode": ["decode-0"]}), [answer("decode-0", vllm_page(1000), vllm_page(1050))])
    rate = observation_rate(pool, "tpot")
    assert rate is not None
    assert rate.per_second == pytest.approx(10.0)
    assert rate.basis == "between the two fetches"


def test_without_any_request_nothing_is_said_about_windows() -> None:
    idle = vllm_page(0)
    report = checked(configured({"decode": ["decode-0"]}, [OBJECTIVE]), answer("decode-0", idle, idle))
    assert "window_too_short" not in codes(report)
    assert only(report, "rate_unknown")[0].where == ("objective tpot",)


@pytest.mark.parametrize(
    ("labels", "tokens"),
    [
        ('kv_cache_size_tokens="699008",num_gpu_blocks="10922",block_size="128"', 699_008),
        ('num_gpu_blocks="10922",block_size="128"', 699_008),
        ('num_gpu_blocks="None",block_size="128"', None),
    ],
)
def test_kv_capacity_is_per_engine_though_blocks_are_counted_over_all(labels: str, tokens: int | None) -> None:
    text = vllm_page(engines=2, without=["cache_config_info"]) + "# TYPE vllm:cache_config_info gauge\n"
    text += "".join(f'vllm:cache_config_info{{{labels},engine="{engine}"}} 1.0\n' for engine in "01")
    (pool,) = see(configured({"decode": ["decode-0"]}), [answer("decode-0", text)])
    reading = pool.targets[0].latest
    assert reading is not None
    assert kv_capacity_tokens(reading) == ({} if tokens is None else {"0": tokens, "1": tokens})
