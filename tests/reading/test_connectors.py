"""Other connectors' families: which series are read, which never, and NIXL's own exporter."""

from __future__ import annotations

import pytest

from agent.errors import NotVllm
from agent.reading.names import NAMES, missing
from agent.reading.nixl_agent import nixl_agent
from agent.reading.page import PageReader
from agent.windows.target import TargetWindow
from tests.pages import counter, histogram, page
from tests.reading.test_routers import counters, histograms

ENGINE = counter("vllm:generation_tokens_total", 5)


def store(operation: str, status: str, n: int, each: float) -> str:
    buckets = {0.1: n if each <= 0.1 else 0, 4.0: n}
    return histogram(
        "vllm:mooncake_store_operation_time_seconds", buckets, n * each, operation=operation, status=status
    )


def test_of_mooncakes_store_the_time_of_loads_that_succeeded_is_read():
    text = page(
        ENGINE,
        store("load_get", "ok", 4, 0.05),
        store("load_get", "error", 2, 3.0),
        store("save_put", "ok", 9, 1.0),
        counter("vllm:mooncake_store_operation_bytes_total", 800, operation="load_get", status="ok"),
        counter("vllm:mooncake_store_operation_bytes_total", 900, operation="save_put", status="ok"),
    )
    reading = PageReader().read(1.0, "decode-0", text)
    count, total = histograms(reading)["mooncake_load_time"]
    assert count == 4.0
    assert total == pytest.approx(0.2)
    assert counters(reading)["mooncake_bytes", "load_get"] == 800
    assert counters(reading)["mooncake_bytes", "save_put"] == 900


def test_a_line_of_an_operation_that_is_not_read_may_change_freely():
    reader, window = PageReader(), TargetWindow(900.0)
    for t, saved in enumerate((9, 12, 15)):
        text = page(ENGINE, store("load_get", "ok", 4 + t, 0.05), store("save_put", "ok", saved, 1.0))
        reading = reader.read(float(t), "decode-0", text)
        assert reading.fresh == (t == 0)
        window.take(reading)
    assert window.increases(0.0, 5.0).engines["0"].histograms["mooncake_load_time"].count == 2


def test_lmcache_on_vllms_page_belongs_to_the_target():
    text = page(ENGINE, histogram("lmcache:time_to_retrieve", {0.5: 3}, 0.6, None, worker_id="0", role="worker"))
    reading = PageReader().read(1.0, "decode-0", text)
    assert histograms(reading)["lmcache_retrieve_time"] == (3.0, 0.6)
    assert reading.layout.engines == ("0",)


def test_a_page_without_other_connectors_lacks_nothing_by_it():
    reading = PageReader().read(1.0, "decode-0", page(ENGINE))
    optional = {name.key for name in NAMES if name.optional}
    assert optional
    assert optional.isdisjoint(name.key for name in missing(reading.layout.names))


def test_the_page_of_nixls_exporter_gives_its_counters():
    labels = {"agent_name": "a", "hostname": "h"}
    text = page(
        counter("agent_tx_bytes_total", 0, None, category="TRANSFER", **labels),
        counter("agent_rx_bytes_total", 5000, None, category="TRANSFER", **labels),
        counter("agent_xfer_time_total", 250000, None, category="PERFORMANCE", **labels),
        counter("agent_memory_registered_total", 900, None, category="MEMORY", **labels),
        counter("agent_errors_total", 2, None, status="backend", **labels),
    )
    reading = PageReader(vocabulary=nixl_agent()).read(1.0, "decode-0", text)
    assert counters(reading) == {
        ("nixl_sent_bytes", ""): 0,
        ("nixl_received_bytes", ""): 5000,
        ("nixl_transfer_microseconds", ""): 250000,
        ("nixl_registered_bytes", ""): 900,
        ("nixl_errors", "backend"): 2,
    }
    with pytest.raises(NotVllm, match="NIXL"):
        PageReader(vocabulary=nixl_agent()).read(1.0, "decode-0", page(ENGINE))
