"""KV connectors: whichever recorded what it moves comes in, one KV transfer indicator goes out, its source named.

Observations of two connectors are never added: one of NIXL's is a handle, one of Mooncake's a store request, one of
offloading's an operation. Where several stand on a page, the one that moved something is shown, in the order below.
Times are those of loads, which a request waits for; saves run beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agent.indicators.distribution import distribution, without_numbers
from agent.state import Distribution
from agent.windows.increase import HistogramIncrease, Increase


@dataclass(frozen=True, slots=True)
class Moved:
    """What one connector moved in a window. `transfer_seconds`: the sum of all times; `failed`: as it counts failures.

    None: it does not record that.
    """

    transfers: float
    time: Distribution
    transfer_seconds: float | None
    moved_bytes: float | None
    failed: float | None
    post_time: Distribution | None = None
    registered_growth_bytes: float | None = None


Reads = Callable[[Increase], Moved | None]
"""None: nothing of this connector is on the pages."""


def moved(increase: Increase) -> tuple[str, Moved] | None:
    """(source, what it moved): the first connector that moved something, else the first on the pages; None for none."""
    present = [(source, found) for source, read in CONNECTORS if (found := read(increase)) is not None]
    return next((entry for entry in present if entry[1].transfers > 0), present[0] if present else None)


def _nixl(increase: Increase) -> Moved | None:
    times, sizes = increase.histograms.get("kv_transfer_time"), increase.histograms.get("kv_bytes")
    failed = increase.count("kv_failed_transfers")
    if times is None and sizes is None and failed is None:
        return None
    return Moved(
        transfers=0.0 if times is None else times.count,
        time=distribution("kv_transfer_time", times),
        transfer_seconds=_total(times),
        moved_bytes=_total(sizes),
        failed=failed,
        post_time=distribution("kv_post_time", increase.histograms.get("kv_post_time")),
    )


def _mooncake(increase: Increase) -> Moved | None:
    times = increase.histograms.get("mooncake_load_time")
    sizes = increase.labels("mooncake_bytes")
    if times is None and not sizes:
        return None
    failed = increase.labels("mooncake_failed_keys")
    return Moved(
        transfers=0.0 if times is None else times.count,
        time=distribution("mooncake_load_time", times),
        transfer_seconds=_total(times),
        moved_bytes=sizes.get("load_get"),
        failed=sum(failed.values()) if failed else None,
    )


def _offloading(increase: Increase) -> Moved | None:
    sizes = increase.histograms.get("offload_load_size")
    seconds, loaded = increase.count("offload_load_seconds"), increase.count("offload_load_bytes")
    if sizes is None and loaded is None:
        return None
    loads = 0.0 if sizes is None else sizes.count
    return Moved(
        transfers=loads,
        time=_mean_only(seconds, loads),
        transfer_seconds=seconds,
        moved_bytes=loaded if loaded is not None else _total(sizes),
        failed=increase.count("offload_allocation_failures"),
    )


def _hf3fs(increase: Increase) -> Moved | None:
    times = increase.histograms.get("hf3fs_load_time")
    if times is None:
        return None
    failed = [increase.count("hf3fs_failed_loads"), increase.count("hf3fs_failed_saves")]
    known = [count for count in failed if count is not None]
    return Moved(
        transfers=times.count,
        time=distribution("hf3fs_load_time", times),
        transfer_seconds=_total(times),
        moved_bytes=None,
        failed=sum(known) if known else None,
    )


def _lmcache(increase: Increase) -> Moved | None:
    times = increase.histograms.get("lmcache_p2p_time")
    if times is None or not times.count:
        times = increase.histograms.get("lmcache_retrieve_time") or times
    if times is None:
        return None
    return Moved(
        transfers=times.count,
        time=distribution("lmcache_retrieve_time", times),
        transfer_seconds=_total(times),
        moved_bytes=increase.count("lmcache_remote_read_bytes"),
        failed=increase.count("lmcache_forced_unpins"),
    )


def nixl_agent(increase: Increase) -> Moved | None:
    """What the page of NIXL's own exporter says; times are means, as it only counts.

    `registered_growth_bytes`: memory registered minus deregistered in the window. Registered memory that only grows
    while a server serves is leaking: every transfer's buffer should be given back.
    """
    requests = [increase.count("nixl_sent_requests"), increase.count("nixl_received_requests")]
    if None in requests:
        return None
    transfers = sum(count for count in requests if count is not None)
    sizes = [increase.count("nixl_sent_bytes"), increase.count("nixl_received_bytes")]
    micros, post = increase.count("nixl_transfer_microseconds"), increase.count("nixl_post_microseconds")
    registered, given_back = increase.count("nixl_registered_bytes"), increase.count("nixl_deregistered_bytes")
    errors = increase.labels("nixl_errors")
    return Moved(
        transfers=transfers,
        time=_mean_only(_seconds(micros), transfers),
        transfer_seconds=_seconds(micros),
        moved_bytes=sum(size for size in sizes if size is not None),
        failed=sum(errors.values()) if errors else None,
        post_time=_mean_only(_seconds(post), transfers),
        registered_growth_bytes=registered - given_back if registered is not None and given_back is not None else None,
    )


CONNECTORS: tuple[tuple[str, Reads], ...] = (
    ("nixl", _nixl),
    ("mooncake-store", _mooncake),
    ("lmcache", _lmcache),
    ("hf3fs", _hf3fs),
    ("offloading", _offloading),
    ("nixl-agent", nixl_agent),
)
"""What moves KV between pools first, what only keeps it last."""


def _mean_only(seconds: float | None, count: float) -> Distribution:
    if seconds is None:
        return without_numbers("metric_missing")
    if count <= 0:
        return without_numbers("no_data")
    return Distribution("ok", count=round(count), mean=seconds / count, derived=True)


def _total(histogram: HistogramIncrease | None) -> float | None:
    return histogram.total if histogram is not None and not histogram.unsummed else None


def _seconds(microseconds: float | None) -> float | None:
    return None if microseconds is None else microseconds / 1e6
