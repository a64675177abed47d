"""One KV transfer indicator, whichever connector recorded it, and the connector's name beside it."""

from __future__ import annotations

import pytest

from agent.indicators.connectors import nixl_agent
from agent.indicators.transfer import kv_transfer
from agent.windows.increase import CounterKey, HistogramIncrease, Increase


def times(n: float, each: float) -> HistogramIncrease:
    return HistogramIncrease((0.1, 1.0), [n if each <= 0.1 else 0.0, n if each > 0.1 else 0.0, 0.0], n * each)


def gained(counters: dict[CounterKey, float] | None = None, **histograms: HistogramIncrease) -> Increase:
    return Increase(counters=counters or {}, histograms=histograms)


def test_without_a_connector_nothing_is_known():
    found = kv_transfer(gained({("prompt_tokens", ""): 1.0}), "decode", 300.0)
    assert (found.source, found.transfers, found.bytes, found.failed) == (None, None, None, None)
    assert found.time.status == "metric_missing"


def test_nixl_is_shown_where_it_is_the_only_one():
    found = kv_transfer(
        gained({("kv_failed_transfers", ""): 1.0}, kv_transfer_time=times(4, 0.5), kv_bytes=times(4, 1000.0)),
        "decode",
        10.0,
    )
    assert (found.source, found.transfers, found.bytes, found.failed) == ("nixl", 4, 4000, 1)
    assert found.time.mean == 0.5
    assert found.bytes_per_s == 400.0
    assert found.handle_bytes_per_s == 2000.0


def test_a_connector_that_moved_something_goes_before_nixls_zeros():
    idle = times(0, 0.5)
    found = kv_transfer(
        gained(
            {
                ("mooncake_bytes", "load_get"): 900.0,
                ("mooncake_bytes", "save_put"): 5.0,
                ("mooncake_failed_keys", "load_get"): 2.0,
            },
            kv_transfer_time=idle,
            mooncake_load_time=times(3, 0.05),
        ),
        "decode",
        10.0,
    )
    assert (found.source, found.transfers, found.bytes, found.failed) == ("mooncake-store", 3, 900, 2)
    assert found.time.mean == pytest.approx(0.05)


def test_nothing_of_two_connectors_is_added():
    found = kv_transfer(gained(kv_transfer_time=times(4, 0.5), hf3fs_load_time=times(9, 0.05)), "decode", 10.0)
    assert (found.source, found.transfers) == ("nixl", 4)


def test_offloading_gives_a_mean_without_percentiles():
    found = kv_transfer(
        gained({("offload_load_seconds", ""): 3.0, ("offload_load_bytes", ""): 600.0}, offload_load_size=times(6, 0.5)),
        "decode",
        10.0,
    )
    assert (found.source, found.transfers, found.bytes, found.time.mean) == ("offloading", 6, 600, 0.5)
    assert found.time.derived
    assert set(found.time.quantiles.values()) == {None}
    assert found.handle_bytes_per_s == 200.0


def test_lmcache_shows_what_moved_between_servers_before_what_was_only_retrieved():
    found = kv_transfer(gained(lmcache_retrieve_time=times(9, 0.05), lmcache_p2p_time=times(2, 0.5)), "decode", 10.0)
    assert (found.source, found.transfers, found.time.mean) == ("lmcache", 2, 0.5)
    idle = kv_transfer(gained(lmcache_retrieve_time=times(9, 0.05), lmcache_p2p_time=times(0, 0.5)), "decode", 10.0)
    assert (idle.source, idle.transfers) == ("lmcache", 9)


def test_nixls_own_exporter_counts_in_microseconds_and_shows_memory_that_is_not_given_back():
    counters: dict[CounterKey, float] = {
        ("nixl_sent_requests", ""): 0.0,
        ("nixl_received_requests", ""): 4.0,
        ("nixl_sent_bytes", ""): 0.0,
        ("nixl_received_bytes", ""): 8000.0,
        ("nixl_transfer_microseconds", ""): 2000.0,
        ("nixl_post_microseconds", ""): 200.0,
        ("nixl_registered_bytes", ""): 700.0,
        ("nixl_deregistered_bytes", ""): 300.0,
        ("nixl_errors", "backend"): 1.0,
    }
    found = kv_transfer(gained(counters), "decode", 10.0)
    assert (found.source, found.transfers, found.bytes, found.failed) == ("nixl-agent", 4, 8000, 1)
    assert found.time.mean == pytest.approx(0.0005)
    assert found.post_time.mean == pytest.approx(0.00005)
    assert found.registered_growth_bytes == 400
    assert nixl_agent(gained()) is None
