"""What pdwatch says of itself. In: nothing. Out: rows."""

from __future__ import annotations

from collections.abc import Iterator

from agent.catalogue.metric import Row


def own_rows() -> Iterator[Row]:
    """Cost of pdwatch itself, its defects and exports."""
    yield "build_info", "info", "", ("version", "python"), "Version of pdwatch."
    yield "agent_start_time_seconds", "gauge", "seconds", (), "When pdwatch started, unix time."
    yield "agent_cpu_seconds_total", "counter", "seconds", (), "CPU time that pdwatch used."
    yield "agent_resident_memory_bytes", "gauge", "bytes", (), "Resident memory of pdwatch."
    yield "agent_loop_lag_seconds", "gauge", "seconds", (), "Longest delay of the event loop in the last minute."
    yield "agent_state_build_seconds", "gauge", "seconds", (), "Time the last state took to compute."
    yield "agent_observations_total", "counter", "", (), "Pages, failures and process readings taken in."
    yield "agent_ignored_observations_total", "counter", "", (), "Observations of targets that are not configured."
    yield "agent_skipped_scrapes_total", "counter", "", (), "Scrapes left out because the one before still ran."
    yield "agent_errors_total", "counter", "", ("where",), "Defects of pdwatch that were caught; each is logged."
    yield (
        "agent_otlp_exports_total",
        "counter",
        "",
        ("result",),
        "Exports over OTLP: ok, failed, or skipped as one ran.",
    )
