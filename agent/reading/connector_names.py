"""What KV connectors other than NIXL put on a vLLM server's page. In: nothing. Out: rows for the table of names.

Each connector keeps its own logical metrics, because several can stand on one page (MultiConnector) and their
observations are not of one kind: a NIXL handle, a store's request, an offload operation. Which one is shown, and under
which name, is decided where the indicator is made (`agent.indicators.connectors`).

Of Mooncake's store only loads that succeeded have their time read: saves run beside the requests.
"""

from __future__ import annotations

from agent.reading.name import ALL_LABELS, Kind, Name

LOSES = "what another connector than NIXL moved"


def _row(metric: str, kind: Kind, alias: str, own_label: str = "", since: str = "") -> Name:
    return Name(
        metric, kind, (alias,), own_label=own_label, since=since, loses=LOSES, raw_labels=ALL_LABELS, optional=True
    )


def _lmcache(metric: str, kind: Kind, bare: str) -> Name:
    aliases = (f"lmcache:{bare}", f"lmcache_{bare}")
    return Name(metric, kind, aliases, per_engine=False, vllm=False, loses=LOSES, raw_labels=ALL_LABELS, optional=True)


CONNECTOR_NAMES: tuple[Name, ...] = (
    # -- MooncakeStoreConnector ------------------------------------------------------------------------------------
    Name(
        "mooncake_load_time",
        "histogram",
        ("mooncake_store_operation_time_seconds",),
        since="0.26.0",
        loses=LOSES,
        raw_labels=ALL_LABELS,
        only=(("operation", ("load_get",)), ("status", ("ok",))),
        optional=True,
    ),
    _row("mooncake_bytes", "counter", "mooncake_store_operation_bytes_total", own_label="operation", since="0.26.0"),
    _row(
        "mooncake_failed_keys",
        "counter",
        "mooncake_store_operation_failed_keys_total",
        own_label="operation",
        since="0.26.0",
    ),
    # -- OffloadingConnector ---------------------------------------------------------------------------------------
    _row("offload_load_size", "histogram", "kv_offload_load_size", since="0.26.0"),
    _row("offload_load_bytes", "counter", "kv_offload_load_bytes_total", since="0.26.0"),
    _row("offload_load_seconds", "counter", "kv_offload_load_time_total", since="0.26.0"),
    _row("offload_store_bytes", "counter", "kv_offload_store_bytes_total", since="0.26.0"),
    _row("offload_allocation_failures", "counter", "kv_offload_allocation_failure_total", since="0.26.0"),
    # -- HF3FSKVConnector ------------------------------------------------------------------------------------------
    _row("hf3fs_load_time", "histogram", "hf3fs_load_duration_seconds", since="0.20.0"),
    _row("hf3fs_failed_loads", "counter", "hf3fs_num_failed_load_total", since="0.20.0"),
    _row("hf3fs_failed_saves", "counter", "hf3fs_num_failed_save_total", since="0.20.0"),
    # -- LMCache (its own package; on vLLM's page when both share a registry) ----------------------------------------
    _lmcache("lmcache_retrieve_time", "histogram", "time_to_retrieve"),
    _lmcache("lmcache_p2p_time", "histogram", "p2p_time_to_transfer"),
    _lmcache("lmcache_remote_read_bytes", "counter", "num_remote_read_bytes_total"),
    _lmcache("lmcache_forced_unpins", "counter", "forced_unpin_count_total"),
)
"""Families of connectors that record what they move."""
