"""Metrics of the targets and of the memory of their processes. In: nothing. Out: rows."""

from __future__ import annotations

from collections.abc import Iterator

from agent.catalogue.metric import PROCESS, TARGET, Row


def target_rows() -> Iterator[Row]:
    """How each page comes."""
    yield "up", "gauge", "", TARGET, "1 when the last page came, could be used and is fresh; else 0."
    yield "data_age_seconds", "gauge", "seconds", TARGET, "Age of the last usable page."
    yield "scrape_duration_seconds", "gauge", "seconds", TARGET, "Time the last usable page took to fetch."
    yield "page_bytes", "gauge", "bytes", TARGET, "Size of the last usable page."
    yield "page_samples", "gauge", "", TARGET, "Samples on the last usable page."
    yield "scrapes_total", "counter", "", TARGET, "Pages taken."
    yield (
        "scrape_failures_total",
        "counter",
        "",
        ("pool", "target", "reason"),
        "Pages that did not come or could not be used.",
    )


def memory_rows() -> Iterator[Row]:
    """Memory and its trend, by process."""
    yield "rss_bytes", "gauge", "bytes", PROCESS, "Resident memory."
    yield "anonymous_bytes", "gauge", "bytes", PROCESS, "Resident anonymous memory."
    yield "swap_bytes", "gauge", "bytes", PROCESS, "Swapped memory."
    yield "limit_bytes", "gauge", "bytes", PROCESS, "What the memory may grow to."
    yield "slope_bytes_per_hour", "gauge", "bytes/hour", PROCESS, "Growth of the memory that counts against the limit."
    yield "slope_low_bytes_per_hour", "gauge", "bytes/hour", PROCESS, "Lower end of the 95 % interval of the slope."
    yield "slope_high_bytes_per_hour", "gauge", "bytes/hour", PROCESS, "Upper end of the 95 % interval of the slope."
    yield "time_to_limit_seconds", "gauge", "seconds", PROCESS, "Until the limit is reached at this slope."
    yield "time_to_limit_low_seconds", "gauge", "seconds", PROCESS, "Earliest end of the 95 % interval until the limit."
    yield "trend", "gauge", "", (*PROCESS, "trend"), "1 for the trend that the process has now."
